"""How long a decision waits: its deadline, the outages that it waits out, and threads that limit a wait for work."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Final, TypeVar

from jazzmine_dspy.models.base import in_thread as in_thread
from jazzmine_dspy.models.base import start_in_thread
from jazzmine_dspy.models.errors import DeadlineError, InputError

T = TypeVar("T")

LOOK_S = 0.1
"""Seconds between two looks for an interrupt."""

_INTERRUPT: ContextVar[threading.Event | None] = ContextVar("jazzmine_interrupt", default=None)


@contextmanager
def interrupt_event() -> Iterator[threading.Event]:
    """The event that interrupts the threads that are started within: of an outer block, else a new one."""
    event = _INTERRUPT.get() or threading.Event()
    token = _INTERRUPT.set(event)
    try:
        yield event
    finally:
        _INTERRUPT.reset(token)


def check_interrupt() -> None:
    """Return at once, unless the work that this thread belongs to was interrupted.

    Raises:
        KeyboardInterrupt: it was.
    """
    event = _INTERRUPT.get()
    if event is not None and event.is_set():
        raise KeyboardInterrupt


def outside_loop(work: Callable[[], T]) -> T:
    """Run blocking work and wait for it: in this thread, or in another where an event loop runs in this one.

    The thread has the caller's context, so that ``dspy.context`` holds in it. Ctrl-C, and the cancelling of the task
    that waits, raise ``KeyboardInterrupt`` at the work's next :func:`check_interrupt`, so that it can store what it
    has. A second Ctrl-C leaves the work alone.

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
    with interrupt_event() as interrupted:
        done = start_in_thread(work)
    task = asyncio.current_task()
    cancelled = task.cancelling() if task is not None else 0
    try:
        while not ended(done, LOOK_S):
            # asyncio.run answers the first Ctrl-C by cancelling its task, which cannot be told before this returns.
            if task is not None and task.cancelling() > cancelled:
                raise KeyboardInterrupt
        return done.result()
    except KeyboardInterrupt:
        if done.done():
            raise
    interrupted.set()
    while not ended(done, LOOK_S):
        pass
    return done.result()


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``; an interrupt of :func:`outside_loop` reaches it while it waits for an answer too."""

    async def looking() -> T:
        task = asyncio.ensure_future(work)
        while not task.done():
            check_interrupt()
            await asyncio.wait([task], timeout=LOOK_S)
        return task.result()

    return asyncio.run(looking())


def ended(done: Future[Any], seconds: float) -> bool:
    """Wait at most so long for a result or an error; whether it is there."""
    with suppress(TimeoutError):
        done.exception(seconds)
    return done.done()


class _Usual(float):
    """A deadline that nobody named: it does not hold where outages are borne."""


DEADLINE: Final = _Usual(10.0)
"""Seconds for a decision, all attempts included, unless told otherwise."""


@dataclass(frozen=True)
class Patience:
    """How long outages are borne.

    Args:
        limit_s: Seconds for which a call is repeated that is never answered. A call that is refused for the rate alone
            goes on while others are answered.
        attempt_s: Seconds that one attempt may take, or the model's own ``timeout`` if that is longer; None is no limit
            but the turn's deadline.
        first_s: The first pause; each further one is twice as long, half of it by chance.
        longest_s: The longest pause. A server's own ``Retry-After`` is kept to, whatever it says.
        sleep: Waits in a thread.
        asleep: Waits in a loop.
        ended: Whether the time of those who ask is over, so that nothing is repeated.
    """

    limit_s: float
    attempt_s: float | None = None
    first_s: float = 0.5
    longest_s: float = 30.0
    sleep: Callable[[float], None] = sleep
    asleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ended: Callable[[], bool] = field(default=lambda: False)


SERVING = Patience(limit_s=30.0, first_s=0.2, longest_s=5.0)
"""In service; the deadline of the turn ends it earlier."""

MEASURING = Patience(limit_s=120.0, attempt_s=180.0)
"""In compiling and evaluating."""


class Bearing:
    """Those who bear outages together: they know from one another since when the model has answered nobody.

    Args:
        patience: How long they bear them.
    """

    def __init__(self, patience: Patience = MEASURING) -> None:
        self.patience = patience
        self.failing_since: float | None = None
        self.gave_up = False

    def answered(self) -> None:
        """The model has answered, if only that it refuses a request."""
        self.failing_since, self.gave_up = None, False


_BEARING: ContextVar[Bearing | None] = ContextVar("jazzmine_bearing_outages", default=None)


@contextmanager
def bearing_outages(bearing: Bearing | None = None) -> Iterator[None]:
    """Within it an unanswered call is repeated for minutes; the usual deadline does not hold, and no breaker opens.

    A call that stays unanswered raises ``LMUnansweredError`` instead of leaving the turn to others. Threads and
    tasks take part that are started with a copy of the context. Within another such block, that one goes on.
    """
    token = _BEARING.set(_BEARING.get() or bearing or Bearing())
    try:
        yield
    finally:
        _BEARING.reset(token)


def bearing_here() -> Bearing | None:
    """Of the block of :func:`bearing_outages` that this runs within; None in service."""
    return _BEARING.get()


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
        # The default deadline does not hold while outages are waited out.
        seconds = None if isinstance(seconds, _Usual) and bearing_here() is not None else seconds
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
    that an interrupt ends it (:func:`check_interrupt`).

    Raises:
        KeyboardInterrupt: the work that this call belongs to was interrupted.
    """
    check_interrupt()
    if seconds is None:
        return work()
    done = start_in_thread(work)
    ends = monotonic() + seconds
    while not ended(done, min(max(0.0, ends - monotonic()), LOOK_S)):
        check_interrupt()
        if monotonic() >= ends:
            raise error()
    return done.result()


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
