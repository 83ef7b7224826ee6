"""Escalation by sentiment: when a person should be offered, and why."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pydantic import Field

from jazzmine_dspy.models.base import Text, Value

SMALLEST_FALL = 0.1
"""A score counts as lower than the one before it from this difference on."""


class Escalation(Value):
    """Whether a person should be offered. True where there is a reason.

    Args:
        reason: Why, in words; empty where no person is needed.

    Example:
        >>> bool(Escalation()), bool(Escalation(reason="sentiment -0.90 is at or below -0.60"))
        (False, True)
    """

    reason: Text = ""

    def __bool__(self) -> bool:
        return bool(self.reason)


class EscalationRule(Value):
    """When sentiment escalates.

    Args:
        low: Escalates a message with this sentiment or a lower one; None for never.
        falling_turns: Escalates the last of so many messages of the user if each is at least 0.1 lower than the one
            before it and the last is below 0; None for never.

    Example:
        >>> rule = EscalationRule()
        >>> rule.judge([0.0, -0.9]).reason
        'sentiment -0.90 is at or below -0.60'
        >>> rule.judge([0.0, -0.2, -0.4]).reason
        'sentiment fell over 3 messages: 0.00, -0.20, -0.40'
        >>> rule.judge([-0.9, 0.0]).reason
        ''
    """

    low: float | None = Field(default=-0.6, ge=-1.0, le=1.0)
    falling_turns: int | None = Field(default=3, ge=2, le=10)

    def judge(self, scores: Sequence[float]) -> Escalation:
        """Returns the escalation of a user's newest message.

        Args:
            scores: Sentiments of the user's messages, oldest first, the newest last; each from -1.0 to 1.0.
        """
        if scores and self.low is not None and scores[-1] <= self.low:
            return Escalation(reason=f"sentiment {scores[-1]:.2f} is at or below {self.low:.2f}")
        last = scores[-(self.falling_turns or 1) :]
        falls = [round(previous - after, 6) for previous, after in itertools.pairwise(last)]
        if len(last) != self.falling_turns or last[-1] >= 0 or min(falls) < SMALLEST_FALL:
            return Escalation()
        listing = ", ".join(f"{score:.2f}" for score in last)
        return Escalation(reason=f"sentiment fell over {len(last)} messages: {listing}")
