"""Getting at the engine of any DSPy language model, and putting another around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import dspy
from dspy.clients.backend_selection import CLIENT_KEYS
from dspy.clients.execution import _engine, prepare
from dspy.lm15 import Request, Response

from jazzmine_dspy.lm.answer_limit import limit_name, native_limit_name, with_limit_named
from jazzmine_dspy.lm.asked import engine_identity
from jazzmine_dspy.lm.errors import LMSettingsError
from jazzmine_dspy.lm.fitting import fitted, support
from jazzmine_dspy.lm.identity import lm_identity
from jazzmine_dspy.lm.requests import small_events


class NativeEngine:
    """The engine that DSPy itself would choose for a language model, as an object that others can wrap.

    It makes one attempt a call, with the model's own key, address and timeout; retries, history, usage and
    callbacks stay with the language model that it is handed to.

    Args:
        lm: A language model without an engine of its own.
    """

    def __init__(self, lm: dspy.LM) -> None:
        self.lm = lm
        held = support(lm)
        self.supports_response_schema = held in ("schema", "static")
        self.supports_function_calling = lm.supports_function_calling
        self.supports_reasoning = lm.supports_reasoning
        self.supported_params = {*lm.supported_params, *(("response_format",) if held != "none" else ())}

    def __deepcopy__(self, memo: dict[int, Any]) -> NativeEngine:
        return self

    @property
    def identity(self) -> str:
        """That of the language model that it asks."""
        return lm_identity(self.lm)

    def complete(self, request: Request) -> Response:
        """One attempt; errors are DSPy's."""
        request = with_limit_named(self.lm, request)
        engine, native, _ = _engine(self.lm, prepare(self.lm, request, None, {"cache": False}), False)
        return cast("Response", engine.complete(native))

    def stream(self, request: Request) -> Iterator[Any]:
        """One attempt, event by event."""
        request = with_limit_named(self.lm, request)
        engine, native, _ = _engine(self.lm, prepare(self.lm, request, None, {"cache": False}), False)
        yield from engine.stream(native)

    def close(self) -> None:
        """Nothing: the connections belong to the language model."""


class AsyncNativeEngine:
    """The asynchronous twin of a `NativeEngine`.

    Args:
        engine: The synchronous engine.
    """

    def __init__(self, engine: NativeEngine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncNativeEngine:
        return self

    async def complete(self, request: Request) -> Response:
        """One attempt; errors are DSPy's."""
        lm = self.engine.lm
        request = with_limit_named(lm, request)
        engine, native, _ = _engine(lm, prepare(lm, request, None, {"cache": False}, asynchronous=True), True)
        return cast("Response", await engine.complete(native))

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """One attempt, event by event."""
        lm = self.engine.lm
        request = with_limit_named(lm, request)
        engine, native, _ = _engine(lm, prepare(lm, request, None, {"cache": False}, asynchronous=True), True)
        async for event in engine.stream(native):
            yield event

    async def aclose(self) -> None:
        """Nothing: the connections belong to the language model."""


class WrappedEngine:
    """Base of engines around an engine: hands on what that one can do and is.

    Args:
        inner: The engine within; None in the twin of an engine that is synchronous only.
        source: Where capabilities and identity are read; the synchronous engine, for either twin.
    """

    def __init__(self, inner: Any, source: Any) -> None:
        self.inner = inner
        self.supports_response_schema = bool(getattr(source, "supports_response_schema", False))
        self.supports_function_calling = bool(getattr(source, "supports_function_calling", False))
        self.supports_reasoning = bool(getattr(source, "supports_reasoning", False))
        self.supported_params = set(getattr(source, "supported_params", ()) or ())
        self.source = source

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    @property
    def identity(self) -> str:
        """Of the engine within: wrapping changes no answer."""
        return engine_identity(self.source)

    def close(self) -> None:
        """Nothing: the engine within is borrowed."""

    async def aclose(self) -> None:
        """Nothing: the engine within is borrowed."""

    def _events(self, request: Request) -> Iterator[Any]:
        stream = getattr(self.inner, "stream", None)
        return cast(
            "Iterator[Any]", stream(request) if stream else small_events(self.inner.complete(request))
        )

    async def _aevents(self, request: Request) -> AsyncIterator[Any]:
        if stream := getattr(self.inner, "stream", None):
            async for event in stream(request):
                yield event
        else:
            for event in small_events(await self.inner.complete(request)):
                yield event


def engines_of(lm: dspy.LM) -> tuple[Any, Any]:
    """The synchronous and asynchronous engines of a language model; the latter may be None.

    Raises:
        LMSettingsError: It is of the old kind, with a `forward` of its own.
    """
    if not isinstance(lm, dspy.LM):
        raise LMSettingsError(
            f"{type(lm).__name__} has no engine that could be wrapped",
            where=str(getattr(lm, "model", "")),
            remedy="Use dspy.LM, with an engine object if need be.",
        )
    lm = fitted(lm)
    if not isinstance(lm.engine, str):
        return lm.engine, lm._async_engine_spec
    native = NativeEngine(lm)
    return native, AsyncNativeEngine(native)


def with_engines(lm: dspy.LM, engine: Any, async_engine: Any) -> dspy.LM:
    """A copy of a language model that answers through other engines."""
    # An engine object owns its connection; DSPy refuses the settings of one beside it.
    dropped = {key: None for key in lm.kwargs if key in CLIENT_KEYS}
    return cast("dspy.LM", lm.copy(engine=engine, async_engine=async_engine, **dropped))


def limit_named(lm: dspy.LM) -> dspy.LM:
    """The language model itself, or a copy by which its limit goes out under the user's name, or one that is taken.

    DSPy's own client gives the limit a name of its own, whatever name it was handed.
    """
    if not isinstance(lm, dspy.LM) or not isinstance(lm.engine, str) or lm.model_type != "chat":
        return lm
    name = limit_name(lm)
    if name is None or native_limit_name(lm) in (None, name):
        return lm
    engine = NativeEngine(lm)
    made = with_engines(lm, engine, AsyncNativeEngine(engine))
    made.history = lm.history
    return made
