"""The deadline of a decision, and threads that limit how long it waits for work."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import math
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

from jazzmine_dspy.models.errors import DeadlineError, InputError
from jazzmine_dspy.program.own_loop import LOOK_S
from jazzmine_dspy.program.patience import deadline_in_force

T = TypeVar("T")


def deadline_error() -> DeadlineError:
    """The error of work that outlasts its deadline."""
    return DeadlineError("the deadline of the turn has passed")


class Deadline:
    """The deadline of one decision, by a monotonic clock.

    Args:
        seconds: From now on; None for no limit.
        clock: Seconds of a monotonic clock.

    Raises:
        InputError: the seconds are not a number.
    """

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = monotonic) -> None:
        if seconds is not None and math.isnan(seconds):
            raise InputError(
                "A deadline is a number of seconds",
                where=f"deadline={seconds}",
                remedy="Pass seconds, or None for no limit.",
            )
        seconds = deadline_in_force(seconds)
        self.clock = clock
        self.began = clock()
        self.ends = None if seconds is None else self.began + seconds

    def left(self) -> float | None:
        """Seconds left; None is no limit.

        Raises:
            DeadlineError: there are none.
        """
        left = None if self.ends is None else self.ends - self.clock()
        if left is not None and left <= 0:
            raise deadline_error()
        return left

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock within the block: its work does not count for the decision."""
        since = self.clock()
        try:
            yield
        finally:
            if self.ends is not None:
                self.ends += self.clock() - since

    def milliseconds(self) -> float:
        """Time since the decision began."""
        return (self.clock() - self.began) * 1000.0


def within(seconds: float | None, work: Callable[[], T], error: Callable[[], Exception]) -> T:
    """Wait at most ``seconds`` for some work, None is no limit; after that raise ``error()``.

    A thread is the only way to stop waiting for a call that cannot be interrupted. It is a daemon, and one of its own
    for each call: a hanging call blocks neither other turns nor the end of the process. The wait is in short steps, so
    that an interrupt reaches a thread that waits too (:func:`~jazzmine_dspy.program.own_loop.outside_loop`).
    """
    if seconds is None:
        return work()
    answer: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

    def run() -> None:
        try:
            value = work()
        except BaseException as problem:
            # Interrupts too: they have to reach the waiting thread.
            answer.put(functools.partial(_raise, problem))
        else:
            answer.put(lambda: value)

    _start(run)
    ends = monotonic() + seconds
    while True:
        left = max(0.0, ends - monotonic())
        try:
            result = answer.get(timeout=min(left, LOOK_S))
        except queue.Empty:
            if left <= LOOK_S:
                raise error() from None
        else:
            return result()


async def awithin(seconds: float | None, work: Coroutine[Any, Any, T], error: Callable[[], Exception]) -> T:
    """The same for a coroutine, which is cancelled."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except TimeoutError as late:
        if limit.expired():
            raise error() from late
        raise


async def in_thread(work: Callable[[], T]) -> T:
    """Do some work in a thread of its own without blocking the loop; cancelling abandons the thread."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(set_result: Callable[[Any], None], value: Any) -> None:
        if not result.done():
            set_result(value)

    def run() -> None:
        try:
            done = functools.partial(settle, result.set_result, work())
        except BaseException as problem:
            done = functools.partial(settle, result.set_exception, problem)
        # The loop may have ended by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(done)

    _start(run)
    return await result


def _start(run: Callable[[], None]) -> None:
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True, name="jazzmine-deadline").start()


def _raise(error: BaseException) -> Any:
    raise error
