"""Tests of a difference between two programs on the same turns: by conversation, since turns of one are alike (V3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from jazzmine_dspy.eval.contribution import TurnScores
from jazzmine_dspy.eval.metrics import LARGEST, LOWER_IS_BETTER
from jazzmine_dspy.eval.stats import (
    ENOUGH_CLUSTERS,
    ENOUGH_VARIED,
    FEWEST_CLUSTERS,
    Linear,
    Resamples,
    linearised,
    paired_error,
    t_quantile,
)

if TYPE_CHECKING:
    from jazzmine_dspy.eval.stats import Floats

SIGNIFICANT = 0.05
"""A difference counts where chance alone would show one as large in fewer than one of twenty samples."""

POWER = 0.80
FLIPS = 10_000

_EXACT = 13
"""Up to that many conversations that differ, all ways to swap the programs in them are tried."""


@dataclass(frozen=True)
class Paired:
    """One metric of two programs, ``before`` and ``after``, on the same turns.

    Args:
        difference: ``after`` less ``before``.
        low, high: Its 95 % interval over conversations; None where fewer than ten stand behind it.
        p: How often chance alone shows a difference as large, up or down, were the two programs alike: the share of
            ways to swap their answers, whole conversations at a time, that do.
        adjusted: The same, held against the number of metrics or slices looked at (Holm); None where one was.
        n, conversations: Turns that the metric says something about, and the conversations that they are from.
        gained, lost: Turns whose own score is better, and worse, with ``after``.
        detectable: The difference that so many conversations show with 80 % power.
        method: How the interval was made: ``bootstrap``, ``student_t`` or ``none``.
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
    method: Literal["bootstrap", "student_t", "none"]
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
        InputError: no turn of a side says anything about the metric.

    Example:
        >>> from jazzmine_dspy.eval.contribution import mean
        >>> old = [{"right": mean(i % 2)} for i in range(80)]
        >>> new = [{"right": mean(i % 4 > 0)} for i in range(80)]
        >>> found = paired(old, new, [f"c{i // 2}" for i in range(80)], "right")
        >>> found.difference, found.gained, found.lost, found.significant
        (0.25, 20, 0, True)
    """
    old, new, names = _told(before, after, clusters, metric)
    found = linearised(new, old, names, metric)
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    moves = [sign * (_own(two, metric) - _own(one, metric)) for one, two in zip(old, new, strict=True)]
    freedom = max(1, len(found.moved) - 1)
    error = paired_error(found.moved.tolist(), found.turns)
    low, high, method = _interval(found, names, error, LARGEST.get(metric, 1.0), seed)
    return Paired(
        metric=metric,
        before=found.values[1],
        after=found.values[0],
        difference=found.value,
        low=low,
        high=high,
        p=sign_flips(_added(found), seed=seed)[0],
        n=found.turns,
        conversations=found.conversations,
        gained=sum(move > 1e-9 for move in moves),
        lost=sum(move < -1e-9 for move in moves),
        detectable=(t_quantile(0.975, freedom) + t_quantile(POWER, freedom)) * error,
        method=method,
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
    old, new, names = _told(before, after, clusters, metric)
    found = linearised(old, new, names, metric)
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    freedom = max(1, len(found.moved) - 1)
    beyond = sign * _added(found) - margin * found.counts / found.turns
    error = paired_error(found.moved.tolist(), found.turns)
    return Loss(
        metric=metric,
        loss=sign * found.value,
        margin=margin,
        p=sign_flips(beyond, seed=seed)[1],
        detectable=margin + (t_quantile(0.95, freedom) + t_quantile(POWER, freedom)) * error,
    )


def sign_flips(parts: Floats | Sequence[float], *, flips: int = FLIPS, seed: int = 0) -> tuple[float, float]:
    """The paired permutation test: how often a sum is as large when the sign of each part is left to chance.

    Args:
        parts: What each conversation adds to a difference.
        flips: Draws, where the parts are too many to try all ways.
        seed: Of the draws.

    Returns:
        Two p-values: of a sum as far from 0, and of one as high. Both are 1 where all parts are 0.

    Example:
        >>> sign_flips([1.0, 1.0, 1.0, 1.0])
        (0.125, 0.0625)
    """
    import numpy as np

    held = np.asarray(parts, dtype=np.float64)
    size = float(np.abs(held).sum())
    held = held[np.abs(held) > 1e-12 * size]
    if not held.size:
        return 1.0, 1.0
    exact = held.size <= _EXACT
    draws = 2**held.size if exact else flips
    chance = np.random.default_rng(seed)
    # Sums in another order differ in their last bits.
    total, tie = float(held.sum()), 1e-9 * size
    far = high = done = 0
    while done < draws:
        rows = min(draws - done, max(1, 2_000_000 // held.size))
        if exact:
            turned = (np.arange(done, done + rows)[:, None] >> np.arange(held.size)) & 1
        else:
            turned = chance.integers(0, 2, (rows, held.size), dtype=np.int8)
        sums = total - 2.0 * (turned.astype(np.float64) @ held)
        far += int((np.abs(sums) >= abs(total) - tie).sum())
        high += int((sums >= total - tie).sum())
        done += rows
    more = 0 if exact else 1
    return (far + more) / (draws + more), (high + more) / (draws + more)


def mcnemar(only_before: int, only_after: int) -> float:
    """McNemar's exact test: the p-value of so many turns right with one program alone, and with the other alone.

    It takes each turn for itself, so it says too much where several turns of one conversation changed.

    Example:
        >>> mcnemar(1, 7), mcnemar(0, 0)
        (0.0703125, 1.0)
    """
    n, fewer = only_before + only_after, min(only_before, only_after)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(fewer + 1)) / (1 << n))


def holm(values: Iterable[float]) -> list[float]:
    """P-values held against their number, by Holm: one below 0.05 is by chance in at most one of twenty families.

    Example:
        >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
        [0.03, 0.06, 0.06]
    """
    given = list(values)
    found, largest = [0.0] * len(given), 0.0
    for rank, index in enumerate(sorted(range(len(given)), key=given.__getitem__)):
        largest = max(largest, min(1.0, (len(given) - rank) * given[index]))
        found[index] = largest
    return found


def _told(
    before: Sequence[TurnScores], after: Sequence[TurnScores], clusters: Sequence[str], metric: str
) -> tuple[list[TurnScores], list[TurnScores], list[str]]:
    """The turns that the metric says something about."""
    held = [
        each for each in zip(before, after, clusters, strict=True) if metric in each[0] or metric in each[1]
    ]
    return [each[0] for each in held], [each[1] for each in held], [each[2] for each in held]


def _own(scores: TurnScores, metric: str) -> float:
    """A turn's own score; 1 where nothing was to be found and nothing was, 0 where it has none."""
    if metric not in scores:
        return 0.0
    value = scores[metric].value
    return 1.0 if value is None else value


def _added(found: Linear) -> Any:
    """What each conversation adds: these sum to the difference, and vary as it does."""
    return found.moved + found.value * found.counts / found.turns


def _interval(
    found: Linear, names: Sequence[str], error: float, largest: float, seed: int
) -> tuple[float | None, float | None, Literal["bootstrap", "student_t", "none"]]:
    import numpy as np

    if found.conversations < FEWEST_CLUSTERS:
        return None, None, "none"
    differing = int((np.abs(_added(found)) > 1e-12).sum())
    if found.conversations < ENOUGH_CLUSTERS or differing < ENOUGH_VARIED:
        spread = t_quantile(0.975, len(found.moved) - 1) * error
        return max(-largest, found.value - spread), min(largest, found.value + spread), "student_t"
    counts = Resamples(names, seed=seed).counts
    sides = []
    for tops, bottoms in found.sums:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = (counts @ tops.T) / (counts @ bottoms.T)
        known = ~np.isnan(ratios)
        sides.append(np.where(known, ratios, 0.0).sum(axis=1) / np.maximum(1, known.sum(axis=1)))
    low, high = (float(bound) for bound in np.percentile(sides[0] - sides[1], [2.5, 97.5]))
    return min(low, found.value), max(high, found.value), "bootstrap"
