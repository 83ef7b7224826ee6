"""Puts a selection head together from trained parts: weights, the open set, confidences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jazzmine_dspy.optimize.heads import _blend as _head_blend
from jazzmine_dspy.optimize.heads import _open as _head_open
from jazzmine_dspy.optimize.heads._rows import Material, Parts, Seen
from jazzmine_dspy.program.heads import NONE, SelectionHead
from jazzmine_dspy.program.heads import _blend as blending
from jazzmine_dspy.program.heads._blend import Blend, Trust
from jazzmine_dspy.program.heads._open import NEAR, Kind, OpenSet, Space, signs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jazzmine_dspy.program.clauses import ClauseRule
    from jazzmine_dspy.program.ports import EmbedderPort

    Floats = NDArray[np.floating]

_FIRST = (0.5, 0.1, 1.0, 0.2, 0.1, 0.0, 0.0)
"""Of logistic, means, lexical, and what recall tells, to begin with."""

_NEW = (-1.0, 0.6, 0.4, 0.4, 0.0)
_MOST_CELLS = 1_000_000
"""Rows times flows that weights are fitted on."""


class Weighed(NamedTuple):
    """What is fitted on answers of the parts.

    Args:
        logistic, means: Weights of the two linear models, which become one.
        blend, open_set, trust: As a head takes them.
    """

    logistic: float
    means: float
    blend: Blend
    open_set: OpenSet = OpenSet()
    trust: Trust = Trust()


def score(weighed: Weighed, seen: Seen, absent: Any = None) -> Floats:
    """Blended scores, shape (rows, flows + 1), each row with the labels that were learnt for it.

    Args:
        weighed: The weights.
        seen: What the parts and recall say.
        absent: Shape (rows, flows): flows that may not be chosen.
    """
    linear = weighed.logistic * seen.logistic + weighed.means * seen.means
    z = np.empty(linear.shape)
    # Rows that the same parts judged share what was learnt.
    keys, groups = np.unique(seen.learnt, axis=0, return_inverse=True)
    for number, learnt in enumerate(keys):
        rows = np.flatnonzero(groups.ravel() == number)
        z[rows] = blending.scores(
            weighed.blend, np.where(learnt, linear[rows], 0.0), np.where(learnt, seen.lexical[rows], 0.0),
            seen.told[rows], seen.found[rows], seen.busy[rows], learnt,
        )  # fmt: skip
    if absent is not None:
        z[:, :-1][absent] = blending.NOTHING
    return z


def look(seen: Seen, z: Floats, distance: Floats | None = None) -> Floats:
    """What the open-set scores see, shape (rows, signs)."""
    away = np.zeros(len(z)) if distance is None else distance
    lexical = np.where(seen.learnt, seen.lexical, -1.0)
    return signs(z, seen.told, lexical, away, seen.known, seen.words, seen.busy)


def fit_blend(seen: Seen, has_none: bool, seed: int) -> Weighed:
    """Weights of the parts for what was learnt, with recall and without."""
    kept = np.flatnonzero(seen.targets >= 0)
    kept = kept[seen.learnt[kept, seen.targets[kept]]]
    seen = seen.of(sampled(kept, seen.told.shape[1], seed))
    terms = [
        seen.logistic,
        seen.means,
        seen.lexical,
        *_head_blend.flow_columns(seen.told, seen.learnt[:, :-1]),
    ]
    free = [False] * 6 + [True]
    start = list(_FIRST)
    if has_none:
        terms += _head_blend.none_columns(seen.told, seen.found, seen.busy)
        free += [True] * 5
        start += [0.0] * 5
    offset = np.where(seen.learnt, 0.0, -1e4).astype(np.float32)
    terms = [np.where(seen.learnt, term, 0.0) for term in terms]
    made = _head_blend.fit_weights(terms, seen.targets, offset=offset, start=start, free=free)
    linear = np.where(seen.learnt, made[0] * seen.logistic + made[1] * seen.means, 0.0)
    last = np.zeros_like(linear)
    last[:, -1] = 1.0
    bare = _head_blend.fit_weights(
        [linear, terms[2], last][: 2 + has_none], seen.targets, offset=offset,
        start=[1.2, made[2], 0.0][: 2 + has_none], free=[False, False, True][: 2 + has_none],
    )  # fmt: skip
    return Weighed(
        made[0],
        made[1],
        Blend(
            lexical=made[2],
            told=tuple(made[3:7]),
            none=tuple(made[7:]) if has_none else (0.0,) * 5,
            bare=(bare[0], bare[1], bare[2] if has_none else 0.0),
        ),
    )


def fit_new(weighed: Weighed, apart: Seen | None, seed: int) -> Weighed:
    """What recall has to tell of a flow that was not learnt, so that it is chosen as often as it is right.

    Args:
        weighed: Weights for what was learnt.
        apart: Rows judged by parts that had not learnt some of the flows.
    """
    if apart is None:
        return weighed._replace(blend=weighed.blend._replace(new=_NEW))
    apart = apart.of(sampled(np.flatnonzero(apart.targets >= 0), apart.told.shape[1], seed))
    blind = weighed._replace(blend=weighed.blend._replace(new=(0.0,) * 5))
    unlearnt = ~apart.learnt[:, :-1]
    ones = np.zeros(apart.learnt.shape, np.float32)
    ones[:, :-1] = unlearnt
    made = _head_blend.fit_weights(
        [ones, *_head_blend.flow_columns(apart.told, unlearnt)], apart.targets,
        offset=score(blind, apart), start=list(_NEW), free=[True, False, False, False, True], ridge=1e-3,
    )  # fmt: skip
    return weighed._replace(blend=weighed.blend._replace(new=tuple(made)))


def sampled(rows: NDArray[np.int64], flows: int, seed: int) -> NDArray[np.int64]:
    """At most so many rows as can be fitted on, by lot, in order."""
    most = max(500, _MOST_CELLS // (flows + 1))
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


class Outside(NamedTuple):
    """Rows judged without some of the flows, as if nobody had thought of those; the others are in scope.

    Args:
        seen: What the parts and recall say.
        absent: Shape (rows, flows): which flows are left out.
        distance: To the nearest flow that is left, shape (rows,).
        part: Shape (rows,): which flows were left out together.
    """

    seen: Seen
    absent: NDArray[np.bool_]
    distance: Floats
    part: NDArray[np.int64]

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Whether the row's flow is there, shape (rows,)."""
        return ~self.absent[np.arange(len(self.absent)), self.seen.targets]


def fit_open(
    weighed: Weighed,
    seen: Seen,
    folds: NDArray[np.int64],
    distance: Floats,
    outside: Outside | None,
    share: float | None,
    chosen: Kind | None = None,
) -> tuple[Weighed, dict[str, Any]]:
    """Choose the open-set score, and set its line and the confidences.

    Args:
        weighed: Weights of the parts.
        seen: What the parts say of turns that they have not seen.
        folds: In which part of the cross-validation a turn was held out, shape (rows,).
        distance: Of those turns to the nearest flow, shape (rows,).
        outside: Rows judged without some of the flows.
        share: Of messages that want no flow; None takes that of the labelled rows, where there are enough.
        chosen: The score, where it is chosen already.
    """
    kept = np.flatnonzero(seen.targets >= 0)
    seen, folds, distance = seen.of(kept), folds[kept], distance[kept]
    last = seen.told.shape[1]
    z = score(weighed, seen)
    inside = seen.targets < last
    own = _head_open.Scoped(look(seen, z, distance), inside, folds)
    enough = int((~inside).sum()) >= _head_open.ENOUGH_NONE and inside.any()
    left = None
    if outside is not None and outside.inside.any() and not outside.inside.all():
        z_left = score(weighed, outside.seen, outside.absent)
        left = _head_open.Scoped(look(outside.seen, z_left, outside.distance), outside.inside, outside.part)
    judged = own if enough else left
    facts: dict[str, Any] = {"kept": "none", "negatives": "none"}
    if share is None:
        share = float((~inside).mean()) if enough else _head_open.UNKNOWN_SHARE
    has_none = bool(seen.learnt[:, -1].any())
    if judged is not None:
        by = "labelled" if enough else "flows left out"
        compared = {} if chosen else _head_open.compare(judged)
        kind = _head_open.choose(compared, judged) if chosen is None else chosen
        open_set = _head_open.fit_gate(judged) if kind == "gate" else OpenSet(kind)
        if enough:
            told, refused = _head_open.scores_of(kind, own), z.argmax(axis=1) == last
            right = z.argmax(axis=1) == seen.targets
            made = _head_open.fit_line(open_set, told, inside, right, refused, share, balanced=False)
        else:
            # What flows left out look like, beside the turns themselves.
            mine = open_set.score(own.signs)[inside]
            theirs = _head_open.scores_of(kind, judged)[~judged.inside]
            both = np.concatenate([mine, theirs])
            wanted = np.arange(len(both)) < len(mine)
            right = np.zeros(len(both), dtype=bool)
            right[: len(mine)] = (z.argmax(axis=1) == seen.targets)[inside]
            refused = np.zeros(len(both), dtype=bool)
            made = _head_open.fit_line(open_set, both, wanted, right, refused, share, balanced=True)
        weighed = weighed._replace(open_set=made)
        facts = _head_open.facts_of(made, compared, judged, by, share)
    answered = weighed.open_set.score(own.signs)
    if enough and weighed.open_set.kind == "gate":
        answered = _head_open.scores_of("gate", own)
    in_scope = weighed.open_set.in_scope(answered)
    p = blending.softmax(z)
    none = np.maximum(1.0 - in_scope, p[:, -1]) if has_none else 1.0 - in_scope
    rejected = answered < weighed.open_set.threshold
    trust = _head_blend.fit_trust(
        z, in_scope, rejected, seen.targets, has_none and bool((~inside).any()), none
    )
    return weighed._replace(trust=trust), facts


def build(
    material: Material,
    parts: Parts,
    weighed: Weighed,
    space: Space | None,
    rule: ClauseRule | None,
    near: float | None = NEAR,
) -> SelectionHead:
    """The head as it serves, knowing what its parts learnt."""
    kept = np.flatnonzero(parts.learnt)
    labels = [material.labels[place] for place in kept]
    weights = weighed.logistic * parts.logistic.weights + weighed.means * parts.means.weights
    bias = weighed.logistic * parts.logistic.bias + weighed.means * parts.means.bias
    lexicon = parts.lexicon._replace(weights=parts.lexicon.weights[:, kept], bias=parts.lexicon.bias[kept])
    return SelectionHead(
        labels,
        weights[kept],
        bias[kept],
        lexical=lexicon.served(material.counts),
        blend=weighed.blend,
        open_set=weighed.open_set,
        trust=weighed.trust,
        space=space if weighed.open_set.kind == "mahalanobis" else None,
        rule=rule,
        near=near,
    )


def near_of(embedder: EmbedderPort) -> float | None:
    """The cosine from which on a flow that was not learnt may be chosen; None where it was not measured.

    A run's own data do not tell it: flows that are left out lie nearer to the others than those of another registry.
    """
    return NEAR if embedder.fingerprint.startswith("minilm:") else None


def labels_of(names: Sequence[str]) -> list[str]:
    """Labels in their order: flows by name, then "none" if it is one."""
    found = set(names)
    return [*sorted(found - {NONE}), *([NONE] if NONE in found else [])]
