"""What all engines share: a deadline, one asynchronous form, events of a stream, a way around and into them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar, cast

import dspy
from dspy.clients.backend_selection import CLIENT_KEYS
from dspy.lm15 import Request, Response

from jazzmine_dspy.lm.requests import small_events
from jazzmine_dspy.models.base import Shared

T = TypeVar("T")

_deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar("jazzmine_lm_deadline", default=None)


@contextlib.contextmanager
def call_deadline(seconds: float | None) -> Iterator[None]:
    """Bound every call made inside, waiting for the slot included; the nearest of nested deadlines counts.

    Args:
        seconds: From now; None for no further limit.
    """
    token = _deadline.set(call_limit(seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def call_limit(timeout: float | None) -> float | None:
    """When a call that begins now must end, on the monotonic clock: the nearer of deadline and timeout."""
    limits = [] if timeout is None else [time.monotonic() + timeout]
    if (at := _deadline.get()) is not None:
        limits.append(at)
    return min(limits, default=None)


class Engine(Shared):
    """Base of engines: whoever writes one writes `complete`; the rest follows from it.

    An engine that can wait without a thread overrides `acomplete`, one whose tokens come one by one `stream` and
    `astream`. Copies of a program share it.
    """

    supports_response_schema = False
    supports_function_calling = False
    supports_reasoning = False
    supported_params: Collection[str] = frozenset()

    @property
    def identity(self) -> str:
        """All that an answer to a given request depends on."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def complete(self, request: Request) -> Response:
        """Answer a request."""
        raise NotImplementedError

    async def acomplete(self, request: Request) -> Response:
        """As `complete`, without blocking the event loop."""
        return await in_thread(self.complete, request)

    def stream(self, request: Request) -> Iterator[Any]:
        """As `complete`, in events."""
        yield from small_events(self.complete(request))

    async def astream(self, request: Request) -> AsyncIterator[Any]:
        """As `acomplete`, in events."""
        for event in small_events(await self.acomplete(request)):
            yield event

    def close(self) -> None:
        """Close what the engine opened."""


class AsyncEngine(Shared):
    """The asynchronous form of an engine, as DSPy calls it.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def complete(self, request: Request) -> Response:
        """As that of the engine."""
        return await self.engine.acomplete(request)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """As that of the engine."""
        async for event in self.engine.astream(request):
            yield event

    async def aclose(self) -> None:
        """Close the engine."""
        self.engine.close()


class Wrapper(Engine):
    """Base of engines around an engine: it has the capabilities and the identity of that one.

    Args:
        inner: The engine within. It is borrowed: closing the wrapper does not close it.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.supports_response_schema = bool(getattr(inner, "supports_response_schema", False))
        self.supports_function_calling = bool(getattr(inner, "supports_function_calling", False))
        self.supports_reasoning = bool(getattr(inner, "supports_reasoning", False))
        self.supported_params = set(getattr(inner, "supported_params", ()) or ())

    @property
    def identity(self) -> str:
        """Of the engine within: wrapping changes no answer."""
        return engine_identity(self.inner)


async def in_thread(call: Callable[..., T], *args: Any) -> T:
    """Call a function in a daemon thread of its own, with the caller's context.

    Cancelling leaves the thread behind; it does not delay other calls or the end of the process.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(call(*args))
        except BaseException as error:
            done.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="jazzmine-engine").start()
    return await asyncio.wrap_future(done)


async def events_in_thread(events: Iterator[T]) -> AsyncIterator[T]:
    """The events of a blocking iterator as they come; each is waited for in a thread."""
    end = object()
    while (event := await in_thread(next, events, end)) is not end:
        yield event


def with_engine(lm: dspy.LM, engine: Engine) -> dspy.LM:
    """A copy of a language model that answers through another engine."""
    # An engine object owns its connection; DSPy refuses connection settings next to it.
    dropped = {key: None for key in lm.kwargs if key in CLIENT_KEYS}
    return cast("dspy.LM", lm.copy(engine=engine, async_engine=AsyncEngine(engine), **dropped))


def unwrap(lm: dspy.LM) -> tuple[dspy.LM, Any]:
    """The language model that answers in the end, inside all wrappers, and its engine."""
    engine = getattr(lm, "engine", "auto")
    while isinstance(engine, Wrapper):
        engine = engine.inner
    if isinstance(native := getattr(engine, "lm", None), dspy.LM):
        # The engine only calls another language model, whose settings are not on the outer one.
        return native, "auto"
    return lm, engine


def engine_identity(engine: Any) -> str:
    """The identity that an engine reports, else the name of its class."""
    if (identity := getattr(engine, "identity", None)) is not None:
        return str(identity)
    return f"{type(engine).__module__}.{type(engine).__qualname__}"
