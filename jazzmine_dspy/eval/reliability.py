"""Where selection goes wrong, and whether it knows: confusions of flows, and how far confidence can be
believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.intervals import wilson

NONE = "(none)"
CRASHED = "(crashed)"


def confusions(turns: Iterable[TurnResult]) -> Counter[tuple[str, str]]:
    """How often a wanted flow was answered by which flow.

    Flows on both sides count as found. What is missing is paired with what is too much, in order; what
    remains is paired with ``(none)``, as is an answer of no flow where none is wanted. A crash answers
    ``(crashed)``.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for turn in turns:
        if turn.example.labels.flows is None:
            continue
        gold = list(dict.fromkeys(turn.example.labels.flows))
        if turn.decision is None:
            counts.update((flow, CRASHED) for flow in gold or [NONE])
            continue
        answer = list(dict.fromkeys(turn.decision.selection.flows))
        if not gold and not answer:
            counts[NONE, NONE] += 1
        counts.update((flow, flow) for flow in gold if flow in answer)
        missing = [flow for flow in gold if flow not in answer]
        counts.update(zip_longest(missing, [flow for flow in answer if flow not in gold], fillvalue=NONE))
    return counts


@dataclass(frozen=True)
class Bin:
    """Turns of about the same confidence: how many, how sure they were on average, how often they were
    right."""

    n: int
    confidence: float
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class Reliability:
    """Bins by rising confidence, and the expected calibration error over them, both in [0, 1]."""

    bins: tuple[Bin, ...]
    ece: float
    n: int


def reliability(turns: Iterable[TurnResult], bins: int = 10) -> Reliability | None:
    """Compare the confidence of selections with how often their set of flows is right.

    Bins are of equal width, so that a figure means the same for every program. Crashed turns have no
    confidence and are left out. The bounds of a bin are Wilson's over its turns.

    Returns:
        None where no labelled turn has a selection.
    """
    pairs = [
        (turn.decision.stages["select"].confidence, turn.scores["flow_set_exact"].value or 0.0)
        for turn in turns
        if turn.decision is not None and "select" in turn.decision.stages and "flow_set_exact" in turn.scores
    ]
    return reliability_of(pairs, bins)


def reliability_of(pairs: Sequence[tuple[float, float]], bins: int = 10) -> Reliability | None:
    """The same over pairs of confidence and whether it was right, from 0 to 1; None where there are none.

    Example:
        >>> found = reliability_of([(0.9, 1.0), (0.9, 1.0), (0.3, 0.0)])
        >>> len(found.bins), round(found.ece, 3)
        (2, 0.167)
    """
    if not pairs:
        return None
    groups: list[list[tuple[float, float]]] = [[] for _ in range(bins)]
    for pair in pairs:
        groups[min(bins - 1, int(pair[0] * bins))].append(pair)
    filled = []
    for group in filter(None, groups):
        n = len(group)
        accuracy = sum(right for _, right in group) / n
        filled.append(Bin(n, sum(sure for sure, _ in group) / n, accuracy, *wilson(accuracy, n)))
    return Reliability(
        tuple(filled),
        sum(one.n * abs(one.confidence - one.accuracy) for one in filled) / len(pairs),
        len(pairs),
    )
