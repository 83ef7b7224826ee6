"""Turns asked as if their flows did not exist: what stands for messages out of scope where the labels have none.

Labels without such messages reward a source that never refuses: every "none" looks like an error. So where the head's
open-set line stands for a share of messages that want no flow, the sources are compared on messages of that share too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from jazzmine_dspy.optimize.fit import Row, judged_by, recalled_for
from jazzmine_dspy.optimize.heads._result import HeadWithout, TrainedHead
from jazzmine_dspy.optimize.race import STAND_IN
from jazzmine_dspy.optimize.settings import Exclusions
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.stage import Context
from jazzmine_dspy.program.turn import TurnProgram


class StandIn(NamedTuple):
    """A turn whose right answer is "none", since its flow was hidden from all that judge it.

    Args:
        row: The turn, labelled so, with what recall finds for it without the flow.
        judgement: Of a head that has never learnt the flow.
        fold: That of the turn itself, under whose gate it is judged.
    """

    row: Row
    judgement: SelectionOutput
    fold: int = 0


def stand_ins(
    program: TurnProgram,
    rows: Sequence[Row],
    trained: TrainedHead,
    *,
    seed: int,
    exclude: Exclusions | None = None,
    folds: Sequence[int] | None = None,
) -> list[StandIn]:
    """As many as make the share of messages out of scope that the head assumes, if there are so many.

    A flow is left out together with a quarter of the flows, by a head that learnt others. A turn stands in once, so
    that the share reached is a half at most. Only conversations of one labelled turn can stand in: of a longer one, the
    head may have learnt the other turns.

    Args:
        program: Its index is asked; the flows are hidden from it.
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
        return []
    chosen = sorted(random.Random(f"{seed}:stand-ins").sample(able, min(count, len(able))))
    found = []
    for number in chosen:
        example, judge = rows[number].example, judges[rows[number].wanted[0]]
        hidden = example.model_copy(
            update={
                "turn_id": example.turn_id + STAND_IN,
                "labels": example.labels.model_copy(update={"flows": ()}),
            }
        )
        row = Row(hidden, recalled_for(program, example, exclude, judge.flows), ruled=False)
        judgement = judged_by(judge.head, program, row, judge.flows)
        found.append(StandIn(row, judgement, folds[number] if folds is not None else 0))
    return found


def _hideable(program: TurnProgram, row: Row, judges: Mapping[str, HeadWithout]) -> bool:
    """Whether the turn wants one flow that can be hidden so that others are left to choose from."""
    if len(row.wanted) != 1 or row.wanted[0] not in judges:
        return False
    choosable = Context(turn=row.example.turn, registry=program.registry).choosable
    return not judges[row.wanted[0]].flows.issuperset(choosable)
