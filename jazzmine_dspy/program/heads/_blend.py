"""The blend of a head's parts, and how it judges messages that no known flow answers."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.program.ports import Floats


class Blend(NamedTuple):
    """Weights of the parts.

    Args:
        linear, lexical: Of the linear model's and of the n-grams' scores.
        told: Of what recall tells of a flow that was learnt (:data:`EVIDENCE`).
        none: Of 1, whether something runs, and the best votes, similarity and fused score, for "none".
        new: Of 1 and of what recall tells, for a flow that was never learnt: all that there is to go by.
        bare: Of linear and lexical scores where recall tells nothing, and 1 for "none".
    """

    linear: float = 1.0
    lexical: float = 0.0
    told: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    none: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)
    new: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)
    bare: tuple[float, ...] = (1.0, 0.0, 0.0)


NOTHING = -1e9
"""Score of what can't be chosen."""


def scores(
    blend: Blend,
    linear: Floats,
    lexical: Floats,
    told: Floats | None,
    found: Floats,
    busy: Floats,
    learnt: NDArray[np.bool_],
) -> Floats:
    """Scores of flows and of "none", whose softmax are probabilities.

    Args:
        blend: The weights.
        linear, lexical: Shape (rows, flows + 1), the last column "none"; what was not learnt counts nothing.
        told: Shape (rows, flows, 4): what recall tells; None where it tells nothing.
        found: Shape (rows,): best fused score.
        busy: Shape (rows,): 1 where something runs.
        learnt: Shape (flows + 1,).

    Returns:
        Shape (rows, flows + 1).
    """
    flows = learnt[:-1]
    if told is None:
        z = blend.bare[0] * linear + blend.bare[1] * lexical
        z[:, -1] += blend.bare[2]
        z[:, :-1][:, ~flows] = NOTHING
    else:
        z = blend.linear * linear + blend.lexical * lexical
        if told.shape[1]:
            z[:, :-1] += np.where(
                flows, told @ np.asarray(blend.told), blend.new[0] + told @ np.asarray(blend.new[1:])
            )
            z[:, -1] += none_terms(told, found, busy) @ np.asarray(blend.none)
    if not learnt[-1]:
        z[:, -1] = NOTHING
    return np.asarray(z)


def none_terms(told: Floats, found: Floats, busy: Floats) -> Floats:
    """What speaks for or against "none", shape (rows, 5)."""
    best = told[:, :, :3].max(axis=1)
    return np.column_stack([np.ones(len(told)), busy, best[:, 0], best[:, 1], found * 4.0])


def softmax(z: Floats) -> Floats:
    """Along the last axis."""
    raised = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def log_odds(probability: Floats | float) -> Floats:
    """Logarithm of p / (1 - p), within ±12."""
    p = np.clip(probability, 6e-6, 1 - 6e-6)
    return np.asarray(np.log(p / (1 - p)))


def sigmoid(x: Floats | float) -> Floats:
    """1 / (1 + exp(-x))."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -60, 60))))


class Trust(NamedTuple):
    """From how probable an answer looks to how often it is right.

    Args:
        flow: Of 1, of the log-odds of the chosen flow, and of those of being in scope; the last two at least 0.
        none: Of 1 and of the log-odds of "none"; the last at least 0.
    """

    flow: tuple[float, float, float] = (0.0, 1.0, 0.0)
    none: tuple[float, float] = (0.0, 1.0)

    def of_flow(self, probability: Floats | float, in_scope: Floats | float) -> Floats:
        """Probability that the flow is right."""
        bias, own, scope = self.flow
        return sigmoid(bias + own * log_odds(probability) + scope * log_odds(in_scope))

    def of_none(self, probability: Floats | float) -> Floats:
        """Probability that "none" is right."""
        return sigmoid(self.none[0] + self.none[1] * log_odds(probability))


Kind = Literal["softmax", "energy", "neighbours", "mahalanobis", "gate"]
KINDS: tuple[Kind, ...] = ("softmax", "energy", "neighbours", "mahalanobis", "gate")

SIGNS = (
    "softmax",
    "energy",
    "neighbours",
    "mahalanobis",
    "votes",
    "margin",
    "lexical",
    "known",
    "words",
    "busy",
)
"""What is looked at: logarithm of the likeliest flow's probability; log-sum-exp of the flows' scores; similarity of
the nearest text; distance to the nearest flow's mean, negative; logarithm of all support; lead of the best flow; best
lexical score; share of known pieces; logarithm of the number of words; whether something runs."""

_GATED = tuple(number for number, name in enumerate(SIGNS) if name != "mahalanobis")


def signs(
    z: Floats,
    told: Floats | None,
    lexical: Floats,
    distance: Floats,
    known: Floats,
    words: Floats,
    busy: Floats,
) -> Floats:
    """What there is to judge by, shape (rows, signs); see :data:`SIGNS`.

    Args:
        z: Blended scores, shape (rows, flows + 1), "none" last.
        told: What recall tells, shape (rows, flows, 4), or None.
        lexical: Lexical scores, shape (rows, flows + 1).
        distance: To the nearest flow's mean, shape (rows,); 0 where it is not looked at.
        known: Share of known pieces, shape (rows,).
        words: Number of words, shape (rows,).
        busy: 1 where something runs, shape (rows,).
    """
    rows = len(z)
    flows = z[:, :-1]
    top = flows.max(axis=1)
    ordered = np.sort(flows, axis=1)[:, -2:] if flows.shape[1] > 1 else np.column_stack([top - 20.0, top])
    votes = np.full(rows, -9.0) if told is None else np.log(np.exp(told[:, :, 0]).sum(axis=1))
    return np.column_stack(
        [
            np.log(np.maximum(softmax(z)[:, :-1].max(axis=1), 1e-12)),
            top + np.log(np.exp(flows - top[:, None]).sum(axis=1)),
            np.zeros(rows) if told is None else told[:, :, 1].max(axis=1),
            -distance,
            votes,
            np.minimum(ordered[:, 1] - ordered[:, 0], 20.0),
            lexical[:, :-1].max(axis=1),
            known,
            np.log1p(words),
            busy,
        ]
    )


NEAR = 0.42
"""Cosine between a message and the nearest text of a flow that was not learnt, from which on the flow may be meant.

Measured with MiniLM on registries cut from public data, others than those of the tests: if half of all messages want
one of the flows, so do half of those that are as near as this. Support, lead, length and the number of flows add
nothing to it.
"""

_NEARNESS = 23.0
"""How quickly the odds that a flow is meant rise with the cosine; measured likewise."""


def near_enough(similarity: float, near: float) -> float:
    """Probability that a message so near to a flow that was not learnt wants a flow at all.

    Example:
        >>> [round(near_enough(cosine, NEAR), 2) for cosine in (0.2, 0.42, 0.6)]
        [0.01, 0.5, 0.98]
    """
    return float(sigmoid(_NEARNESS * (similarity - near)))


class Space(NamedTuple):
    """Where flows lie: for distances to their means under the covariance that they share.

    Args:
        whitening: Shape (features, directions), float32.
        means: Shape (flows learnt, directions), float32.
    """

    whitening: NDArray[np.float32]
    means: NDArray[np.float32]

    def distance(self, features: Floats) -> Floats:
        """To the nearest mean, shape (rows,)."""
        placed = features @ self.whitening
        squares = (placed**2).sum(1)[:, None] - 2 * placed @ self.means.T + (self.means**2).sum(1)
        return np.asarray(np.sqrt(np.maximum(squares.min(axis=1), 0.0)))


class OpenSet(NamedTuple):
    """The score that tells in scope from out of scope, and where the line is.

    Args:
        kind: Which score.
        threshold: Below it no flow is wanted.
        scale, shift: ``sigmoid(scale * score + shift)`` is the probability of being in scope.
        mean, spread, weights, bias: Of the gate: a linear model over the signs, standardised, and their squares.
    """

    kind: Kind = "softmax"
    threshold: float = -np.inf
    scale: float = 0.0
    shift: float = 8.0
    mean: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    bias: float = 0.0

    def score(self, seen: Floats) -> Floats:
        """Of the signs, shape (rows, signs), the score, shape (rows,): the higher, the more in scope."""
        if self.kind != "gate":
            return np.asarray(seen[:, SIGNS.index(self.kind)])
        return np.asarray(gated(seen, self.mean, self.spread) @ np.asarray(self.weights) + self.bias)

    def in_scope(self, score: Floats) -> Floats:
        """Probability of being in scope, shape (rows,)."""
        return sigmoid(self.scale * score + self.shift)


def gated(seen: Floats, mean: tuple[float, ...], spread: tuple[float, ...]) -> Floats:
    """What the gate's linear model sees: signs, standardised and clipped, and their squares."""
    x = np.clip((seen[:, _GATED] - np.asarray(mean)) / np.asarray(spread), -4.0, 4.0)
    return np.hstack([x, x**2 / 4.0])


def gate_signs(seen: Floats) -> Floats:
    """The columns that the gate sees."""
    return seen[:, _GATED]
