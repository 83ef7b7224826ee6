"""How a head weighs its parts against each other, and how sure it is of what comes of it. Pure; rows are turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]


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
