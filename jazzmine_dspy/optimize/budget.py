"""What a run has spent, and whether it may spend more."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jazzmine_dspy.lm.counting import Meter
from jazzmine_dspy.optimize.recipe import BudgetPart


class Budget:
    """Calls, tokens and minutes of one run.

    Calls and tokens are counted where they are made, by the meter; minutes by a clock that is handed in. Phases may be
    held to a part, so that what must come at the end is paid for. Whatever is limited, a phase asks in calls: how many
    the tokens pay for, the largest call so far tells.

    Args:
        limits: What the recipe allows.
        clock: Seconds of a monotonic clock.
    """

    def __init__(self, limits: BudgetPart, clock: Callable[[], float] = time.monotonic) -> None:
        self.meter = Meter(limits.lm_calls, max_tokens=limits.tokens)
        self._limits = limits
        self._clock = clock
        self._started = clock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Budget:
        return self

    @property
    def calls(self) -> int:
        """Calls so far."""
        return self.meter.counts.calls

    @property
    def calls_in_all(self) -> int | None:
        """Calls that the whole run may make; an estimate where tokens are limited. None without a limit."""
        left = self.meter.calls_left
        return None if left is None else self.calls + left

    @property
    def by_estimate(self) -> bool:
        """Whether the calls that are left are an estimate, because tokens are limited."""
        return self.meter.max_tokens is not None

    @property
    def minutes(self) -> float:
        """Minutes so far."""
        return (self._clock() - self._started) / 60.0

    def allows(self, calls: int = 1, *, keep_calls: int = 0, share_of_time: float = 1.0) -> bool:
        """Whether some more calls fit.

        Args:
            calls: How many.
            keep_calls: Calls that must be left afterwards.
            share_of_time: Part of the minutes that may have passed, from 0 to 1.
        """
        left = self.meter.calls_left
        if left is not None and left - calls < keep_calls:
            return False
        return self._limits.minutes is None or self.minutes < self._limits.minutes * share_of_time

    def spent(self) -> dict[str, Any]:
        """Calls, tokens and minutes so far, and the limits."""
        counts = self.meter.counts
        return {
            "lm_calls": counts.calls,
            "failed_calls": counts.failed,
            "replayed_calls": counts.replayed,
            "prompt_tokens": counts.prompt_tokens,
            "completion_tokens": counts.completion_tokens,
            "tokens": counts.prompt_tokens + counts.completion_tokens,
            "uncounted_calls": counts.uncounted,
            "minutes": round(self.minutes, 2),
            "limits": self._limits.model_dump(),
        }
