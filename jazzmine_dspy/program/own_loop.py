"""Blocking work where an event loop runs already, as in a notebook: it goes to a thread, which has no loop yet."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

LOOK_S = 0.1
"""Seconds between two looks for an interrupt."""


def outside_loop(work: Callable[[], T]) -> T:
    """Run blocking work and wait for it: in this thread, or in another where an event loop runs in this one.

    The thread has the caller's context, so that ``dspy.context`` holds in it. Ctrl-C, and the cancelling of the task
    that waits, raise ``KeyboardInterrupt`` within the work, which can then store what it has. A second Ctrl-C leaves
    the work alone.

    Args:
        work: What to run. It may start event loops.

    Raises:
        KeyboardInterrupt: the work was interrupted, and has ended.

    Example:
        >>> outside_loop(lambda: asyncio.run(asyncio.sleep(0, "done")))
        'done'
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    done, thread = start(work)
    try:
        return _wait(done)
    except KeyboardInterrupt:
        if done.done():
            raise
    interrupt(thread)
    while not ended(done, LOOK_S):
        pass
    return done.result()


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``; an interrupt of :func:`outside_loop` reaches it while it waits for an answer too."""

    async def looking() -> T:
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.wait([task], timeout=LOOK_S)
        return task.result()

    return asyncio.run(looking())


def start(work: Callable[[], T]) -> tuple[Future[T], threading.Thread]:
    """Start work in a daemon thread of its own, with the caller's context; the future gets its errors too."""
    done: Future[T] = Future()
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=context.run, args=(_settle, done, work), daemon=True, name="jazzmine-work"
    )
    thread.start()
    return done, thread


def _settle(done: Future[T], work: Callable[[], T]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)


def _wait(done: Future[T]) -> T:
    task = asyncio.current_task()
    cancelled = task.cancelling() if task is not None else 0
    while True:
        if ended(done, LOOK_S):
            return done.result()
        # asyncio.run answers the first Ctrl-C by cancelling its task, which cannot be told before this returns.
        if task is not None and task.cancelling() > cancelled:
            raise KeyboardInterrupt


def ended(done: Future[Any], seconds: float) -> bool:
    """Wait at most so long for a result or an error; whether it is there."""
    with suppress(TimeoutError):
        done.exception(seconds)
    return done.done()


def interrupt(thread: threading.Thread) -> None:
    """Raise ``KeyboardInterrupt`` in a thread, as soon as it runs Python again."""
    ident = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(KeyboardInterrupt))
