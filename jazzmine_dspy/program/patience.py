"""How long outages of a language model are borne: for a moment in service, for minutes where answers are measured.

The language model itself is asked in :mod:`.outages`; this imports nothing that takes long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import sleep
from typing import Final


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
        attempt_s: Seconds that one attempt may take; None is no limit but the turn's deadline.
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


def deadline_in_force(deadline: float | None) -> float | None:
    """The deadline that holds here: the usual one does not where outages are borne."""
    return None if isinstance(deadline, _Usual) and _BEARING.get() is not None else deadline
