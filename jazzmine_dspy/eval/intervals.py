"""Scores with 95 % intervals, clustered by conversation.

Turns of one conversation are alike, so conversations, not turns, are drawn. Seeded: the same turns give the same
figures on every machine. An interval stays in the range of its score; under ten conversations there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias

from jazzmine_dspy.eval.metrics import Part, ScoreTerm, TurnScores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float64]"

Method = Literal["bootstrap", "student_t", "wilson", "none"]

RESAMPLES = 1_000
FEWEST_CLUSTERS = 10
"""Below this many conversations a score has no interval: any would claim more than so few can show."""
ENOUGH_CLUSTERS = 20
"""Below this many conversations a percentile bootstrap is too narrow, and Student's t is used."""
ENOUGH_VARIED = 10
"""Below this many conversations with a fault (or with a success) a bootstrap misses what did not occur."""


@dataclass(frozen=True)
class Metric:
    """A score with its 95 % interval, which stays in the score's range.

    ``low`` and ``high`` are None where the score is from fewer than ten conversations. ``n`` counts the
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


class Resamples:
    """How often each conversation is drawn; drawn once, then used for every metric.

    Args:
        clusters: The conversation of each turn.
        resamples: Number of draws.
        seed: Of the draws.
    """

    def __init__(self, clusters: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0) -> None:
        import numpy as np

        names = {name: index for index, name in enumerate(dict.fromkeys(clusters))}
        self.of_turn = [names[name] for name in clusters]
        self.size = len(names)
        draws = np.random.default_rng(seed).multinomial(
            self.size, [1 / self.size] * self.size, size=resamples
        )
        self.counts: Floats = draws.astype(np.float64)

    def ratios(self, tops: Floats, bottoms: Floats) -> Floats:
        """The score in each draw; NaN where no conversation drawn has one."""
        import numpy as np

        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = (self.counts @ tops.T) / (self.counts @ bottoms.T)
            known = ~np.isnan(ratios)
            scores: Floats = np.where(known, ratios, 0.0).sum(axis=1) / known.sum(axis=1)
        return scores


def summarise(
    scores: Sequence[TurnScores],
    clusters: Sequence[str],
    *,
    resamples: Resamples | None = None,
    largest: Mapping[str, float] | None = None,
    only: Iterable[str] | None = None,
    seed: int = 0,
) -> dict[str, Metric]:
    """Add up the scores of turns, with an interval for each metric.

    Args:
        scores: Contributions of each turn.
        clusters: The conversation of each turn.
        resamples: Draws to use; made from ``seed`` where None.
        largest: The largest value of metrics that do not end at 1.
        only: Metrics to give; all where None.

    Returns:
        Metrics by name, sorted. A metric that no turn scores is left out.

    Example:
        >>> from jazzmine_dspy.eval.metrics import mean
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
    metrics = {name: _metric(name, scores, draws, (largest or {}).get(name, 1.0)) for name in names}
    return {name: metric for name, metric in metrics.items() if metric is not None}


def _metric(name: str, scores: Sequence[TurnScores], draws: Resamples, largest: float) -> Metric | None:
    import numpy as np

    tops, bottoms = part_sums(name, scores, draws)
    if not tops.size:
        return None
    value, influence = linearise(tops, bottoms)
    clusters = int((bottoms.sum(axis=0) > 0).sum())
    terms = [turn[name] for turn in scores if name in turn]
    if clusters < FEWEST_CLUSTERS:
        return Metric(value, None, None, len(terms), clusters, "none")
    faulty = int((tops < largest * bottoms - 1e-12).any(axis=0).sum())
    fruitful = int((tops > 1e-12).any(axis=0).sum())
    error = math.sqrt(clusters / (clusters - 1) * float((influence**2).sum()))
    if min(faulty, fruitful) < min(ENOUGH_VARIED, clusters / 2):
        turns = sum(any(part.denominator for part in term.parts) for term in terms)
        share = value / largest
        # The number of independent trials that vary as much; where nothing varies, each conversation counts once.
        variance, trials = (error / largest) ** 2, float(clusters)
        if variance >= 1e-15:
            trials = max(1.0, min(turns, share * (1.0 - share) / variance))
        low, high = wilson(share, trials)
        return Metric(value, low * largest, high * largest, len(terms), clusters, "wilson")
    if clusters < ENOUGH_CLUSTERS:
        spread = t_quantile(0.975, clusters - 1) * error
        low, high = max(0.0, value - spread), min(largest, value + spread)
        return Metric(value, low, high, len(terms), clusters, "student_t")
    drawn = draws.ratios(tops, bottoms)
    low, high = (float(bound) for bound in np.percentile(drawn[~np.isnan(drawn)], [2.5, 97.5]))
    return Metric(value, min(low, value), max(high, value), len(terms), clusters, "bootstrap")


def part_sums(name: str, scores: Sequence[TurnScores], draws: Resamples) -> tuple[Floats, Floats]:
    """Numerators and denominators of a metric, each of shape (parts, conversations); empty without a denominator."""
    import numpy as np

    sums: dict[str, list[list[float]]] = {}
    for row, turn in zip(draws.of_turn, scores, strict=True):
        for part in turn[name].parts if name in turn else ():
            top, bottom = sums.setdefault(part.name, [[0.0] * draws.size, [0.0] * draws.size])
            top[row] += part.numerator
            bottom[row] += part.denominator
    both = np.array(list(sums.values())).reshape(-1, 2, draws.size)
    used = both[both[:, 1].sum(axis=1) > 0]
    return used[:, 0], used[:, 1]


def linearise(tops: Floats, bottoms: Floats) -> tuple[float, Floats]:
    """The score, a mean of ratios of sums, and how much each conversation moves it (its linear part)."""
    import numpy as np

    totals = bottoms.sum(axis=1, keepdims=True)
    ratios = tops.sum(axis=1, keepdims=True) / totals
    return float(ratios.mean()), np.mean((tops - ratios * bottoms) / totals, axis=0)


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval for a share of n independent trials, n not always whole.

    For a mean of values in [0, 1] it is valid, if wide.

    Example:
        >>> [round(bound, 3) for bound in wilson(1.0, 10)]
        [0.722, 1.0]
    """
    z = NormalDist().inv_cdf(0.975)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(max(0.0, share * (1 - share)) / n + z * z / (4 * n * n))
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def pooled(scores: Sequence[TurnScores], name: str) -> float | None:
    """The score of one metric over turns, without an interval; None where no turn says anything."""
    sums: dict[str, Part] = {}
    for turn in scores:
        for part in turn[name].parts if name in turn else ():
            _, top, bottom = sums.get(part.name, Part("", 0.0, 0.0))
            sums[part.name] = Part(part.name, top + part.numerator, bottom + part.denominator)
    return ScoreTerm(tuple(sums.values())).value


def t_quantile(level: float, freedom: int) -> float:
    """Student's t; the normal law's from 1,000 degrees of freedom."""
    if freedom > 1_000:
        return NormalDist().inv_cdf(level)
    from scipy.stats import t

    return float(t.ppf(level, freedom))
