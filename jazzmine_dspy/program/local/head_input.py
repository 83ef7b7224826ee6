"""What a head sees of a turn, in service and while it is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.ports import Clause, HeadInput, HeadPort, SeesTurn
from jazzmine_dspy.program.state import TurnState, tasks_of


def head_input(
    head: HeadPort[Any], state: TurnState, flows: Sequence[str], *, rewritten: bool = True
) -> HeadInput:
    """What a head sees of a turn.

    A head of selection reads the rewrite, whose words and features say what the message means without its context. The
    original stands next to it in what recall found. An unchanged rewrite is the message itself, so nothing differs
    then. Heads of other stages read the message as it was written, with the rewrite.

    Args:
        head: Says which texts it wants to see the features of.
        state: The turn, with its rewrite and what was recalled.
        flows: Names of the flows that may be chosen, in the registry's order.
        rewritten: Whether the rewrite takes the message's place.
    """
    turn, query = state.turn, state.text
    if rewritten and query != turn.text:
        turn = turn.model_copy(update={"text": query})
    texts = tuple(head.texts_of(turn)) if isinstance(head, SeesTurn) else head.texts(turn.text)
    rows = state.features(texts) if texts else np.zeros((1, 0), np.float32)
    clauses = [Clause(text, row) for text, row in zip(texts[1:], rows[1:], strict=True)]
    tasks = tasks_of(state)
    starting = [name for name in state.selected if name in tasks and name not in state.turn.paused]
    return HeadInput(
        turn, rows[0], state.recalled, flows, clauses, state.hidden, query, state.slots,
        tasks, starting, state.at,
    )  # fmt: skip


def check_share(confidence: float) -> None:
    """See that a head's confidence is a probability.

    Raises:
        InputError: it is not.
    """
    if not 0.0 <= confidence <= 1.0:
        raise InputError(f"The head's confidence is {confidence}, which is no probability")
