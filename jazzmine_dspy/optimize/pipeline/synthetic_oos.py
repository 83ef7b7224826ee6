"""Turns asked as if their flows did not exist: what stands for messages out of scope where the labels have none.

Labels without such messages reward a source that never refuses: every "none" looks like an error. So where the head's
open-set line stands for a share of messages that want no flow, the sources are compared on messages of that share too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.calibration.order import Verdict
from jazzmine_dspy.optimize.heads._result import HeadWithout, TrainedHead
from jazzmine_dspy.optimize.pipeline.heads import floor_choice
from jazzmine_dspy.optimize.pipeline.heats import HIDDEN
from jazzmine_dspy.optimize.pipeline.rows import Exclusions, Row, State, predict, row_of
from jazzmine_dspy.program.ports import Recalled, SelectionOutput
from jazzmine_dspy.program.stage import Context
from jazzmine_dspy.program.turn import TurnProgram


class SyntheticTurn(NamedTuple):
    """A turn whose right answer is "none", since its flow was hidden from all that judge it.

    Args:
        row: The turn, labelled so, with what recall finds for it without the flow.
        output: Of a head that has never learnt the flow.
        fold: That of the turn itself, under whose gate it is judged.
    """

    row: Row
    output: SelectionOutput
    fold: int = 0

    def verdict(self, thresholds: Mapping[State, float]) -> Verdict:
        """What head and floor are worth: all where they refuse, nothing where they start a flow."""
        example, refused = self.row.example, not self.output.flows
        return Verdict(
            key=example.key, group=example.conversation_id, confidence=self.output.confidence, head=float(refused),
            floor=float(not floor_choice(self.row, thresholds)), fold=self.fold, flows=refused,
        )  # fmt: skip


def synthetic_oos(
    program: TurnProgram,
    rows: Sequence[Row],
    trained: TrainedHead,
    *,
    seed: int,
    exclude: Exclusions | None = None,
    folds: Sequence[int] | None = None,
) -> tuple[SyntheticTurn, ...]:
    """As many as make the share of messages out of scope that the head assumes, if there are so many.

    A flow is left out together with a quarter of the flows, by a head that learnt others. A turn stands in once, so
    that the share reached is a half at most. Only conversations of one labelled turn can stand in: of a longer one, the
    head may have learnt the other turns.

    Args:
        program: Its steps bring the turns to the selection; the flows are hidden from its index.
        rows: Labelled turns; those of one flow can stand in.
        trained: The head, with its share.
        seed: Decides which turns stand in.
        exclude: Which conversations a turn must not find.
        folds: In which each turn was held out, shape (rows,).

    Returns:
        None of them where the share is 0, or where the labels have as many messages out of scope.
    """
    share = trained.assumed_share
    turns = Counter(row.example.conversation_id for row in rows)
    reached = [number for number, row in enumerate(rows) if not row.ruled]
    nothing = sum(not rows[number].wanted for number in reached)
    count = round((share * len(reached) - nothing) / (1.0 - share))
    judges = {name: each for each in trained.without for name in each.flows}
    able = [
        n
        for n in reached
        if turns[rows[n].example.conversation_id] == 1 and _hideable(program, rows[n], judges)
    ]
    if count < 1 or not able:
        return ()
    chosen = sorted(random.Random(f"{seed}:stand-ins").sample(able, min(count, len(able))))
    found = []
    for number in chosen:
        judge = judges[rows[number].wanted[0]]
        row = _without(program, rows[number].example, judge.flows, exclude)
        output = predict(judge.head, program, row, judge.flows)
        found.append(SyntheticTurn(row, output, folds[number] if folds is not None else 0))
    return tuple(found)


def _without(
    program: TurnProgram, example: Example, flows: frozenset[str], exclude: Exclusions | None
) -> Row:
    """The turn as the program brings it to the selection where recall finds none of some flows."""
    scratch = program.with_policy(program.policy).bind(recall=_Hiding(program, flows))
    labels = example.labels.model_copy(update={"flows": ()})
    row = row_of(scratch, example, exclude)
    hidden = example.model_copy(update={"turn_id": example.turn_id + HIDDEN, "labels": labels})
    return row._replace(example=hidden, ruled=False)


class _Hiding:
    """The program's recall, which does not find some flows."""

    fingerprint = "hiding"

    def __init__(self, program: TurnProgram, flows: frozenset[str]) -> None:
        self.registry = program.registry
        self._inner, self._flows = program.bindings.recall, flows

    def __deepcopy__(self, memo: dict[int, Any]) -> _Hiding:
        return self

    def recall(
        self, query: str, *, allowed: Collection[str] | None = None, **settings: Any
    ) -> list[Recalled]:
        """What is found among the other flows."""
        if self._inner is None:
            return []
        names = self.registry if allowed is None else allowed
        return list(self._inner.recall(query, allowed=frozenset(names) - self._flows, **settings))

    async def arecall(self, query: str, **settings: Any) -> list[Recalled]:
        """The same."""
        return self.recall(query, **settings)


def _hideable(program: TurnProgram, row: Row, judges: Mapping[str, HeadWithout]) -> bool:
    """Whether the turn wants one flow that can be hidden so that others are left to choose from."""
    if len(row.wanted) != 1 or row.wanted[0] not in judges:
        return False
    choosable = Context(turn=row.example.turn, registry=program.registry).choosable
    return not judges[row.wanted[0]].flows.issuperset(choosable)
