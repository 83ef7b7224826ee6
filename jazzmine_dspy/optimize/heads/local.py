"""Compiles the local part: what labelled turns add to the package weights, and how it does on turns it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.optimize.heads.flows import fit_flows
from jazzmine_dspy.optimize.local.acts import head_example as shown
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


class Moved(NamedTuple):
    """A compiled local part.

    Args:
        program: The base program with what it learnt.
        examples: Labelled turns that its index holds.
        unseen: The same program over the labelled turns, each decided without what its conversation taught.
    """

    program: TurnProgram
    examples: tuple[IndexExample, ...] = ()
    unseen: Evaluation | None = None


class UnseenActs(Acts):
    """A head that reads a labelled turn as if its conversation had taught it nothing, and any other text as ``start``.

    Args:
        start: The head before labels.
        head: The head that labels moved.
    """

    def __init__(self, start: Acts, head: Acts) -> None:
        super().__init__(start.weights, head.scales, head.sure, head.gate)
        self._start, self._answers = start, dict[str, tuple[dict[str, float], dict[str, float]]]()

    def tell(self, example: Example, scores: Floats, added: dict[str, float]) -> None:
        """Store what is read of a turn."""
        self._answers[_key(example.turn)] = self.shares(scores), added

    def read(self, given: HeadInput) -> tuple[dict[str, float], dict[str, float]]:
        """What was stored for the turn, else what the head before labels reads."""
        known = self._answers.get(_key(given.turn))
        return self._start.read(given) if known is None else known


def move_weights(base: TurnProgram, examples: Sequence[Example], *, seed: int, judge: bool = False) -> Moved:
    """Teach the base program what labelled turns add to the package weights.

    With few turns it decides nearly as the base does: all that is learnt is pulled towards the package weights, as hard
    as it pays on conversations that were left out.

    Args:
        base: The base program, with its embedding model bound.
        examples: Labelled turns; those without labels of commands teach nothing.
        seed: Of the draw where there are more than 2,000.
        judge: Whether the turns are decided as if their conversations had taught nothing.
    """
    labelled = [each for each in examples if each.labels.commands is not None]
    start = shipped_head(base.bindings.embedder)
    if start is None or not labelled:
        return Moved(base)
    indexed = tuple(index_examples(base.registry, labelled))
    program = with_index(base, indexed)
    given = [shown(program, each) for each in labelled]
    head, scores = fit_labelled(start, given, seed)
    unseen = UnseenActs(start, head)
    for each, row in zip(labelled, scores, strict=True):
        unseen.tell(each, row, {})
    blind = program.with_policy(program.policy).bind(heads={"understand": unseen})
    told = [_starts(blind, each) for each in labelled]
    places = [place for place, each in enumerate(told) if each is not None and not _vague(labelled[place])]
    taught = [(given[place], told[place]) for place in places]
    head, added = fit_flows(head, [each for each, _ in taught], [each for _, each in taught if each], seed)
    program.bind(heads={"understand": ActsHead.from_state(head.to_state())})
    if not judge:
        return Moved(program, indexed)
    for place, row in zip(places, added, strict=True):
        unseen.tell(labelled[place], scores[place], dict(zip(head.flows, row.tolist(), strict=True)))
    return Moved(program, indexed, evaluate(blind, labelled, exclude=lambda each: (each.conversation_id,)))


def _starts(program: TurnProgram, example: Example) -> Starts | None:
    """What the package says of flows that the turn may start; None where labels have no say in it."""
    if is_ruled(program.registry, example):
        return None
    told = read_starts(program.read(example.turn, (example.conversation_id,))).starts
    return told if told is not None and told.ranking else None


def _vague(example: Example) -> bool:
    """Whether it is labelled to be asked which flow is meant: it says of none that it starts, nor that none does."""
    return any("flows" in command.flow_fields for command in example.labels.commands or ())


def _key(turn: Any) -> str:
    return str(turn.model_dump_json())
