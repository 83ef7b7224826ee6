"""A linear model of yes-or-no outputs: ridge regression in its dual form, its scores scaled to probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.heads.acts import ridge
from jazzmine_dspy.program.ports import Floats

PENALTY = 3.0
PULL = 10.0
"""Of weights: from nothing, and away from those that the package ships."""

MOST_ROWS = 2_000
"""Rows that a run learns from: the time to fit grows with the cube of their number."""

_START = (2.0, 0.0)


class Linear(NamedTuple):
    """Weights of shape (features, outputs), and factor and offset that make log-odds of scores, (outputs, 2)."""

    weights: Floats
    scales: Floats

    def shares(self, scores: Floats) -> Floats:
        """Probabilities of scores, shape (rows, outputs)."""
        odds = np.clip(scores * self.scales[:, 0] + self.scales[:, 1], -30.0, 30.0)
        return np.asarray(1.0 / (1.0 + np.exp(-odds)))

    def probabilities(self, rows: Floats) -> Floats:
        """Probabilities of rows, shape (rows, outputs).

        Raises:
            InputError: the features are not of the embedding model that it was fitted with.
        """
        if rows.shape[1] != len(self.weights):
            raise InputError(
                f"The head of feeling was fitted on {len(self.weights)} features and not on {rows.shape[1]}",
                remedy="Bind the embedding model that it was fitted with, or compile the program again.",
            )
        return self.shares(rows @ self.weights)


def fit_linear(
    rows: Floats,
    right: NDArray[np.bool_],
    groups: Sequence[str],
    counts: Floats,
    start: Linear | None = None,
) -> tuple[Linear, Floats]:
    """Fit a model from nothing, or from another one that it stays near.

    Args:
        rows: Shape (rows, features).
        right: Shape (rows, outputs).
        groups: Rows of one group are left out together.
        counts: What each row counts, shape (rows,).
        start: The model to start from.

    Returns:
        The model, and each row's probabilities by a fit without its group.
    """
    before = np.zeros(right.shape) if start is None else rows @ start.weights
    penalty = PENALTY if start is None else PULL
    fitted = ridge.fit(rows @ rows.T, np.where(right, 1.0, -1.0) - before, counts, groups, penalty)
    scores = before + fitted.left_out
    near = [_START] * right.shape[1] if start is None else start.scales
    scales = np.array(
        [ridge.platt(scores[:, o], right[:, o], counts, near[o]) for o in range(right.shape[1])]
    )
    weights = rows.T @ fitted.dual.astype(np.float32)
    if start is not None:
        weights = start.weights + weights
    made = Linear(weights.astype(np.float16).astype(np.float32), scales.astype(np.float32))
    return made, made.shares(scores)
