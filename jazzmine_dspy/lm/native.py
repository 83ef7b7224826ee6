"""The clients of DSPy itself as an engine, so that any language model can be wrapped and told apart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast
from urllib.parse import urlsplit

import dspy
from dspy.clients.backend_selection import CLIENT_KEYS
from dspy.clients.execution import _engine, prepare
from dspy.lm15 import Request, Response

from jazzmine_dspy.lm.engines import Engine, engine_identity, unwrap, with_engine
from jazzmine_dspy.lm.errors import LMSettingsError
from jazzmine_dspy.lm.providers import (
    configure_for_provider,
    limit_name,
    native_limit_name,
    schema_support,
    with_limit_named,
)


class NativeEngine(Engine):
    """The engine that DSPy itself would choose for a language model.

    It makes one attempt a call, with the model's own key, address and timeout, and its errors are DSPy's. Retries,
    history, usage and callbacks stay with the outer language model.

    Args:
        lm: A language model without an engine of its own.
    """

    def __init__(self, lm: dspy.LM) -> None:
        self.lm = lm
        form = schema_support(lm)
        self.supports_response_schema = form in ("schema", "static")
        self.supports_function_calling = lm.supports_function_calling
        self.supports_reasoning = lm.supports_reasoning
        self.supported_params = {*lm.supported_params, *(("response_format",) if form != "none" else ())}

    @property
    def identity(self) -> str:
        """That of the language model."""
        return lm_identity(self.lm)

    def complete(self, request: Request) -> Response:
        """One attempt."""
        engine, native = self._client(request, asynchronous=False)
        return cast("Response", engine.complete(native))

    async def acomplete(self, request: Request) -> Response:
        """One attempt, by DSPy's asynchronous client."""
        engine, native = self._client(request, asynchronous=True)
        return cast("Response", await engine.complete(native))

    def stream(self, request: Request) -> Iterator[Any]:
        """One attempt, event by event as they come."""
        engine, native = self._client(request, asynchronous=False)
        yield from engine.stream(native)

    async def astream(self, request: Request) -> AsyncIterator[Any]:
        """One attempt, event by event as they come."""
        engine, native = self._client(request, asynchronous=True)
        async for event in engine.stream(native):
            yield event

    def _client(self, request: Request, *, asynchronous: bool) -> tuple[Any, Request]:
        request = with_limit_named(self.lm, request)
        call = prepare(self.lm, request, None, {"cache": False}, asynchronous=asynchronous)
        engine, native, _ = _engine(self.lm, call, asynchronous)
        return engine, native


def wrap(lm: dspy.LM, make: Callable[[Any], Engine]) -> dspy.LM:
    """A copy of a language model with an engine around its own.

    Args:
        lm: The language model.
        make: Makes the engine around the one that it is given.

    Raises:
        LMSettingsError: It is of the old kind, with a `forward` of its own.
    """
    if not isinstance(lm, dspy.LM):
        raise LMSettingsError(
            f"{type(lm).__name__} has no engine that could be wrapped",
            where=str(getattr(lm, "model", "")),
            remedy="Use dspy.LM, with an engine object if need be.",
        )
    lm = configure_for_provider(lm)
    return with_engine(lm, make(NativeEngine(lm) if isinstance(lm.engine, str) else lm.engine))


def limit_named(lm: dspy.LM) -> dspy.LM:
    """The language model itself, or a copy whose limit goes out under the user's name, or one that is accepted.

    DSPy's own client names the limit by itself, whatever name it was given.
    """
    if not isinstance(lm, dspy.LM) or not isinstance(lm.engine, str) or lm.model_type != "chat":
        return lm
    name = limit_name(lm)
    if name is None or native_limit_name(lm) in (None, name):
        return lm
    copied = with_engine(lm, NativeEngine(lm))
    copied.history = lm.history
    return copied


def lm_identity(lm: dspy.LM) -> str:
    """All that an answer of a language model to a given request depends on, as one line; without secrets.

    The model's name, its weights by SHA-256 where they are local, the engine's settings, sampling settings,
    and of an address only a digest.
    """
    lm, engine = unwrap(configure_for_provider(lm))
    kwargs = {key: value for key, value in lm.kwargs.items() if key not in CLIENT_KEYS and value is not None}
    parts = [lm.model, lm.model_type, json.dumps(kwargs, sort_keys=True, default=str)]
    if not isinstance(engine, str):
        parts.append(engine_identity(engine))
    elif address := lm.kwargs.get("api_base") or lm.kwargs.get("base_url"):
        url = urlsplit(str(address))
        without_user = url._replace(netloc=url.netloc.rpartition("@")[2], query="").geturl()
        parts.append("at " + hashlib.sha256(without_user.encode()).hexdigest()[:16])
    return " ".join(parts)
