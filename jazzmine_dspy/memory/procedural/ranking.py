"""Rank fusion and grouping by flow: the same for every engine, and pure but for :func:`searched`, which asks one."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from jazzmine_dspy.memory.procedural.engine import Branch, Hit
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.fusion import SUMMARY_WEIGHT, reciprocal

GRAIN = 1e-6
"""Neighbours in a list whose scores are nearer than this are equal (from 1 up: this share of the score). It is above
the noise of float32, which differs between engines, and below what a score means."""

_NEAREST = 10
_SHARPNESS = 15.0
_SHOWN = 2
_BEYOND = 28
MOST = 0.5
"""Share of the points from which on it is quicker to search all and leave the others out than to filter by name."""
_FURTHER = 8
_score = operator.attrgetter("score")


class Settings(NamedTuple):
    """How recall ranks: what an optimization run fits.

    Args:
        rrf_k: What ranks are worth, as :func:`~jazzmine_dspy.models.fusion.reciprocal` says.
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


def check(settings: Settings) -> Settings:
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


class Described(NamedTuple):
    """What ranking needs to know of a point: its flow, its kind, its text, and its place among equals."""

    flow: str
    kind: str
    text: str
    order: Any


class Lists(NamedTuple):
    """The ranked lists of one question, each best first with equal scores in the points' order.

    ``dense`` and ``sparse`` are the message's, the other two those of the episode summaries.
    """

    dense: Sequence[Hit]
    sparse: Sequence[Hit] = ()
    summary_dense: Sequence[Hit] = ()
    summary_sparse: Sequence[Hit] = ()


def ordered(hits: Sequence[Hit], describe: Callable[[Hit], Described], depth: int) -> list[Hit]:
    """A list with equal scores in the points' own order, cut to ``depth``.

    Example:
        >>> later, first = Hit("b", 0.5, {}), Hit("a", 0.5 - 1e-8, {})
        >>> [hit.id for hit in ordered([later, first], lambda hit: Described("", "", "", hit.id), 9)]
        ['a', 'b']
    """
    best_first = sorted(hits, key=_score, reverse=True)
    scores = [hit.score for hit in best_first]
    starts = [place for place in range(1, len(scores)) if _worse(scores[place - 1], scores[place])]
    if len(starts) == len(scores) - 1:
        return best_first[:depth]
    placed: list[Hit] = []
    for start, end in pairwise([0, *starts, len(best_first)]):
        equals = best_first[start:end]
        placed += equals if len(equals) < 2 else sorted(equals, key=lambda hit: describe(hit).order)
        if len(placed) >= depth:
            break
    return placed[:depth]


def searched(
    ask: Callable[[Sequence[Branch], int], Sequence[Sequence[Hit]]],
    branches: Sequence[Branch],
    describe: Callable[[Hit], Described],
    depth: int,
) -> list[list[Hit]]:
    """The ``depth`` best points of each branch, whichever of equal ones an engine gives first.

    An engine cuts its list anywhere among equals. So it is asked for some more, and again for more where the equals
    at the cut are not all there: what is left is a function of the content alone.

    Args:
        ask: Gives the best points of the branches, as many of each as the number says, or all that there are.
        branches: What to ask for.
        describe: Of a point that was found.
        depth: Points of each list.
    """
    lists: list[list[Hit]] = [[] for _ in branches]
    left = list(range(len(branches)))
    limit = depth + _BEYOND
    while left:
        cut_short = []
        for number, hits in zip(left, ask([branches[each] for each in left], limit), strict=True):
            if len(hits) >= limit and not any(
                _worse(hits[place - 1].score, hits[place].score) for place in range(depth, len(hits))
            ):
                cut_short.append(number)
            else:
                lists[number] = ordered(hits, describe, depth)
        left = cut_short
        limit *= _FURTHER
    return lists


def passing(
    ask: Callable[[Sequence[Branch], int], list[list[Hit]]],
    passes: Callable[[Hit], bool],
    *,
    failing: int = 0,
    narrowed: Callable[[Sequence[Branch], int], list[list[Hit]]] | None = None,
) -> Callable[[Sequence[Branch], int], list[list[Hit]]]:
    """What asks for the best points that pass, where the engine is not told which they are.

    Each list is what a filter in the engine would give, as far as its search is exact: it is asked for more until
    enough pass, or there are no more.

    Args:
        ask: Gives the best points of the branches, as many of each as the number says, or all that there are.
        passes: Whether a point counts.
        failing: How many points may not pass, where it is known: so many more are asked for at once, at most twice as
            many as are wanted.
        narrowed: Asks with a filter, which is slower at first, and quicker where what does not pass stands in front.
    """

    def asked(branches: Sequence[Branch], limit: int) -> list[list[Hit]]:
        wanted, now, growths = limit + min(2 * limit, failing), ask, 0
        while True:
            lists = now(branches, wanted)
            left = [[hit for hit in hits if passes(hit)] for hits in lists]
            if all(len(some) >= limit or len(hits) < wanted for some, hits in zip(left, lists, strict=True)):
                return left
            growths += 1
            if growths == 2 and narrowed is not None:
                wanted, now = limit, narrowed
            else:
                wanted *= 4

    return asked


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
            for hit, gain in zip(hits, _gains(len(hits), weight, rrf_k), strict=True):
                scores[hit.id] = scores.get(hit.id, 0.0) + gain
    return scores


@functools.lru_cache(maxsize=1024)
def _gains(count: int, weight: float, rrf_k: int) -> tuple[float, ...]:
    """What the points of a list get, best first."""
    return tuple(reciprocal(rank, k=rrf_k, weight=weight) for rank in range(count))


def flow_scores(
    lists: Sequence[Sequence[Hit]],
    weights: Sequence[float],
    describe: Callable[[Hit], Described],
    settings: Settings,
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
    lists: Lists,
    settings: Settings,
    describe: Callable[[Hit], Described],
    rank: Callable[[str], Any],
    *,
    k: int,
) -> list[Recalled]:
    """The ``k`` best flows, best first.

    Summaries are ranked like a message, and add ``settings.summary`` times that score. So they never take back a lead
    by the message of more than that share of the highest score that there is (:func:`ceiling`), whatever they say.

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
        cut = Lists(*(hits[:depth] for hits in lists))
        scores = flow_scores((cut.dense, cut.sparse), weights, describe, settings)
        if any(lists[2:]) and settings.summary > 0:
            told = flow_scores((cut.summary_dense, cut.summary_sparse), weights, describe, settings)
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
    return with_nearest([Recalled(flow, scores[flow]) for flow in chosen], cut.dense, describe)


def ceiling(settings: Settings) -> float:
    """The highest score of a flow: its points lead both lists.

    Example:
        >>> round(ceiling(Settings(rrf_k=10, points_per_flow=1)), 6)
        0.2
    """
    return sum(
        reciprocal(rank, k=settings.rrf_k, weight=weight)
        for weight in (settings.dense, settings.sparse)
        if weight > 0
        for rank in range(min(settings.points_per_flow, settings.depth))
    )


def with_nearest(
    found: Sequence[Recalled], nearest: Sequence[Hit], describe: Callable[[Hit], Described]
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
        if place < _NEAREST:
            support[known.flow] = support.get(known.flow, 0.0) + math.exp(_SHARPNESS * (hit.score - 1.0))
        shown = near.setdefault(known.flow, [])
        if known.kind in ("example", "turn") and len(shown) < _SHOWN and known.text not in shown:
            shown.append(known.text)
    return [
        each._replace(
            similarity=round(similarity.get(each.name, 0.0), 6),
            support=round(support.get(each.name, 0.0), 6),
            near=tuple(near.get(each.name, ())),
        )
        for each in found
    ]


def _worse(better: float, score: float) -> bool:
    """Whether a score is less than the one before it by more than noise."""
    return better - score > (GRAIN * better if better > 1.0 else GRAIN)
