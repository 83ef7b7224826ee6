"""Ridge regression in its dual form: weights, and what each group would be told by the others, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.program.ports import Floats


class Fitted(NamedTuple):
    """Dual weights, shape (rows, labels), and scores of each row by a fit without its group, same shape."""

    dual: Floats
    left_out: Floats


def fit(gram: Floats, targets: Floats, weights: Floats, groups: Sequence[str], penalty: float) -> Fitted:
    """Fit all labels at once.

    Args:
        gram: Inner products, shape (rows, rows).
        targets: -1 or 1, shape (rows, labels).
        weights: What each row counts, shape (rows,).
        groups: Rows of one group are left out together.
        penalty: Of large weights.
    """
    inverse = np.linalg.inv(gram.astype(np.float64) + penalty * np.diag(1.0 / weights))
    dual = inverse @ targets
    left_out = np.empty_like(dual)
    places: dict[str, list[int]] = {}
    for row, group in enumerate(groups):
        places.setdefault(group, []).append(row)
    for rows in places.values():
        # Scores of a fit without these rows: y - inv(H_gg) (H y)_g.
        left_out[rows] = targets[rows] - np.linalg.solve(inverse[np.ix_(rows, rows)], dual[rows])
    return Fitted(dual, left_out)


def platt(
    scores: Floats,
    right: NDArray[np.bool_],
    weights: Floats,
    near: Floats | Sequence[float],
    pull: float = 2.0,
) -> tuple[float, float]:
    """Factor and offset that make log-odds of scores, by Newton's method; near the given ones where little is told."""
    x = np.stack([scores, np.ones(len(scores))], axis=1)
    theta = logistic(x, right.astype(float), weights, np.asarray(near, float), np.full(2, pull))
    return float(max(theta[0], 0.1)), float(theta[1])


def logistic(x: Floats, right: Floats, weights: Floats, near: Floats, pull: Floats) -> Floats:
    """Factors of the columns that make log-odds, by Newton's method; pulled towards the given ones.

    Args:
        x: Shape (rows, columns); an offset is a column of ones.
        right: 0 or 1, shape (rows,).
        weights: What each row counts, shape (rows,).
        near: Factors where nothing is told, shape (columns,).
        pull: How hard each factor is held there, shape (columns,).
    """
    theta = near.copy()
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ theta, -30, 30)))
        gradient = x.T @ (weights * (p - right)) + pull * (theta - near)
        hessian = (x * (weights * p * (1 - p))[:, None]).T @ x + np.diag(pull)
        step = np.linalg.solve(hessian, gradient)
        theta -= np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-6:
            break
    return theta
