"""The runtime's clock: Unix time in seconds, or an error that says what came instead."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from jazzmine_dspy.models.errors import InputError


class Clock:
    """Reads a clock.

    Args:
        read: Gives Unix time in seconds.

    Raises:
        InputError: with each method: what the clock gives is no such time, as are milliseconds, NaN or infinity.

    Example:
        >>> Clock(lambda: 1_700_000_000.5).milliseconds()
        1700000000500
    """

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def seconds(self) -> float:
        """Unix time in seconds."""
        return self._checked()[0]

    def milliseconds(self, now: dt.datetime | None = None) -> int:
        """Unix time in milliseconds, from 0: of ``now`` where it has a zone, else of the clock."""
        if now is not None and now.tzinfo is not None:
            return max(0, int(now.timestamp() * 1000))
        return max(0, int(self._checked()[0] * 1000))

    def now(self) -> dt.datetime:
        """The time in UTC."""
        return self._checked()[1]

    def _checked(self) -> tuple[float, dt.datetime]:
        time = self._read()
        try:
            return float(time), dt.datetime.fromtimestamp(time, dt.UTC)
        except (TypeError, ValueError, OverflowError, OSError) as error:
            raise InputError(
                f"The clock gives {time!r}, which is no Unix time in seconds",
                where="clock",
                remedy="Pass one that gives seconds since 1970, such as time.time.",
            ) from error
