"""Compares scores for the open set and sets the line: in scope against "none", or against flows left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.optimize.heads._blend import Weighed, blend_scores, fit_logit, fit_trust
from jazzmine_dspy.optimize.heads._parts import Floats
from jazzmine_dspy.optimize.heads._rows import Seen
from jazzmine_dspy.program.heads._blend import KINDS, Kind, OpenSet, gate_signs, gated, signs, softmax

ENOUGH_NONE = 20
"""Labelled rows that want nothing, from which on the line is set by them and not by flows left out."""

UNKNOWN_SHARE = 0.2
"""Least share of messages out of scope where nobody says: the few that are labelled were often collected apart."""

_PLAINEST_FIRST: tuple[Kind, ...] = ("energy", "softmax", "neighbours", "mahalanobis", "gate")

_LOSSES = (0.01, 0.02, 0.03, 0.05)
_GATE_C = 0.1


class Scoped(NamedTuple):
    """Rows of which it is known whether they are in scope.

    Args:
        signs: Shape (rows, signs).
        inside: Shape (rows,): whether a flow is wanted.
        part: Shape (rows,): what is judged together, by a gate fitted on the other parts.
    """

    signs: Floats
    inside: NDArray[np.bool_]
    part: NDArray[np.int64]


def compare(scoped: Scoped) -> dict[Kind, float]:
    """Share of the rows out of scope that each score finds, a mean over losing 1, 2, 3 and 5 % of those in scope."""
    found: dict[Kind, float] = {}
    for kind in KINDS:
        score = scores_of(kind, scoped)
        lines = np.quantile(score[scoped.inside], _LOSSES)
        found[kind] = float(np.mean([(score[~scoped.inside] < line).mean() for line in lines]))
    return found


def choose(compared: dict[Kind, float], scoped: Scoped) -> Kind:
    """The plainest score that is within one standard error of the best: few rows can't tell the scores apart.

    The rule of one standard error is that of Breiman et al., Classification and Regression Trees (1984), section 3.4.3.
    """
    best = max(compared.values())
    error = (best * (1.0 - best) / max(1, int((~scoped.inside).sum()))) ** 0.5
    return next(kind for kind in _PLAINEST_FIRST if compared[kind] >= best - error)


def scores_of(kind: Kind, scoped: Scoped) -> Floats:
    """The score of every row; of the gate by one that was fitted on other parts."""
    if kind != "gate":
        return OpenSet(kind).score(scoped.signs)
    made = np.zeros(len(scoped.inside))
    for part in np.unique(scoped.part):
        out = scoped.part == part
        made[out] = fit_gate(Scoped(*(column[~out] for column in scoped))).score(scoped.signs[out])
    return made


def fit_gate(scoped: Scoped) -> OpenSet:
    """A logistic model over the signs and their squares, both sides weighing the same; no line is set yet."""
    from sklearn.linear_model import LogisticRegression

    seen = gate_signs(scoped.signs)
    mean, spread = seen.mean(axis=0), seen.std(axis=0) + 1e-6
    inputs = gated(scoped.signs, tuple(mean), tuple(spread))
    if scoped.inside.all() or not scoped.inside.any():
        return OpenSet("gate", mean=tuple(mean), spread=tuple(spread), weights=(0.0,) * inputs.shape[1])
    model = LogisticRegression(C=_GATE_C, class_weight="balanced", max_iter=500).fit(inputs, scoped.inside)
    return OpenSet(
        "gate",
        mean=tuple(map(float, mean)),
        spread=tuple(map(float, spread)),
        weights=tuple(map(float, model.coef_[0])),
        bias=float(model.intercept_[0]),
    )


def fit_line(
    open_set: OpenSet,
    score: Floats,
    inside: NDArray[np.bool_],
    right: NDArray[np.bool_],
    refused: NDArray[np.bool_],
    share: float,
) -> OpenSet:
    """Set the threshold, and how probable a score makes it that a flow is wanted.

    Of all thresholds the one is taken under which most is right where ``share`` of the messages are out of scope: rows
    in scope with their flow, and rows out of scope with none; of equal ones the lowest.

    Args:
        open_set: The kind of score.
        score: Shape (rows,).
        inside: Whether a flow is wanted.
        right: Whether the best flow is the right one, where one is wanted.
        refused: Whether "none" is the best label anyway.
        share: Of messages that want no flow, from 0 to below 1.
    """
    good = inside & right & ~refused
    options = np.unique(
        np.concatenate([[-np.inf], np.sort(score[inside])[: max(2, int(inside.sum() * 0.3))]])
    )
    if len(options) > 400:
        options = options[np.linspace(0, len(options) - 1, 400).astype(int)]
    kept = np.array([(good & (score >= option)).sum() for option in options]) / max(1, inside.sum())
    found = np.array([(~inside & (refused | (score < option))).sum() for option in options]) / max(
        1, (~inside).sum()
    )
    worth = np.round((1.0 - share) * kept + share * found, 12)
    # Both sides weigh the same: those out of scope were often collected apart.
    weights = np.where(inside, 0.5 / max(1, inside.sum()), 0.5 / max(1, (~inside).sum())) * len(inside)
    spread = float(score.std()) + 1e-9
    mean = float(score.mean())
    shift, scale = fit_logit(((score - mean) / spread)[:, None], inside, [0.0, 1.0], weights)
    line = float(options[int(np.argmax(worth))])
    made = open_set._replace(threshold=line, scale=scale / spread, shift=shift - scale * mean / spread)
    # The line itself counts as even: it is where a wrong start costs as much as a missed one.
    return made._replace(shift=-made.scale * line) if np.isfinite(line) else made


def fit_open(
    weighed: Weighed, seen: Seen, outside: Seen | None, share: float | None, chosen: Kind | None = None
) -> tuple[Weighed, dict[str, Any]]:
    """Choose the open-set score, and set its line and the confidences.

    Args:
        weighed: Weights of the parts.
        seen: What the parts say of turns that they have not seen.
        outside: Rows judged without some of the flows.
        share: Of messages that want no flow; None takes that of the labelled rows, a fifth at least.
        chosen: The score, where it is chosen already.
    """
    seen = seen.of(seen.targets >= 0)
    last = seen.told.shape[1]
    z = blend_scores(weighed, seen)
    best, inside = z.argmax(axis=1), seen.inside
    own = _scoped(seen, z)
    enough = int((~inside).sum()) >= ENOUGH_NONE and inside.any()
    judged = own if enough else None
    if not enough and outside is not None and outside.inside.any() and not outside.inside.all():
        judged = _scoped(outside, blend_scores(weighed, outside))
    facts: dict[str, Any] = {"kept": "none", "negatives": "none"}
    if share is None:
        share = max(UNKNOWN_SHARE, float((~inside).mean()))
    has_none = bool(seen.learnt[:, -1].any())
    if judged is not None:
        compared = {} if chosen else compare(judged)
        kind = choose(compared, judged) if chosen is None else chosen
        open_set = fit_gate(judged) if kind == "gate" else OpenSet(kind)
        if enough:
            scores, refused = scores_of(kind, own), best == last
            made = fit_line(open_set, scores, inside, best == seen.targets, refused, share)
        else:
            # What flows left out look like, beside the turns themselves.
            mine = open_set.score(own.signs)[inside]
            both = np.concatenate([mine, scores_of(kind, judged)[~judged.inside]])
            wanted = np.arange(len(both)) < len(mine)
            right, refused = np.zeros((2, len(both)), dtype=bool)
            right[: len(mine)] = (best == seen.targets)[inside]
            made = fit_line(open_set, both, wanted, right, refused, share)
        weighed = weighed._replace(open_set=made)
        facts = {
            "kept": made.kind,
            "threshold": round(max(made.threshold, -1e30), 6),
            "negatives": "labelled" if enough else "flows left out",
            "share": round(share, 4),
            "in_scope": int(judged.inside.sum()),
            "out_of_scope": int((~judged.inside).sum()),
            "recall_at_small_loss": {kind: round(value, 4) for kind, value in compared.items()},
        }
    gated_apart = enough and weighed.open_set.kind == "gate"
    answered = scores_of("gate", own) if gated_apart else weighed.open_set.score(own.signs)
    in_scope = weighed.open_set.in_scope(answered)
    none = 1.0 - in_scope
    if has_none:
        none = np.maximum(none, softmax(z)[:, -1])
    rejected = answered < weighed.open_set.threshold
    trust = fit_trust(z, in_scope, rejected, seen.targets, has_none and bool((~inside).any()), none)
    return weighed._replace(trust=trust), facts


def _scoped(seen: Seen, z: Floats) -> Scoped:
    """What open-set scores see of rows with such blended scores."""
    lexical = np.where(seen.learnt, seen.lexical, -1.0)
    looked_at = signs(z, seen.told, lexical, seen.distance, seen.known, seen.words, seen.busy)
    return Scoped(looked_at, seen.inside, seen.part)
