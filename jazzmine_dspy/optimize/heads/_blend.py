"""Fits how a head's parts are weighed, and its confidence, on answers to turns that the parts have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.optimize.heads._parts import Floats, Numbers
from jazzmine_dspy.optimize.heads._rows import Seen, sampled
from jazzmine_dspy.program.heads import _blend
from jazzmine_dspy.program.heads._blend import Blend, OpenSet, Trust, log_odds, none_terms, softmax

_RIDGE = 1e-4
_FIRST = (0.5, 0.1, 1.0, 0.2, 0.1, 0.0, 0.0)
"""Of logistic, means, lexical, and what recall tells, to begin with."""

_NEW = (-1.0, 0.6, 0.4, 0.4, 0.0)


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


def blend_scores(weighed: Weighed, seen: Seen) -> Floats:
    """Blended scores, shape (rows, flows + 1), each row with the labels that were learnt for it."""
    linear = weighed.logistic * seen.logistic + weighed.means * seen.means
    z = np.empty(linear.shape)
    # Rows that the same parts judged share what was learnt.
    keys, groups = np.unique(seen.learnt, axis=0, return_inverse=True)
    for number, learnt in enumerate(keys):
        rows = np.flatnonzero(groups.ravel() == number)
        z[rows] = _blend.scores(
            weighed.blend, np.where(learnt, linear[rows], 0.0), np.where(learnt, seen.lexical[rows], 0.0),
            seen.told[rows], seen.found[rows], seen.busy[rows], learnt,
        )  # fmt: skip
    z[:, :-1][seen.absent] = _blend.NOTHING
    return z


def fit_blend(seen: Seen, has_none: bool, seed: int) -> Weighed:
    """Weights of the parts for what was learnt, with recall and without."""
    kept = np.flatnonzero(seen.targets >= 0)
    kept = kept[seen.learnt[kept, seen.targets[kept]]]
    seen = seen.of(sampled(kept, seen.told.shape[1], seed))
    terms = [
        seen.logistic,
        seen.means,
        seen.lexical,
        *flow_columns(seen.told, seen.learnt[:, :-1]),
    ]
    free = [False] * 6 + [True]
    start = list(_FIRST)
    if has_none:
        terms.extend(none_columns(seen.told, seen.found, seen.busy))
        free += [True] * 5
        start += [0.0] * 5
    offset = np.where(seen.learnt, 0.0, -1e4).astype(np.float32)
    terms = [np.where(seen.learnt, term, 0.0) for term in terms]
    made = fit_weights(terms, seen.targets, offset=offset, start=start, free=free)
    linear = np.where(seen.learnt, made[0] * seen.logistic + made[1] * seen.means, 0.0)
    last = np.zeros_like(linear)
    last[:, -1] = 1.0
    bare = fit_weights(
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
    made = fit_weights(
        [ones, *flow_columns(apart.told, unlearnt)], apart.targets,
        offset=blend_scores(blind, apart), start=list(_NEW), free=[True, False, False, False, True], ridge=1e-3,
    )  # fmt: skip
    return weighed._replace(blend=weighed.blend._replace(new=tuple(made)))


def fit_weights(
    terms: Sequence[Floats],
    targets: Numbers,
    *,
    offset: Floats,
    start: Sequence[float],
    free: Sequence[bool],
    ridge: float = _RIDGE,
) -> list[float]:
    """Weights under which the softmax of ``offset + sum(weight * term)`` has the least log-loss.

    Args:
        terms: Each of shape (rows, columns).
        targets: Shape (rows,): right columns.
        offset: Shape (rows, columns).
        start: To begin with, and what the weights are drawn to.
        free: Whether a weight may be below 0.
        ridge: How strongly they are drawn.
    """
    from scipy.optimize import minimize

    if not len(targets):
        return list(start)
    held = np.stack([np.asarray(term, dtype=np.float32) for term in terms])
    base = np.asarray(offset, dtype=np.float32)
    rows, first = np.arange(len(targets)), np.asarray(start, dtype=np.float64)
    right = held[:, rows, targets].mean(axis=1, dtype=np.float64)

    def loss(w: Floats) -> tuple[float, Floats]:
        z = base + np.tensordot(w.astype(np.float32), held, 1)
        top = z.max(axis=1)
        p = np.exp(z - top[:, None])
        sums = p.sum(axis=1)
        value = float((top + np.log(sums) - z[rows, targets]).mean(dtype=np.float64))
        p /= sums[:, None] * len(targets)
        slope = np.einsum("jrc,rc->j", held, p, dtype=np.float32).astype(np.float64) - right
        return value + ridge * float(((w - first) ** 2).sum()), slope + 2 * ridge * (w - first)

    made = minimize(
        loss,
        first,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None if one else 0.0, None) for one in free],
        options={"maxiter": 200},
    )
    return [float(w) for w in made.x]


def log_loss(z: Floats, targets: Numbers) -> float:
    """Mean over the rows whose right column could be answered, in nats."""
    right = z[np.arange(len(targets)), targets]
    known = right > _blend.NOTHING / 2
    if not known.any():
        return float("inf")
    top = z[known].max(axis=1)
    return float(np.mean(top + np.log(np.exp(z[known] - top[:, None]).sum(axis=1)) - right[known]))


def none_columns(told: Floats, found: Floats, busy: Floats) -> Floats:
    """The terms that count for "none" alone, shape (terms, rows, flows + 1)."""
    columns = none_terms(told, found, busy).T
    terms = np.zeros((len(columns), len(told), told.shape[1] + 1), np.float32)
    terms[:, :, -1] = columns
    return terms


def flow_columns(told: Floats, mask: NDArray[np.bool_]) -> Floats:
    """What recall tells, one term each, for the flows of a mask of shape (rows, flows) or (flows,).

    Returns:
        Shape (terms, rows, flows + 1).
    """
    terms = np.zeros((told.shape[2], len(told), told.shape[1] + 1), np.float32)
    terms[:, :, :-1] = np.where(mask, told.transpose(2, 0, 1), 0.0)
    return terms


def fit_logit(
    inputs: Floats,
    right: NDArray[np.bool_],
    start: Sequence[float],
    weights: Floats | None = None,
    pull: float | Sequence[float] = 1.0,
) -> list[float]:
    """Weights of a logistic model; the first, of the constant, is free, the others are at least 0.

    Args:
        inputs: Shape (rows, terms), without the constant.
        right: Shape (rows,).
        start: To begin with, and what the weights are drawn to.
        weights: Shape (rows,).
        pull: How strongly they are drawn; 1 is as strongly as one row draws them.
    """
    from scipy.optimize import minimize

    first = np.asarray(start, dtype=np.float64)
    if not len(right):
        return list(first)
    x = np.column_stack([np.ones(len(right)), inputs])
    y = right.astype(np.float64)
    share = np.ones(len(y)) if weights is None else weights

    def loss(w: Floats) -> tuple[float, Floats]:
        z = np.clip(x @ w, -60, 60)
        away = np.asarray(pull) * (w - first)
        value = float((share * (np.logaddexp(0.0, z) - y * z)).sum()) + 0.5 * float(
            (away * (w - first)).sum()
        )
        return value, x.T @ (share * (1 / (1 + np.exp(-z)) - y)) + away

    bounds = [(None, None)] + [(0.0, None)] * (len(first) - 1)
    return [float(w) for w in minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds).x]


def fit_trust(
    z: Floats,
    in_scope: Floats,
    rejected: NDArray[np.bool_],
    targets: Numbers,
    has_none: bool,
    open_none: Floats,
) -> Trust:
    """How often an answer is right that looks so probable.

    Args:
        z: Blended scores, shape (rows, flows + 1), "none" last.
        in_scope: By the open-set score, shape (rows,).
        rejected: Whether that score is below its threshold, shape (rows,).
        targets: Right columns, shape (rows,).
        has_none: Whether "none" is a label, and rows of it are among these.
        open_none: Probability of "none" of rows, shape (rows,).
    """
    p = softmax(z)
    best = z.argmax(axis=1)
    last = z.shape[1] - 1
    flow = ~rejected & (best != last)
    own = p[np.arange(len(z)), best]
    if not has_none:
        own = own * in_scope
    inputs = np.column_stack([log_odds(own[flow]), log_odds(in_scope[flow])])
    bias, slope, scope = fit_logit(inputs, best[flow] == targets[flow], [0.0, 1.0, 0.0])
    none = (0.0, 1.0)
    if has_none:
        told = fit_logit(log_odds(open_none[~flow])[:, None], targets[~flow] == last, [0.0, 1.0])
        none = (told[0], told[1])
    return Trust((bias, slope, scope), none)
