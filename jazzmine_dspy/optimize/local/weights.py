"""Train the heads of commands: labels move the package weights, and the result is judged out of fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.optimize.heads._parts import Floats, Numbers
from jazzmine_dspy.optimize.heads._rows import group_folds
from jazzmine_dspy.optimize.local.recall import IndexExample, index_examples, with_index
from jazzmine_dspy.optimize.local.rows import is_ruled
from jazzmine_dspy.program.heads.acts.fit import (
    UNMEASURED,
    ActsHead,
    chosen_pull,
    drawn,
    fit_labelled,
    labelled_rows,
)
from jazzmine_dspy.program.heads.acts.model import ACTS, Acts, shipped_head
from jazzmine_dspy.program.heads.acts.view import full, kernel
from jazzmine_dspy.program.local.starting import read_starts
from jazzmine_dspy.program.local.understanding import head_input
from jazzmine_dspy.program.ports import HeadExample, HeadInput
from jazzmine_dspy.program.starts import UNLIKELY, Starts
from jazzmine_dspy.program.turn import TurnProgram


def head_example(program: TurnProgram, example: Example) -> HeadExample[list[Command]]:
    """A labelled turn as training example of the head."""
    turn, flows = example.turn, example.labels.flows or ()
    state = program.read(turn, (example.conversation_id,)).with_selected(flows)
    commands = [command for command in example.labels.commands or () if command.understood]
    given = head_input(_UNTRAINED, state, state.choosable, rewritten=False)
    return HeadExample(given, commands, example.conversation_id, tuple(flows))


_UNTRAINED = Acts(np.zeros((0, len(ACTS))), np.zeros((len(ACTS), 2)), UNMEASURED)
"""Says of which texts a head sees features, before there is one."""


class MovedWeights(NamedTuple):
    """A compiled local part.

    Args:
        program: The base program with the moved weights.
        examples: Labelled turns in its index.
        unseen: Evaluation on the labelled turns, each decided without what its own conversation taught.
    """

    program: TurnProgram
    examples: tuple[IndexExample, ...] = ()
    unseen: Evaluation | None = None


class UnseenActs(Acts):
    """A head for out-of-fold evaluation: it reads labelled turns without what their own conversation taught.

    It reads any other text like ``start``.

    Args:
        start: The head before labels.
        head: The head that labels moved.
    """

    def __init__(self, start: Acts, head: Acts) -> None:
        super().__init__(start.weights, head.scales, head.sure)
        self._start, self._answers = start, dict[str, tuple[dict[str, float], dict[str, float]]]()

    def store(self, example: Example, scores: Floats, added: dict[str, float]) -> None:
        """Store the out-of-fold result of a turn."""
        self._answers[example.turn.digest] = self.shares(scores), added

    def read(self, given: HeadInput) -> tuple[dict[str, float], dict[str, float]]:
        """The stored result of the turn, else that of the head before labels."""
        stored = self._answers.get(given.turn.digest)
        return self._start.read(given) if stored is None else stored


def move_weights(
    base: TurnProgram, examples: Sequence[Example], *, seed: int, judge: bool = False
) -> MovedWeights:
    """Move the package weights of the base program by labelled turns.

    All weights are regularized towards the package weights. Cross-validation chooses the strength, so that a program
    with few turns decides nearly like the base.

    Args:
        base: The base program, with its embedding model bound.
        examples: Labelled turns; those without labelled commands are ignored.
        seed: Of the sample if there are more than 2,000 turns.
        judge: Whether to evaluate the turns out of fold.
    """
    labelled = [each for each in examples if each.labels.commands is not None]
    if (start := shipped_head(base.bindings.embedder)) is None or not labelled:
        return MovedWeights(base)
    indexed = tuple(index_examples(base.registry, labelled))
    program = with_index(base, indexed)
    head_examples = [head_example(program, each) for each in labelled]
    head, scores = fit_labelled(start, head_examples, seed)
    unseen_head = UnseenActs(start, head)
    for each, row in zip(labelled, scores, strict=True):
        unseen_head.store(each, row, {})
    blind = program.with_policy(program.policy).bind(heads={"understand": unseen_head})
    starts = {
        place: likely
        for place, example in enumerate(labelled)
        if (likely := _read_starts(blind, example)) is not None
    }
    head, added = fit_flows(head, [head_examples[place] for place in starts], [*starts.values()], seed)
    program.bind(heads={"understand": ActsHead.from_state(head.to_state())})
    if not judge:
        return MovedWeights(program, indexed)
    for place, row in zip(starts, added, strict=True):
        unseen_head.store(labelled[place], scores[place], dict(zip(head.flows, row.tolist(), strict=True)))
    return MovedWeights(
        program, indexed, evaluate(blind, labelled, exclude=lambda each: (each.conversation_id,))
    )


def _read_starts(program: TurnProgram, example: Example) -> Starts | None:
    """The package's probabilities that flows start.

    None if rules decide the turn, no flow may start, or the label is a question which flow is intended.
    """
    asks = any("flows" in command.flow_fields for command in example.labels.commands or ())
    if asks or is_ruled(program.registry, example):
        return None
    starts = read_starts(program.read(example.turn, (example.conversation_id,))).starts
    return starts if starts is not None and starts.ranking else None


ANY = ""
"""Name of the weights that all flows share: whether the message starts any flow."""

PULLS = (0.3, 1.0, 3.0, 10.0, 30.0)
USUAL_PULL = 3.0
_FOLDS = 4
_STEPS = 50
_SMALLEST = 1e-6
_ABSENT = -30.0


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
    stack = labelled_rows([examples[place] for place in places]).shown
    sizes, turns = np.linalg.eigh(kernel(stack).astype(np.float64))
    turns, sizes = turns[:, sizes > _SMALLEST * sizes[-1]], np.sqrt(sizes[sizes > _SMALLEST * sizes[-1]])
    before = np.array([_log_shares(starts[place], names) for place in places])
    place_of = {name: place for place, name in enumerate(names)}
    right = np.array([place_of.get(targets[place] or "", len(names)) for place in places])
    features = turns * sizes
    folds = group_folds(groups, seed=seed, folds=_FOLDS)
    zeros: Floats = np.zeros((features.shape[1], len(names) + 1))
    added: dict[float, Floats] = {pull: np.zeros((len(right), len(names) + 1)) for pull in PULLS}
    for fold in set(folds.tolist()):
        training, solution = folds != fold, zeros
        for pull in reversed(PULLS):
            solution = _minimize(features[training], before[training], right[training], pull, solution)
            added[pull][~training] = features[~training] @ solution
    best = chosen_pull({pull: _loss(before, each, right) for pull, each in added.items()}, USUAL_PULL)
    weights = full(stack).T @ (turns @ (_minimize(features, before, right, best, zeros) / sizes[:, None]))
    fitted_head = Acts(head.weights, head.scales, head.sure, (ANY, *names), weights)
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


def _minimize(features: Floats, before: Floats, right: Numbers, pull: float, start: Floats) -> Floats:
    """Weights of least log-loss and least size, shape (directions, flows + 1).

    Args:
        features: Coordinates along the principal directions of the turns, shape (turns, directions).
        before: Log-probabilities of the package, shape (turns, flows + 2).
        right: Index of the right flow; the number of flows if none starts.
        pull: Weight of the size.
        start: Weights to begin with.
    """
    from scipy.optimize import minimize
    from scipy.special import softmax

    places = np.arange(len(right))

    def cost(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(start.shape)
        odds = _odds(before, features @ weights)
        shares = softmax(odds, axis=1)
        value = -np.log(np.maximum(shares[places, right], 1e-30)).sum()
        shares[places, right] -= 1.0
        slopes = np.column_stack([shares[:, :-2].sum(axis=1) + shares[:, -1], shares[:, :-2]])
        gradient = features.T @ slopes + pull * weights
        return float(value + 0.5 * pull * (weights**2).sum()), gradient.ravel()

    solution = minimize(cost, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return np.asarray(solution.x.reshape(start.shape))
