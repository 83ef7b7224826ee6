"""Read messages that are certain as a whole: a choice, a closed act, the awaited value, or a request to wait."""

from __future__ import annotations

from typing import NamedTuple

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.program.acts import awaited_value, closed_act, is_pause, picked
from jazzmine_dspy.program.recall_query import picked_wish
from jazzmine_dspy.program.state import TurnState


class Closed(NamedTuple):
    """The closed reading of a message.

    Args:
        picked: The flows that answer "which of these do you mean?"; None if the message is not such an answer.
        commands: The commands of the message; None if they are not certain.
        rewrite: The message in full; None if it may depend on its context.
    """

    picked: tuple[str, ...] | None
    commands: tuple[Command, ...] | None
    rewrite: str | None


def read_closed(state: TurnState) -> Closed:
    """Read a message as a whole.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry, Turn
        >>> read_closed(TurnState(turn=Turn(text="start over"), registry=FlowRegistry())).commands
        (Restart(type='restart'),)
    """
    turn = state.turn
    chosen, act, pause = picked(turn), closed_act(turn), is_pause(turn)
    value = awaited_value(turn, state.awaited, state.at)
    commands = value if act is None else act
    if commands is None and pause:
        commands = []
    rewrite = None
    if wish := picked_wish(turn):
        rewrite = wish
    elif not turn.history and turn.flow is None and not turn.paused:
        rewrite = turn.text
    elif value is not None and state.awaited is not None:
        what = state.awaited.name.replace("_", " ").removesuffix(" id")
        rewrite = f"The {what} is {turn.text.strip(' .!')}."
    elif pause or (act is not None and turn.confirming is None):
        rewrite = turn.text
    return Closed(
        None if chosen is None else tuple(chosen), None if commands is None else tuple(commands), rewrite
    )
