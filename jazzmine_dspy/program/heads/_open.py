"""The open set: whether a message wants any flow at all. Pure; rows are turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from jazzmine_dspy.program.heads._blend import sigmoid, softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]

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
