"""How many turns a better but dearer source would have to answer, so that little of its quality is lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

LOSS = 0.005
"""The most that may be lost against the best source alone."""


class Judged(NamedTuple):
    """One turn as the head judged it."""

    confidence: float
    right: bool


class Share(NamedTuple):
    """Which share of turns is sent on, what the two reach together, and what the best of them reaches alone."""

    sent: float
    quality: float
    best_alone: float

    @property
    def loss(self) -> float:
        """What the best alone has over the two together."""
        return self.best_alone - self.quality


def chances(judged: Sequence[Judged], quality: float, harder: float = 1.0) -> list[float]:
    """How probably the other source is right on each turn.

    Args:
        quality: Share of all turns on which it is right.
        harder: How many times as often it errs where the head errs; 1 is a source whose errors have nothing to do
            with the head's.

    Example:
        >>> turns = [Judged(0.9, True)] * 9 + [Judged(0.2, False)]
        >>> [round(chance, 3) for chance in chances(turns, 0.95, harder=3)][-2:]
        [0.958, 0.875]
    """
    wrong = sum(not turn.right for turn in judged) / len(judged)
    error = min(1.0, (1.0 - quality) / (1.0 - wrong + harder * wrong))
    return [1.0 - (error if turn.right else min(1.0, harder * error)) for turn in judged]


def needed(judged: Sequence[Judged], quality: float, *, harder: float = 1.0, loss: float = LOSS) -> Share:
    """The share of turns to send on, least sure first, with the threshold taken from other turns.

    The turns are dealt into two halves. On each the smallest share is sought that loses at most ``loss``; the
    threshold of that share decides on the other half. So no turn decides on itself.
    """
    chance = chances(judged, quality, harder)
    order = list(range(len(judged)))
    random.Random(0).shuffle(order)
    halves = [order[0::2], order[1::2]]
    sent, value = 0, 0.0
    for side, held in enumerate(halves):
        bar = _bar([judged[i] for i in halves[1 - side]], [chance[i] for i in halves[1 - side]], loss)
        for i in held:
            on = judged[i].confidence < bar
            sent += on
            value += chance[i] if on else judged[i].right
    n = len(judged)
    return Share(sent / n, value / n, max(sum(chance) / n, sum(turn.right for turn in judged) / n))


def _bar(judged: Sequence[Judged], chance: Sequence[float], loss: float) -> float:
    """The lowest confidence that keeps a turn, so that not more than ``loss`` is lost; above 1 sends all."""
    order = sorted(range(len(judged)), key=lambda i: judged[i].confidence)
    value = float(sum(turn.right for turn in judged))
    wanted = max(value, sum(chance)) - loss * len(judged)
    for place, i in enumerate(order):
        # Turns of one confidence go together.
        fresh = place == 0 or judged[i].confidence > judged[order[place - 1]].confidence
        if fresh and value >= wanted:
            return judged[i].confidence
        value += chance[i] - judged[i].right
    return float("inf")
