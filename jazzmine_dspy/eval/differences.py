"""The difference between two programs on the same turns, taken apart by conversation, and its bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS, Resamples, linearise, part_sums, t_quantile
from jazzmine_dspy.eval.score_terms import TurnScores, mean
from jazzmine_dspy.models.errors import InputError

if TYPE_CHECKING:
    from jazzmine_dspy.eval.intervals import Floats

POWER = 0.80
"""Share of samples that show a difference as large as the detectable one."""


class Linear:
    """A metric of two programs on the same turns, taken apart by conversation.

    Args:
        a, b: Scores of the same turns.
        clusters: The conversation of each turn.
        metric: The metric.

    Attributes:
        values: The metric of each program.
        value: The difference a - b.
        moved: How much each conversation moves the difference; it sums to 0.
        counts: Scored turns of each conversation; ``n`` and ``conversations`` count both.
        sums: Numerators and denominators of each program, of shape (parts, conversations).
        error: The standard error of the difference; never 0, since no sample shows that two never differ.

    Raises:
        InputError: the lengths differ, or no turn of a side is scored.
    """

    def __init__(
        self, a: Sequence[TurnScores], b: Sequence[TurnScores], clusters: Sequence[str], metric: str
    ) -> None:
        import numpy as np

        if not a or not len(a) == len(b) == len(clusters):
            raise InputError(
                f"Cannot pair {len(a)} with {len(b)} scores of {len(clusters)} turns",
                remedy="Give both scores of the same turns, at least one.",
            )
        draws = Resamples(clusters, resamples=1)
        self.sums = tuple(part_sums(metric, scores, draws) for scores in (a, b))
        if not all(tops.size for tops, _ in self.sums):
            raise InputError(
                f"No turn says anything about {metric!r}", remedy="Compare by a metric that both have."
            )
        (one, moved), (two, other) = (linearise(*sums) for sums in self.sums)
        self.values, self.value, self.moved = (one, two), one - two, moved - other
        scored = [metric in left or metric in right for left, right in zip(a, b, strict=True)]
        self.counts = np.bincount(np.array(draws.of_turn)[scored], minlength=draws.size).astype(np.float64)
        self.n, self.conversations = sum(scored), int((self.counts > 0).sum())
        self.error = self._error(draws.size)

    def _error(self, clusters: int) -> float:
        error = math.sqrt(clusters / max(1, clusters - 1) * sum(x * x for x in self.moved.tolist()))
        if clusters < 2:
            # One conversation says nothing about how others differ.
            return max(error, 1.0)
        return error if error >= 1e-12 else 1.0 / self.n

    @property
    def parts(self) -> Floats:
        """What each conversation adds: the parts sum to the difference, and vary as it does."""
        return self.moved + self.value * self.counts / self.n

    def t(self, level: float) -> float:
        """Student's t for so many conversations."""
        return t_quantile(level, max(1, len(self.moved) - 1))

    def interval(self, largest: float) -> tuple[float | None, float | None]:
        """The 95 % interval by Student's t, within the range of differences; none under ten conversations."""
        if self.conversations < FEWEST_CLUSTERS:
            return None, None
        spread = self.t(0.975) * self.error
        return max(-largest, self.value - spread), min(largest, self.value + spread)


@dataclass(frozen=True)
class Difference:
    """How much higher a is than b, on the same turns.

    ``low`` and ``high`` bound it on both sides, ``lower_bound_one_sided`` from below alone, each with 95 %
    confidence and none beyond the range of differences. The first two are None where fewer than ten
    conversations are compared; the one-sided bound is wide there.
    ``detectable`` is the difference that this many conversations would have shown with 80 % power.
    """

    value: float
    low: float | None
    high: float | None
    lower_bound_one_sided: float
    n: int
    detectable: float


def paired_metric(
    a: Sequence[TurnScores],
    b: Sequence[TurnScores],
    clusters: Sequence[str],
    name: str,
    *,
    largest: float = 1.0,
) -> Difference:
    """The difference a - b of one metric, F1s included, on the same turns, with bounds clustered by conversation.

    Where no turn differs, the bounds are those that one differing turn would have given: no sample can show
    that two programs never differ.

    Args:
        a, b: Scores of the same turns, in the same order.
        clusters: The conversation of each turn.
        name: The metric.
        largest: The metric's largest value; bounds do not go beyond it.

    Raises:
        InputError: the lengths differ, or the metric scores no turn of a side.
    """
    pair = Linear(a, b, clusters, name)
    normal = NormalDist().inv_cdf
    low, high = pair.interval(largest)
    return Difference(
        value=pair.value,
        low=low,
        high=high,
        lower_bound_one_sided=max(-largest, pair.value - pair.t(0.95) * pair.error),
        n=pair.n,
        detectable=(normal(0.95) + normal(POWER)) * pair.error,
    )


def paired_difference(
    a: Sequence[float], b: Sequence[float], clusters: Sequence[str], *, largest: float = math.inf
) -> Difference:
    """The mean difference a - b of scores on any one scale, as :func:`paired_metric` gives it.

    Args:
        a, b: Scores of the same turns, in the same order.
        clusters: The conversation of each turn.
        largest: The largest difference that the scale allows, such as 1 for shares.

    Raises:
        InputError: the lengths differ, or there are no turns.

    Example:
        >>> gain = paired_difference([1, 1, 1, 0] * 20, [1, 0, 1, 0] * 20, [f"c{i // 2}" for i in range(80)])
        >>> gain.value, gain.n, 0 < gain.lower_bound_one_sided < 0.25 < gain.high
        (0.25, 80, True)
    """
    one, two = ([{"score": mean(value)} for value in side] for side in (a, b))
    return paired_metric(one, two, clusters, "score", largest=largest)
