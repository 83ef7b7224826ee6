"""The commands that a turn comes down to: one closed union, told apart by ``type``.

``kinds.py`` holds the kinds: the model of each, how a language model writes it, when the state allows it, what it does
to a dialogue, how it is compared. ``base.py`` says what a further kind needs.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter

from jazzmine_dspy.models.commands.base import BaseCommand, Dialogue, DialogueState, Flag, SlotContent
from jazzmine_dspy.models.commands.kinds import (
    Affirm,
    Ask,
    CancelFlow,
    ChitChat,
    Clarify,
    ClearSlot,
    CorrectSlot,
    Deny,
    Handoff,
    OutOfScope,
    Repeat,
    Restart,
    ResumeFlow,
    SetSlot,
    SkipSlot,
    SlotValue,
    StartFlow,
    set_or_correct,
)

__all__ = [
    "COMMANDS",
    "COMMAND_KINDS",
    "KINDS",
    "LISTED",
    "UNDERSTOOD",
    "Affirm",
    "Ask",
    "BaseCommand",
    "CancelFlow",
    "ChitChat",
    "Clarify",
    "ClearSlot",
    "Command",
    "CorrectSlot",
    "Deny",
    "Dialogue",
    "DialogueState",
    "Flag",
    "Handoff",
    "OutOfScope",
    "Repeat",
    "Restart",
    "ResumeFlow",
    "SetSlot",
    "SkipSlot",
    "SlotContent",
    "SlotValue",
    "StartFlow",
    "command",
    "set_or_correct",
]  # fmt: skip

Command = Annotated[
    StartFlow | ResumeFlow | CancelFlow | SetSlot | CorrectSlot | ClearSlot | SkipSlot | Affirm | Deny | Ask
    | Clarify | Repeat | Restart | ChitChat | Handoff | OutOfScope,
    Field(discriminator="type"),
]  # fmt: skip

COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
KINDS: dict[str, type[BaseCommand]] = {kind.name_of_kind(): kind for kind in get_args(get_args(Command)[0])}
"""The kinds by their ``type``, in the union's order."""

COMMAND_KINDS: tuple[str, ...] = tuple(KINDS)
_BY_PLACE = sorted(KINDS.items(), key=lambda pair: pair[1].lm_place)

UNDERSTOOD: dict[str, type[BaseCommand]] = {name: kind for name, kind in _BY_PLACE if kind.understood}
"""The kinds that understanding may say."""

LISTED: dict[str, type[BaseCommand]] = {name: kind for name, kind in _BY_PLACE if kind.lm_listed}
"""The kinds that prompts list, in their order."""


def command(data: Any) -> Command:
    """Build a command from its JSON form.

    Raises:
        pydantic.ValidationError: ``type`` is unknown, or a field is missing or too many.

    Example:
        >>> command({"type": "set_slot", "name": "order_id", "value": "4471"}).name
        'order_id'
    """
    return COMMANDS.validate_python(data)
