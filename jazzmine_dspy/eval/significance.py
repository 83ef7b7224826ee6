"""The difference between two programs on the same turns: its bounds and tests, by conversation, since turns of one are
alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from jazzmine_dspy.eval.intervals import FEWEST_CLUSTERS, Floats, Resamples, linearise, part_sums, t_quantile
from jazzmine_dspy.eval.metrics import LARGEST, LOWER_IS_BETTER, TurnScores, mean
from jazzmine_dspy.models.errors import InputError

POWER = 0.80
"""Share of samples that show a difference as large as the detectable one."""

_DETECTABLE = NormalDist().inv_cdf(0.95) + NormalDist().inv_cdf(POWER)
"""Standard errors that the detectable difference is away from none."""


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
                f"No turn has a label for {metric!r}", remedy="Compare by a metric that both have."
            )
        (one, moved), (two, other) = (linearise(*sums) for sums in self.sums)
        self.values, self.value, self.moved = (one, two), one - two, moved - other
        scored = [metric in left or metric in right for left, right in zip(a, b, strict=True)]
        self.counts = np.bincount(np.array(draws.of_turn)[scored], minlength=draws.size).astype(np.float64)
        self.n, self.conversations = sum(scored), int((self.counts > 0).sum())
        spread = draws.size / max(1, draws.size - 1) * sum(x * x for x in self.moved.tolist())
        self.error = math.sqrt(spread)
        if draws.size < 2:
            # One conversation says nothing about how others differ.
            self.error = max(self.error, 1.0)
        elif self.error < 1e-12:
            self.error = 1.0 / self.n

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

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        return self.detectable / _DETECTABLE


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
    low, high = pair.interval(largest)
    return Difference(
        value=pair.value,
        low=low,
        high=high,
        lower_bound_one_sided=max(-largest, pair.value - pair.t(0.95) * pair.error),
        n=pair.n,
        detectable=_DETECTABLE * pair.error,
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


SIGNIFICANT = 0.05
"""A difference counts where chance alone would show one as large in fewer than one of twenty samples."""

FLIPS = 10_000

_EXACT = 13
"""Up to that many conversations that differ, all ways to swap the programs in them are tried."""


@dataclass(frozen=True)
class Paired:
    """One metric of two programs, ``before`` and ``after``, on the same turns.

    Args:
        difference: ``after`` less ``before``.
        low, high: Its 95 % interval over conversations, by Student's t; None under ten conversations.
        p: How often chance alone shows a difference as large, up or down, were the two programs alike: the share of
            ways to swap their answers, whole conversations at a time, that do.
        adjusted: The same, corrected for the number of metrics or slices compared (Holm); None where one was.
        n, conversations: Turns that the metric scores, and the conversations that they are from.
        gained, lost: Turns whose own score is better, and worse, with ``after``.
        detectable: The difference that so many conversations show with 80 % power.
    """

    metric: str
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    p: float
    n: int
    conversations: int
    gained: int
    lost: int
    detectable: float
    adjusted: float | None = None

    @property
    def significant(self) -> bool:
        """Whether the difference is more than chance."""
        return (self.p if self.adjusted is None else self.adjusted) < SIGNIFICANT

    @property
    def better(self) -> bool:
        """Whether ``after`` is the better one, by however little."""
        return self.difference < 0 if self.metric in LOWER_IS_BETTER else self.difference > 0


def paired(
    before: Sequence[TurnScores],
    after: Sequence[TurnScores],
    clusters: Sequence[str],
    metric: str,
    *,
    seed: int = 0,
) -> Paired:
    """Compare one metric of two programs.

    Args:
        before, after: Scores of the same turns, in the same order.
        clusters: The conversation of each turn.
        seed: Of the draws.

    Raises:
        InputError: no turn of a side is scored by the metric.

    Example:
        >>> from jazzmine_dspy.eval.metrics import mean
        >>> old = [{"right": mean(i % 2)} for i in range(80)]
        >>> new = [{"right": mean(i % 4 > 0)} for i in range(80)]
        >>> pair = paired(old, new, [f"c{i // 2}" for i in range(80)], "right")
        >>> pair.difference, pair.gained, pair.lost, pair.significant
        (0.25, 20, 0, True)
    """
    old, new, names = _scored(before, after, clusters, metric)
    pair = Linear(new, old, names, metric)
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    moves = [sign * (_own(two, metric) - _own(one, metric)) for one, two in zip(old, new, strict=True)]
    low, high = pair.interval(LARGEST.get(metric, 1.0))
    return Paired(
        metric=metric,
        before=pair.values[1],
        after=pair.values[0],
        difference=pair.value,
        low=low,
        high=high,
        p=sign_flips(pair.parts, seed=seed)[0],
        n=pair.n,
        conversations=pair.conversations,
        gained=sum(move > 1e-9 for move in moves),
        lost=sum(move < -1e-9 for move in moves),
        detectable=(pair.t(0.975) + pair.t(POWER)) * pair.error,
    )


@dataclass(frozen=True)
class Loss:
    """Whether a metric lost more than it may, on one side.

    Args:
        loss: What was lost, below 0 where something was gained.
        margin: What may be lost.
        p: How often chance alone shows such a loss, were the true one just the margin.
        detectable: The true loss, margin included, that is found with 80 % power.
    """

    metric: str
    loss: float
    margin: float
    p: float
    detectable: float


def loss(
    before: Sequence[TurnScores],
    after: Sequence[TurnScores],
    clusters: Sequence[str],
    metric: str,
    *,
    margin: float = 0.0,
    seed: int = 0,
) -> Loss:
    """Test whether ``after`` loses more of a metric than ``margin``; arguments as in :func:`paired`.

    Raises:
        InputError: as :func:`paired`.
    """
    pair = Linear(*_scored(before, after, clusters, metric), metric)
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    beyond = sign * pair.parts - margin * pair.counts / pair.n
    return Loss(
        metric=metric,
        loss=sign * pair.value,
        margin=margin,
        p=sign_flips(beyond, seed=seed)[1],
        detectable=margin + (pair.t(0.95) + pair.t(POWER)) * pair.error,
    )


def sign_flips(parts: Floats | Sequence[float], *, seed: int = 0) -> tuple[float, float]:
    """The paired permutation test: how often a sum is as large when the sign of each part is left to chance.

    ``scipy.stats.permutation_test`` does the same, 50 times slower at 300 parts.

    Args:
        parts: What each conversation adds to a difference.
        seed: Of the draws.

    Returns:
        Two p-values: of a sum as far from 0, and of one as high. Both are 1 where all parts are 0.

    Example:
        >>> sign_flips([1.0, 1.0, 1.0, 1.0])
        (0.125, 0.0625)
    """
    import numpy as np

    moved = np.asarray(parts, dtype=np.float64)
    size = float(np.abs(moved).sum())
    moved = moved[np.abs(moved) > 1e-12 * size]
    if not moved.size:
        return 1.0, 1.0
    exact = moved.size <= _EXACT
    draws = 2**moved.size if exact else FLIPS
    chance = np.random.default_rng(seed)
    # Sums in another order differ in their last bits.
    total, tie = float(moved.sum()), 1e-9 * size
    far = high = 0 if exact else 1
    for done in range(0, draws, rows := max(1, 2_000_000 // moved.size)):
        shape = (min(draws - done, rows), moved.size)
        turned = (
            (np.arange(done, done + shape[0])[:, None] >> np.arange(moved.size)) & 1
            if exact
            else chance.integers(0, 2, shape, dtype=np.int8)
        )
        sums = total - 2.0 * (turned.astype(np.float64) @ moved)
        far += int((np.abs(sums) >= abs(total) - tie).sum())
        high += int((sums >= total - tie).sum())
    tried = draws if exact else draws + 1
    return far / tried, high / tried


def holm(values: Iterable[float]) -> list[float]:
    """P-values corrected for their number, by Holm: one below 0.05 is by chance in at most one of twenty families.

    Example:
        >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
        [0.03, 0.06, 0.06]
    """
    given = list(values)
    adjusted, largest = [0.0] * len(given), 0.0
    for rank, index in enumerate(sorted(range(len(given)), key=given.__getitem__)):
        largest = max(largest, min(1.0, (len(given) - rank) * given[index]))
        adjusted[index] = largest
    return adjusted


def _scored(
    before: Sequence[TurnScores], after: Sequence[TurnScores], clusters: Sequence[str], metric: str
) -> tuple[list[TurnScores], list[TurnScores], list[str]]:
    """The turns that the metric scores with either program."""
    rows = [
        row for row, pair in enumerate(zip(before, after, strict=True)) if any(metric in one for one in pair)
    ]
    return [before[row] for row in rows], [after[row] for row in rows], [clusters[row] for row in rows]


def _own(scores: TurnScores, metric: str) -> float:
    """A turn's own score; 1 where nothing was expected and nothing answered, 0 where it has none."""
    value = scores[metric].value if metric in scores else 0.0
    return 1.0 if value is None else value
