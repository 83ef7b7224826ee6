"""What the tests of the language models share: requests, and an environment without proxies."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def ask() -> Callable[..., Any]:
    from dspy.lm15 import Config, Message, Request

    def make(
        text: str, *, system: str | None = None, schema: dict[str, Any] | None = None, **config: Any
    ) -> Any:
        if schema is not None:
            config["response_format"] = {"type": "json_schema", "name": "answer", "schema": schema}
        return Request(
            model="scripted/x",
            messages=(Message.user(text),),
            system=system,
            config=Config(**{"temperature": 0.0, "max_tokens": 24} | config),
        )

    return make


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
