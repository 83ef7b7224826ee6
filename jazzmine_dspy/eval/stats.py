"""Scores with 95 % intervals, and differences between two programs, both clustered by conversation (V2).

Turns of one conversation are alike, so conversations, not turns, are what is drawn. Seeded: the same turns
give the same figures on every machine. An interval stays in the score's range; under ten conversations there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from jazzmine_dspy.eval.contribution import TurnScores
from jazzmine_dspy.models.errors import InputError, JazzmineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Method = Literal["bootstrap", "student_t", "wilson", "none"]

RESAMPLES = 1_000
FEWEST_CLUSTERS = 10
"""Below this many conversations a score has no interval: any would say more than so few can."""
ENOUGH_CLUSTERS = 20
"""Below this many conversations a percentile bootstrap is too narrow, and Student's t is used."""
ENOUGH_VARIED = 10
"""Below this many conversations with a fault (or with a success) a bootstrap is blind to what it has not
seen."""

_LEVEL = 0.95
_POWER = 0.80


@dataclass(frozen=True)
class Metric:
    """A score with its 95 % interval, which stays in the score's range.

    ``low`` and ``high`` are None where fewer than ten conversations stand behind the score. ``n`` counts the
    turns that were scored (for ``command_f1/KIND``: those where the answer or the label has the kind),
    ``clusters`` the conversations that they are from. ``method`` says how the interval was made: ``bootstrap``
    over conversations (percentiles); ``student_t`` over conversations, where there are too few to draw from;
    ``wilson`` at the effective sample size where nearly all conversations agree, since drawing them shows too
    little of what was not seen; ``none`` where there are too few.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    clusters: int = 0
    method: Method = "bootstrap"

    def to_json(self) -> dict[str, float | int | None]:
        """Value, bounds (None where there are too few conversations) and n."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


@dataclass(frozen=True)
class Difference:
    """How much higher a is than b, on the same turns.

    ``low`` and ``high`` bound it on both sides, ``lower_bound_one_sided`` from below alone, each with 95 %
    confidence and none beyond the range of differences. The first two are None where fewer than ten
    conversations stand behind the difference; the one-sided bound, by which races are decided, is wide there.
    ``detectable`` is the difference that this many conversations would have shown with 80 % power.
    """

    value: float
    low: float | None
    high: float | None
    lower_bound_one_sided: float
    n: int
    detectable: float


class Resamples:
    """Which conversations are drawn how often; drawn once, then used for every metric.

    Args:
        clusters: The conversation of each turn.
        resamples: How many draws.
        seed: Of the draws.
    """

    def __init__(self, clusters: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0) -> None:
        import numpy as np

        names = {name: index for index, name in enumerate(dict.fromkeys(clusters))}
        self.of_turn = np.array([names[name] for name in clusters], dtype=np.int64)
        self.size = len(names)
        draws = np.random.default_rng(seed).multinomial(
            self.size, [1 / self.size] * self.size, size=resamples
        )
        self.counts: Floats = draws.astype(np.float64)

    def sums(self, rows: Iterable[int], values: Iterable[float]) -> Floats:
        """The sum of turns' values in each conversation; ``rows`` are positions of the turns."""
        import numpy as np

        index = self.of_turn[np.fromiter(rows, dtype=np.int64)]
        weights = np.fromiter(values, dtype=np.float64)
        total: Floats = np.bincount(index, weights=weights, minlength=self.size).astype(np.float64)
        return total


def summarise(
    scores: Sequence[TurnScores],
    clusters: Sequence[str],
    *,
    resamples: Resamples | None = None,
    largest: Mapping[str, float] | None = None,
    only: Iterable[str] | None = None,
    seed: int = 0,
) -> dict[str, Metric]:
    """Add up turns' scores and give each metric its interval.

    Args:
        scores: Contributions of each turn.
        clusters: The conversation of each turn.
        resamples: Draws to use; made from ``seed`` where None.
        largest: The largest value of metrics that do not end at 1.
        only: Metrics to give; all where None.

    Returns:
        Metrics by name, sorted. One to which no turn says anything is left out.

    Example:
        >>> from jazzmine_dspy.eval.contribution import mean
        >>> rows = [{"right": mean(i % 4 > 0)} for i in range(120)]
        >>> found = summarise(rows, [f"c{i // 3}" for i in range(120)])["right"]
        >>> found.value, found.n, found.clusters, 0.6 < found.low < 0.75 < found.high < 0.9
        (0.75, 120, 40, True)
    """
    if not scores:
        return {}
    draws = resamples or Resamples(clusters, seed=seed)
    wanted = set(only) if only is not None else None
    names = sorted({name for turn in scores for name in turn if wanted is None or name in wanted})
    found = {name: _metric(name, scores, draws, (largest or {}).get(name, 1.0)) for name in names}
    return {name: metric for name, metric in found.items() if metric is not None}


def _metric(name: str, scores: Sequence[TurnScores], draws: Resamples, largest: float) -> Metric | None:
    import numpy as np

    rows = [row for row, turn in enumerate(scores) if name in turn]
    tops, bottoms = _part_sums(name, scores, rows, draws)
    used = bottoms.sum(axis=1) > 0
    if not used.any():
        return None
    tops, bottoms = tops[used], bottoms[used]
    value = float((tops.sum(axis=1) / bottoms.sum(axis=1)).mean())
    clusters = int((bottoms.sum(axis=0) > 0).sum())
    if clusters < FEWEST_CLUSTERS:
        return Metric(value, None, None, len(rows), clusters, "none")
    influence = _influence(tops, bottoms)
    weighty = sum(any(part.denominator for part in scores[row][name].parts) for row in rows)
    faulty = int((tops < largest * bottoms - 1e-12).any(axis=0).sum())
    fruitful = int((tops > 1e-12).any(axis=0).sum())
    if min(faulty, fruitful) < min(ENOUGH_VARIED, clusters / 2):
        units = _effective(value / largest, influence / largest, clusters, weighty)
        low, high = wilson(value / largest, units)
        return Metric(value, low * largest, high * largest, len(rows), clusters, "wilson")
    if clusters < ENOUGH_CLUSTERS:
        spread = t_quantile(0.975, clusters - 1) * _standard_error(influence, clusters)
        low, high = max(0.0, value - spread), min(largest, value + spread)
        return Metric(value, low, high, len(rows), clusters, "student_t")
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = (draws.counts @ tops.T) / (draws.counts @ bottoms.T)
    known = ~np.isnan(ratios)
    drawn = np.where(known, ratios, 0.0).sum(axis=1)[known.any(axis=1)] / known.sum(axis=1)[known.any(axis=1)]
    low, high = (float(bound) for bound in np.percentile(drawn, [2.5, 97.5]))
    return Metric(value, min(low, value), max(high, value), len(rows), clusters, "bootstrap")


def _part_sums(
    name: str, scores: Sequence[TurnScores], rows: Sequence[int], draws: Resamples
) -> tuple[Floats, Floats]:
    """Numerators and denominators, each of shape (parts, conversations)."""
    import numpy as np

    parts = list(dict.fromkeys(part.name for row in rows for part in scores[row][name].parts))
    tops, bottoms = [], []
    for wanted in parts:
        held = [(row, part) for row in rows for part in scores[row][name].parts if part.name == wanted]
        tops.append(draws.sums((row for row, _ in held), (part.numerator for _, part in held)))
        bottoms.append(draws.sums((row for row, _ in held), (part.denominator for _, part in held)))
    return np.array(tops), np.array(bottoms)


def _influence(tops: Floats, bottoms: Floats) -> Floats:
    """How much each conversation moves the score: the linear part of a mean of ratios."""
    import numpy as np

    totals = bottoms.sum(axis=1, keepdims=True)
    ratios = tops.sum(axis=1, keepdims=True) / totals
    moved: Floats = np.mean((tops - ratios * bottoms) / totals, axis=0)
    return moved


def _effective(share: float, influence: Floats, clusters: int, turns: int) -> float:
    """How many independent trials would have varied as much; where nothing varies, conversations count once
    each."""
    variance = _standard_error(influence, clusters) ** 2
    if variance < 1e-15:
        return clusters
    return max(1.0, min(turns, share * (1.0 - share) / variance))


def _standard_error(influence: Floats, clusters: int) -> float:
    return math.sqrt(clusters / (clusters - 1) * float((influence**2).sum()))


def wilson(share: float, n: float, level: float = _LEVEL) -> tuple[float, float]:
    """Wilson's interval for a share of n independent trials; also valid, if wide, for a mean of values in [0,
    1].

    Example:
        >>> [round(bound, 3) for bound in wilson(1.0, 10)]
        [0.722, 1.0]
    """
    z = NormalDist().inv_cdf(0.5 + level / 2)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(max(0.0, share * (1 - share)) / n + z * z / (4 * n * n))
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def paired_difference(
    a: Sequence[float], b: Sequence[float], clusters: Sequence[str], *, largest: float = math.inf
) -> Difference:
    """The mean difference a - b over turns that both answered, with bounds clustered by conversation.

    Where no turn differs, the bounds are those that one differing turn would have given: no sample can show
    that two programs never differ.

    Args:
        a, b: Scores of the same turns, in the same order, on any one scale.
        clusters: The conversation of each turn.
        largest: The largest difference that the scale allows, such as 1 for shares; bounds do not go beyond it.

    Raises:
        InputError: the lengths differ, or there are no turns.

    Example:
        >>> found = paired_difference([1, 1, 1, 0] * 20, [1, 0, 1, 0] * 20, [f"c{i // 2}" for i in range(80)])
        >>> found.value, found.n, 0 < found.lower_bound_one_sided < 0.25 < found.high
        (0.25, 80, True)
    """
    if not a or not len(a) == len(b) == len(clusters):
        raise InputError(
            f"Cannot pair {len(a)} with {len(b)} scores of {len(clusters)} turns",
            remedy="Give both scores of the same turns, at least one.",
        )
    sums: dict[str, tuple[float, int]] = {}
    for left, right, name in zip(a, b, clusters, strict=True):
        total, count = sums.get(name, (0.0, 0))
        sums[name] = (total + left - right, count + 1)
    n = len(a)
    value = sum(total for total, _ in sums.values()) / n
    moved = [(total - value * count) / n for total, count in sums.values()]
    return _bounded(value, moved, n, behind=len(sums), largest=largest)


def paired_metric(
    a: Sequence[TurnScores],
    b: Sequence[TurnScores],
    clusters: Sequence[str],
    name: str,
    *,
    largest: float = 1.0,
) -> Difference:
    """The difference a - b of one metric, F1s included, on the same turns; bounds as in
    :func:`paired_difference`, not beyond ``largest``, the metric's largest value.

    Raises:
        InputError: the lengths differ, or the metric says nothing about either side.
    """
    found = linearised(a, b, clusters, name)
    return _bounded(
        found.value, found.moved.tolist(), found.turns, behind=found.conversations, largest=largest
    )


@dataclass(frozen=True)
class Linear:
    """A metric of two programs on the same turns, taken apart by conversation.

    ``values`` are the metric of each program, ``moved`` how much each conversation moves the difference (it sums to 0),
    ``counts`` the turns of each conversation, ``turns`` and ``conversations`` those that the metric says something
    about. ``sums`` holds of each program numerators and denominators, of shape (parts, conversations).
    """

    values: tuple[float, float]
    moved: Floats
    counts: Floats
    turns: int
    conversations: int
    sums: tuple[tuple[Floats, Floats], tuple[Floats, Floats]]

    @property
    def value(self) -> float:
        """The difference, the first program's less the second's."""
        return self.values[0] - self.values[1]


def linearised(
    a: Sequence[TurnScores], b: Sequence[TurnScores], clusters: Sequence[str], name: str
) -> Linear:
    """What each conversation adds to the difference a - b of a metric, F1s included.

    Raises:
        InputError: the lengths differ, or the metric says nothing about either side.
    """
    import numpy as np

    if not a or not len(a) == len(b) == len(clusters):
        raise InputError(
            f"Cannot pair {len(a)} with {len(b)} turns", remedy="Evaluate both programs on the same turns."
        )
    draws = Resamples(clusters, resamples=1)
    values, moved, sums = [], [], []
    for scores in (a, b):
        rows = [row for row, turn in enumerate(scores) if name in turn]
        tops, bottoms = _part_sums(name, scores, rows, draws) if rows else (None, None)
        if tops is None or bottoms is None or not (used := bottoms.sum(axis=1) > 0).any():
            raise InputError(
                f"No turn says anything about {name!r}", remedy="Compare by a metric that both have."
            )
        tops, bottoms = tops[used], bottoms[used]
        values.append(float((tops.sum(axis=1) / bottoms.sum(axis=1)).mean()))
        moved.append(_influence(tops, bottoms))
        sums.append((tops, bottoms))
    told = [name in left or name in right for left, right in zip(a, b, strict=True)]
    counts = np.bincount(draws.of_turn[told], minlength=draws.size).astype(np.float64)
    return Linear(
        values=(values[0], values[1]),
        moved=moved[0] - moved[1],
        counts=counts,
        turns=sum(told),
        conversations=int((counts > 0).sum()),
        sums=(sums[0], sums[1]),
    )


def pooled(scores: Sequence[TurnScores], name: str) -> float | None:
    """The score of one metric over turns, without an interval; None where no turn says anything."""
    sums: dict[str, tuple[float, float]] = {}
    for turn in scores:
        for part in turn[name].parts if name in turn else ():
            top, bottom = sums.get(part.name, (0.0, 0.0))
            sums[part.name] = (top + part.numerator, bottom + part.denominator)
    ratios = [top / bottom for top, bottom in sums.values() if bottom]
    return sum(ratios) / len(ratios) if ratios else None


def _bounded(value: float, influence: Sequence[float], n: int, *, behind: int, largest: float) -> Difference:
    clusters = len(influence)
    error = paired_error(influence, n)
    both, one = (t_quantile(level, max(1, clusters - 1)) for level in (0.975, 0.95))
    detectable = (NormalDist().inv_cdf(_LEVEL) + NormalDist().inv_cdf(_POWER)) * error
    low = high = None
    if behind >= FEWEST_CLUSTERS:
        low, high = max(-largest, value - both * error), min(largest, value + both * error)
    return Difference(value, low, high, max(-largest, value - one * error), n, detectable)


def paired_error(influence: Sequence[float], n: int) -> float:
    """The standard error of a difference, by conversation; never 0, since no sample shows that two never differ."""
    clusters = len(influence)
    error = math.sqrt(clusters / max(1, clusters - 1) * sum(x * x for x in influence))
    if clusters < 2:
        # One conversation says nothing about how others differ.
        return max(error, 1.0)
    return error if error >= 1e-12 else 1.0 / n


def t_quantile(level: float, freedom: int) -> float:
    """Student's t; the normal law's from 1,000 degrees of freedom."""
    if freedom > 1_000:
        return NormalDist().inv_cdf(level)
    try:
        from scipy.stats import t
    except ImportError as error:
        raise JazzmineError(
            "scipy is not installed, which the interval of a small sample needs",
            remedy="Install the extra: pip install 'jazzmine-dspy[optimize]'.",
        ) from error
    return float(t.ppf(level, freedom))
