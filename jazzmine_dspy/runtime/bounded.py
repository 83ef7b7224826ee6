"""Calls of stores that end in time and fail in one way, whatever the store does."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from jazzmine_dspy.models.errors import JazzmineError, MemoryUnavailableError, format_error

T = TypeVar("T")

_LETTING_GO_S = 1.0
"""Seconds that a cancelled call may take to end."""

_SILENT: ContextVar[set[str] | None] = ContextVar("silent_stores", default=None)


@contextmanager
def one_turn() -> Iterator[None]:
    """A store that did not answer once is not asked again within this block."""
    token = _SILENT.set(set())
    try:
        yield
    finally:
        _SILENT.reset(token)


async def answered(call: Awaitable[T], name: str, seconds: float | None) -> T:
    """The result of a call of a store.

    Args:
        call: The call, not begun.
        name: What the store is called in errors.
        seconds: Time for it; None for no limit.

    Raises:
        MemoryUnavailableError: it failed, or did not answer in time. Other errors of this package are let through.
    """
    silent = _SILENT.get()
    if silent is not None and name in silent:
        if inspect.iscoroutine(call):
            call.close()
        raise _late(name, seconds)
    task = asyncio.ensure_future(call)
    try:
        # Unlike a timeout this does not wait for a call that refuses to be cancelled.
        await asyncio.wait([task], timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task], timeout=_LETTING_GO_S)
        _forget(task)
        raise
    if not task.done():
        task.cancel()
        _forget(task)
        if silent is not None:
            silent.add(name)
        raise _late(name, seconds)
    if task.cancelled():
        raise MemoryUnavailableError(f"The {name} gave up", remedy="Look at its log.")
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, JazzmineError) or not isinstance(error, Exception):
        raise error
    raise MemoryUnavailableError(
        f"The {name} failed: {format_error(error)}", remedy="See whether it is up."
    ) from error


class BoundedStore:
    """A store whose asynchronous methods are :func:`answered`; all else is the store's own.

    Args:
        store: A working memory or a store of messages.
        name: What it is called in errors.
        seconds: Time for each call; None for no limit.
    """

    def __init__(self, store: Any, name: str, seconds: float | None) -> None:
        self._store = store
        self._name = name
        self._seconds = seconds

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._store, attribute)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            result = found(*args, **options)
            return answered(result, self._name, self._seconds) if inspect.isawaitable(result) else result

        return call


def _late(name: str, seconds: float | None) -> MemoryUnavailableError:
    return MemoryUnavailableError(
        f"The {name} did not answer within {seconds or 0:g} s", remedy="See whether it is up."
    )


def _forget(task: asyncio.Future[Any]) -> None:
    """Look at a call's error when it ends, so that it is not reported as forgotten."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
