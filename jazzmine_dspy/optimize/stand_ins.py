"""Turns asked as if their flows did not exist: what stands for messages out of scope where the labels have none.

Labels without such messages reward a source that never refuses: every "none" looks like an error. So where the head's
open-set line stands for a share of messages that want no flow, the sources are compared on messages of that share too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from jazzmine_dspy.optimize.fit import Row, judged_by, recalled_for
from jazzmine_dspy.optimize.heads import TrainedHead
from jazzmine_dspy.optimize.settings import Exclusions
from jazzmine_dspy.program.ports import Judgement
from jazzmine_dspy.program.turn import TurnProgram


class StandIn(NamedTuple):
    """A turn whose right answer is "none", since its flow was hidden from all that judge it.

    Args:
        row: The turn, labelled so, with what recall finds for it without the flow.
        judgement: Of a head that has never learnt the flow.
        fold: In which the turn itself was held out.
    """

    row: Row
    judgement: Judgement
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

    A flow is left out together with a quarter of the flows, by a head that learnt the others.

    Args:
        program: Its index is asked; the flows are hidden from it.
        rows: Labelled turns; those of one flow can stand in.
        trained: The head, with its share.
        seed: Decides which turns stand in.
        exclude: Which conversations a turn must not find.
        folds: In which each turn was held out, shape (rows,).

    Returns:
        None where the labels themselves have messages out of scope, or where the share is 0.
    """
    share = trained.assumed_share
    reached = [number for number, row in enumerate(rows) if not row.ruled]
    nothing = sum(not rows[number].wanted for number in reached)
    count = round((share * len(reached) - nothing) / (1.0 - share))
    judges = {name: each for each in trained.without for name in each.flows}
    able = [n for n in reached if len(rows[n].wanted) == 1 and rows[n].wanted[0] in judges]
    if count < 1 or not able:
        return []
    chosen = sorted(random.Random(f"{seed}:stand-ins").sample(able, min(count, len(able))))
    found = []
    for number in chosen:
        example, judge = rows[number].example, judges[rows[number].wanted[0]]
        hidden = example.model_copy(
            update={
                "turn_id": f"{example.turn_id}#without",
                "labels": example.labels.model_copy(update={"flows": ()}),
            }
        )
        row = Row(hidden, recalled_for(program, example, exclude, judge.flows), ruled=False)
        judgement = judged_by(judge.head, program, row, judge.flows)
        found.append(StandIn(row, judgement, folds[number] if folds is not None else 0))
    return found
