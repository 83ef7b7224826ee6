"""Summaries of earlier episodes, as recall and prompts take them."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.models.history import episode_lines
from jazzmine_dspy.models.turn import Turn

MOST = 3
"""Earlier episodes that are looked at, the newest."""

LONGEST = 300
"""Characters of a summary, the rest is cut off."""


def recent(summaries: Sequence[str]) -> tuple[str, ...]:
    """The newest summaries that say something, oldest first, each on one line and cut where it is long.

    Example:
        >>> recent(["a", " ", "b", "c", "d"])
        ('b', 'c', 'd')
    """
    told: list[str] = []
    for text in reversed(summaries):
        if len(told) == MOST:
            break
        # Half of a surrogate pair can be neither embedded nor sent.
        line = " ".join(text[: 2 * LONGEST].encode("utf-8", "replace").decode().split())
        if line:
            told.insert(0, line[:LONGEST].rstrip())
    return tuple(told)


def earlier_episodes(turn: Turn) -> tuple[str, ...]:
    """The newest summaries of a turn; where it has none, a line for each earlier episode in its history."""
    return recent(turn.episode_summaries or episode_lines(turn.history))
