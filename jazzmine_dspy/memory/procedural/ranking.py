"""Rank fusion and grouping by flow: the same for every engine, and pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.memory.procedural.engine import Hit
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.ports import SUMMARY_WEIGHT, reciprocal

GRAIN = 1e-6
"""Difference of scores (from 1 up: share of the score) that is noise of float32, which differs between engines."""

MARGIN = 28
"""Points to request beyond the depth, so that equal scores at the cut stand in the points' own order."""

_NEIGHBOURS = 10
_SHARPNESS = 15.0
_EXAMPLES = 2


class RecallSettings(NamedTuple):
    """How recall ranks: what an optimization run fits.

    Args:
        rrf_k: What ranks are worth, as :func:`~jazzmine_dspy.models.ports.reciprocal` says.
        dense, sparse: Weights of the two lists of a query.
        summary: Factor on the score by the episode summaries, which is added to the score by the message.
        depth: Points of each list; four times as many where they hold too few flows, and so on.
        points_per_flow: How many of a flow's points add up to its score.
    """

    rrf_k: int = 10
    dense: float = 1.0
    sparse: float = 1.0
    summary: float = SUMMARY_WEIGHT
    depth: int = 100
    points_per_flow: int = 3


DEFAULT = RecallSettings()
"""The default settings of recall."""


def check(settings: RecallSettings) -> RecallSettings:
    """The same settings, if they make sense.

    Raises:
        InputError: a number below 1 or a negative weight; or both weights are 0.
    """
    counts = (settings.rrf_k, settings.depth, settings.points_per_flow)
    weights = (settings.dense, settings.sparse)
    if min(counts) < 1 or min(*weights, settings.summary) < 0 or not any(weights):
        raise InputError(
            "A flow index needs numbers of at least 1 and weights that are not negative, nor both 0",
            where=str(settings),
            remedy="Correct it, or leave it out for the default.",
        )
    return settings


class PointInfo(NamedTuple):
    """What ranking needs to know of a point; ``order`` is its place among points of equal score."""

    flow: str
    kind: str
    text: str
    conversation: str
    order: Any


class RankedLists(NamedTuple):
    """The ranked lists of one question, each best first with equal scores in the points' order.

    ``dense`` and ``sparse`` are the message's, the other two those of the episode summaries.
    """

    dense: Sequence[Hit]
    sparse: Sequence[Hit] = ()
    summary_dense: Sequence[Hit] = ()
    summary_sparse: Sequence[Hit] = ()


def ordered(hits: Sequence[Hit], describe: Callable[[Hit], PointInfo], depth: int) -> list[Hit]:
    """A list with equal scores in the points' own order, cut to ``depth``.

    Neighbours whose scores differ by at most :data:`GRAIN` are equal.

    Example:
        >>> later, first = Hit("b", 0.5, {}), Hit("a", 0.5 - 1e-8, {})
        >>> [hit.id for hit in ordered([later, first], lambda hit: PointInfo("", "", "", "", hit.id), 9)]
        ['a', 'b']
    """
    group, score, groups = 0, math.inf, {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        group += score - hit.score > GRAIN * max(1.0, score)
        groups[hit.id], score = group, hit.score
    return sorted(hits, key=lambda hit: (groups[hit.id], describe(hit).order))[:depth]


def fused(lists: Sequence[Sequence[Hit]], weights: Sequence[float], rrf_k: int) -> dict[str, float]:
    """Fused score of every point, by id. ``lists`` are best first.

    Example:
        >>> one, two = Hit("a", 0.9, {}), Hit("b", 0.8, {})
        >>> fused([[one, two], [two]], [1.0, 1.0], rrf_k=10) == {"a": 1 / 10, "b": 1 / 11 + 1 / 10}
        True
    """
    scores: dict[str, float] = {}
    for hits, weight in zip(lists, weights, strict=True):
        if weight > 0:
            for rank, hit in enumerate(hits):
                scores[hit.id] = scores.get(hit.id, 0.0) + reciprocal(rank, k=rrf_k, weight=weight)
    return scores


def _flow_scores(
    lists: Sequence[Sequence[Hit]],
    weights: Sequence[float],
    describe: Callable[[Hit], PointInfo],
    settings: RecallSettings,
) -> dict[str, float]:
    """Score of each flow that the lists hold: the sum of the fused scores of its best points."""
    points = fused(lists, weights, settings.rrf_k)
    hits = {hit.id: hit for listed in lists for hit in listed}
    by_flow: dict[str, list[float]] = {}
    for point, score in points.items():
        by_flow.setdefault(describe(hits[point]).flow, []).append(score)
    best = settings.points_per_flow
    # Rounded, since the same sum in another order may differ in its last digit.
    return {
        flow: round(sum(scores if len(scores) == 1 else sorted(scores, reverse=True)[:best]), 12)
        for flow, scores in by_flow.items()
    }


def recalled(
    lists: RankedLists,
    settings: RecallSettings,
    describe: Callable[[Hit], PointInfo],
    rank: Callable[[str], Any],
    *,
    k: int,
) -> list[Recalled]:
    """The ``k`` best flows, best first.

    Summaries are ranked like a message, and add ``settings.summary`` times that score. So they never take back a lead
    by the message of more than that share of the highest score that there is, whatever they say.

    Args:
        lists: Ranked lists. They are cut to ``settings.depth``, or to the first of four, sixteen … times as many points
            that has ``k`` flows.
        settings: How to rank.
        describe: Of a point that was found.
        rank: Place of a flow among flows of equal score.
        k: How many flows at most.
    """
    longest = max(map(len, lists))
    weights = (settings.dense, settings.sparse)
    depth = settings.depth
    while True:
        cut = RankedLists(*(hits[:depth] for hits in lists))
        scores = _flow_scores((cut.dense, cut.sparse), weights, describe, settings)
        if any(lists[2:]) and settings.summary > 0:
            told = _flow_scores((cut.summary_dense, cut.summary_sparse), weights, describe, settings)
            # Divided, so that thresholds that were fitted without summaries stay right with them.
            scores = {
                flow: round(
                    (scores.get(flow, 0.0) + settings.summary * told.get(flow, 0.0)) / (1 + settings.summary),
                    12,
                )
                for flow in scores | told
            }
        if len(scores) >= k or depth >= longest:
            break
        depth *= 4
    chosen = sorted(scores, key=lambda flow: (-scores[flow], rank(flow)))[:k]
    return _with_nearest([Recalled(flow, scores[flow]) for flow in chosen], cut.dense, describe)


def _with_nearest(
    found: Sequence[Recalled], nearest: Sequence[Hit], describe: Callable[[Hit], PointInfo]
) -> list[Recalled]:
    """The same flows with similarity, support and nearest examples, out of the message's dense list."""
    similarity: dict[str, float] = {}
    support: dict[str, float] = {}
    near: dict[str, list[str]] = {}
    wanted = {each.name for each in found}
    for place, hit in enumerate(nearest):
        known = describe(hit)
        if known.flow not in wanted:
            continue
        similarity.setdefault(known.flow, hit.score)
        if place < _NEIGHBOURS:
            support[known.flow] = support.get(known.flow, 0.0) + math.exp(_SHARPNESS * (hit.score - 1.0))
        shown = near.setdefault(known.flow, [])
        if known.kind in ("example", "turn") and len(shown) < _EXAMPLES and known.text not in shown:
            shown.append(known.text)
    return [
        each._replace(
            similarity=round(similarity.get(each.name, 0.0), 6),
            support=round(support.get(each.name, 0.0), 6),
            near=tuple(near.get(each.name, ())),
        )
        for each in found
    ]
