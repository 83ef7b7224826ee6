"""Reciprocal rank fusion: what a place in a ranked list is worth, to recall and to memories of others alike."""

from __future__ import annotations

SUMMARY_WEIGHT = 0.3
"""What a list found by episode summaries counts beside the message's own, which it must never swamp."""


def reciprocal(rank: int, *, k: int, weight: float = 1.0) -> float:
    """The gain of a place in a ranked list, as Qdrant counts it.

    Args:
        rank: The place, from 0.
        k: The larger, the less the first places count; 1 or more.
        weight: Of the list, over 0: place 2 of a list of weight 3 counts as place 0 of one of weight 1.

    Example:
        >>> reciprocal(0, k=10), reciprocal(2, k=10, weight=3.0), reciprocal(1, k=10) == 1 / 11
        (0.1, 0.1, True)
    """
    return 1.0 / ((rank + 1) / weight + k - 1)
