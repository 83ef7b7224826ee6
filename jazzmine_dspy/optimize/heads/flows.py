"""Fits when flows start: a softmax whose offsets are the package's probabilities and whose weights come from labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.optimize.heads._rows import group_folds
from jazzmine_dspy.program.heads.acts import Acts
from jazzmine_dspy.program.heads.acts.fit import chosen_pull, drawn, labelled_rows
from jazzmine_dspy.program.heads.acts.view import full, kernel
from jazzmine_dspy.program.starts import UNLIKELY, Starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jazzmine_dspy.program.ports import HeadExample

    Floats = NDArray[np.floating[Any]]
    Numbers = NDArray[np.int64]

ANY = ""
"""Name of the weights that all flows share: whether the message starts any flow."""

PULLS = (0.3, 1.0, 3.0, 10.0, 30.0)
USUAL_PULL = 3.0
_FOLDS = 4
_STEPS = 50
_SMALLEST = 1e-6
_ABSENT = -30.0


class _Rows(NamedTuple):
    """Turns to learn from.

    Args:
        features: Coordinates along the principal directions of the turns, shape (turns, directions).
        before: Log-probabilities of the package, shape (turns, flows + 2).
        right: Index of the right flow; the number of flows if none starts.
    """

    features: Floats
    before: Floats
    right: Numbers

    def of(self, some: NDArray[np.bool_]) -> _Rows:
        return _Rows(self.features[some], self.before[some], self.right[some])


def fit_flows(
    head: Acts, examples: Sequence[HeadExample[list[Command]]], starts: Sequence[Starts], seed: int
) -> tuple[Acts, Floats]:
    """Fit what labels add to the log-odds that flows start.

    Args:
        head: The head.
        examples: Labelled turns.
        starts: Probabilities of the package for each example.
        seed: Of the folds, and of the sample if there are more than 2,000 turns.

    Returns:
        The head, and the log-odds added out of fold, shape (examples, names of the head's flows).
    """
    targets = [each.flows[0] if each.flows else None for each in examples]
    names = tuple(sorted({name for name in targets if name is not None}))
    possible = [
        name is None or name in dict(each.ranking) for name, each in zip(targets, starts, strict=True)
    ]
    places = [place for place in drawn(len(examples), seed) if possible[place]]
    groups = [examples[place].conversation for place in places]
    if not names or len(set(groups)) < 2:
        return head, np.zeros((len(examples), 0))
    features = labelled_rows([examples[place] for place in places]).shown
    sizes, turns = np.linalg.eigh(kernel(features).astype(np.float64))
    turns, sizes = turns[:, sizes > _SMALLEST * sizes[-1]], np.sqrt(sizes[sizes > _SMALLEST * sizes[-1]])
    before = np.array([_log_shares(starts[place], names) for place in places])
    place_of = {name: place for place, name in enumerate(names)}
    right = np.array([place_of.get(targets[place] or "", len(names)) for place in places])
    rows = _Rows(turns * sizes, before, right)
    folds = group_folds(groups, seed=seed, folds=_FOLDS)
    zeros: Floats = np.zeros((rows.features.shape[1], len(names) + 1))
    added: dict[float, Floats] = {pull: np.zeros((len(right), len(names) + 1)) for pull in PULLS}
    for fold in set(folds.tolist()):
        training, solution = folds != fold, zeros
        for pull in reversed(PULLS):
            solution = _minimize(rows.of(training), pull, solution)
            added[pull][~training] = rows.features[~training] @ solution
    best = chosen_pull({pull: _loss(before, each, right) for pull, each in added.items()}, USUAL_PULL)
    weights = full(features).T @ (turns @ (_minimize(rows, best, zeros) / sizes[:, None]))
    fitted_head = Acts(head.weights, head.scales, head.sure, head.gate, (ANY, *names), weights)
    unseen: Floats = np.zeros((len(examples), len(names) + 1))
    if len(places) < len(examples):
        unseen = full(labelled_rows(examples).shown) @ fitted_head.flow_weights
    unseen[places] = added[best]
    return fitted_head, unseen


def _log_shares(starts: Starts, names: Sequence[str]) -> list[float]:
    """Log-probabilities of the flows, of none, and of all other flows together."""
    shares = dict(starts.ranking)
    own = [np.log(max(shares[name], UNLIKELY)) if name in shares else _ABSENT for name in names]
    rest = sum(max(share, UNLIKELY) for name, share in shares.items() if name not in names)
    return [*own, np.log(max(1.0 - starts.probability, UNLIKELY)), np.log(rest) if rest else _ABSENT]


def _odds(before: Floats, added: Floats) -> Floats:
    """Log-odds of the flows, of none and of others. The first column of ``added`` applies to all flows."""
    odds = before.copy()
    odds[:, :-2] += added[:, 1:] + added[:, :1]
    odds[:, -1] += added[:, 0]
    return odds


def _loss(before: Floats, added: Floats, right: Numbers) -> float:
    from scipy.special import log_softmax

    return float(-log_softmax(_odds(before, added), axis=1)[np.arange(len(right)), right].sum())


def _minimize(rows: _Rows, pull: float, start: Floats) -> Floats:
    """Weights of least log-loss and least size, shape (directions, flows + 1)."""
    from scipy.optimize import minimize
    from scipy.special import softmax

    places = np.arange(len(rows.right))

    def cost(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(start.shape)
        odds = _odds(rows.before, rows.features @ weights)
        shares = softmax(odds, axis=1)
        value = -np.log(np.maximum(shares[places, rows.right], 1e-30)).sum()
        shares[places, rows.right] -= 1.0
        slopes = np.column_stack([shares[:, :-2].sum(axis=1) + shares[:, -1], shares[:, :-2]])
        gradient = rows.features.T @ slopes + pull * weights
        return float(value + 0.5 * pull * (weights**2).sum()), gradient.ravel()

    solution = minimize(cost, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return np.asarray(solution.x.reshape(start.shape))
