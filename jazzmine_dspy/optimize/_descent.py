"""L-BFGS with backtracking, for smooth convex losses of many weights; the same on every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_MEMORY = 8
_ENOUGH = 1e-4
_SHORTEST = 1e-4
_FLAT = 1e-6


def descend(
    loss: Callable[[Vector], tuple[float, Vector]], start: Vector, *, steps: int, tolerance: float = 1e-5
) -> Vector:
    """Weights of about the least loss.

    scipy's solver does the same, and of 60,000 weights spends more time on itself than on the loss.

    Args:
        loss: Gives the loss and its slope.
        start: To begin with; is not changed.
        steps: At most so many.
        tolerance: Ends where a step gains less than this share of the loss.
    """
    x = start.astype(np.float32)
    value, slope = loss(x)
    moves: list[tuple[Vector, Vector, float]] = []
    for _ in range(steps):
        direction = _direction(slope, moves)
        descent = float(np.vdot(direction, slope))
        if descent >= 0.0 or float(np.abs(slope).max()) < _FLAT:
            break
        length = 1.0 if moves else min(1.0, 1.0 / (float(np.abs(slope).sum()) + 1e-12))
        while True:
            trial = x + np.float32(length) * direction
            found, next_slope = loss(trial)
            if found <= value + _ENOUGH * length * descent or length < _SHORTEST:
                break
            length /= 2.0
        if found >= value:
            break
        step, change = trial - x, next_slope - slope
        curvature = float(np.vdot(step, change))
        # Below this a step tells of float32's noise alone.
        if curvature > 1e-6 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            moves = [*moves[-_MEMORY + 1 :], (step, change, 1.0 / curvature)]
        gained = value - found
        x, value, slope = trial, found, next_slope
        if len(moves) > 1 and gained < tolerance * abs(value):
            break
    return x


def _direction(slope: Vector, moves: list[tuple[Vector, Vector, float]]) -> Vector:
    """Downhill, by the two-loop recursion."""
    q = -slope
    factors = []
    for step, change, rho in reversed(moves):
        factor = np.float32(rho * float(np.vdot(step, q)))
        q -= factor * change
        factors.append(factor)
    if moves:
        step, change, rho = moves[-1]
        q *= np.float32(1.0 / (rho * float(np.vdot(change, change))))
    for (step, change, rho), factor in zip(moves, reversed(factors), strict=True):
        q += (factor - np.float32(rho * float(np.vdot(change, q)))) * step
    return q
