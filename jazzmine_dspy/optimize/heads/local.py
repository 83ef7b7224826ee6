"""Compiles the local part: moves the package weights by labelled turns and judges the result out of fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.optimize.heads.flows import fit_flows
from jazzmine_dspy.optimize.local.acts import head_example
from jazzmine_dspy.optimize.local.indexing import with_index
from jazzmine_dspy.optimize.local.recall import IndexExample, index_examples
from jazzmine_dspy.optimize.local.rows import is_ruled
from jazzmine_dspy.program.heads.acts import Acts, ActsHead
from jazzmine_dspy.program.heads.acts.fit import fit_labelled
from jazzmine_dspy.program.heads.acts.shipped import shipped_head
from jazzmine_dspy.program.local.starting import read_starts
from jazzmine_dspy.program.ports import HeadInput
from jazzmine_dspy.program.starts import Starts
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]


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
        super().__init__(start.weights, head.scales, head.sure, head.gate)
        self._start, self._answers = start, dict[str, tuple[dict[str, float], dict[str, float]]]()

    def store(self, example: Example, scores: Floats, added: dict[str, float]) -> None:
        """Store the out-of-fold result of a turn."""
        self._answers[_key(example.turn)] = self.shares(scores), added

    def read(self, given: HeadInput) -> tuple[dict[str, float], dict[str, float]]:
        """The stored result of the turn, else that of the head before labels."""
        stored = self._answers.get(_key(given.turn))
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
    start = shipped_head(base.bindings.embedder)
    if start is None or not labelled:
        return MovedWeights(base)
    indexed = tuple(index_examples(base.registry, labelled))
    program = with_index(base, indexed)
    head_examples = [head_example(program, each) for each in labelled]
    head, scores = fit_labelled(start, head_examples, seed)
    unseen_head = UnseenActs(start, head)
    for each, row in zip(labelled, scores, strict=True):
        unseen_head.store(each, row, {})
    blind = program.with_policy(program.policy).bind(heads={"understand": unseen_head})
    starts = [_read_starts(blind, each) for each in labelled]
    places = [
        place for place, each in enumerate(starts) if each is not None and not _asks_for_flow(labelled[place])
    ]
    rows = [(head_examples[place], starts[place]) for place in places]
    head, added = fit_flows(head, [each for each, _ in rows], [each for _, each in rows if each], seed)
    program.bind(heads={"understand": ActsHead.from_state(head.to_state())})
    if not judge:
        return MovedWeights(program, indexed)
    for place, row in zip(places, added, strict=True):
        unseen_head.store(labelled[place], scores[place], dict(zip(head.flows, row.tolist(), strict=True)))
    return MovedWeights(
        program, indexed, evaluate(blind, labelled, exclude=lambda each: (each.conversation_id,))
    )


def _read_starts(program: TurnProgram, example: Example) -> Starts | None:
    """The package's probabilities that flows start; None if rules decide the turn or no flow may start."""
    if is_ruled(program.registry, example):
        return None
    starts = read_starts(program.read(example.turn, (example.conversation_id,))).starts
    return starts if starts is not None and starts.ranking else None


def _asks_for_flow(example: Example) -> bool:
    """Whether the label is a question which flow is intended. Such a turn does not tell which flow starts."""
    return any("flows" in command.flow_fields for command in example.labels.commands or ())


def _key(turn: Any) -> str:
    return str(turn.model_dump_json())
