"""The deadline of a decision, and threads that limit how long it waits for work."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

from jazzmine_dspy.models.base import in_thread as in_thread
from jazzmine_dspy.models.base import start_in_thread
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
    answer = start_in_thread(work)
    ends = monotonic() + seconds
    while True:
        left = max(0.0, ends - monotonic())
        wait([answer], timeout=min(left, LOOK_S))
        if answer.done():
            return answer.result()
        if left <= LOOK_S:
            raise error()


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
