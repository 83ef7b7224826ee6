"""The input of a head, the same in service and in training."""

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
    """Build the input of a head for a turn.

    A selection head reads the rewrite, which does not depend on the context of the message; recall also used the
    original. Heads of other stages read the original message next to the rewrite.

    Args:
        head: The head, which lists the texts that it needs features of.
        state: The turn, with its rewrite and recalled flows.
        flows: Names of the flows that may be chosen, in the registry's order.
        rewritten: Whether the rewrite replaces the message.
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
    """Check that the confidence of a head is a probability.

    Raises:
        InputError: it is not.
    """
    if not 0.0 <= confidence <= 1.0:
        raise InputError(f"The head's confidence is {confidence}, which is no probability")
