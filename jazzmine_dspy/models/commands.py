"""The commands that a turn comes down to: one union, told apart by ``type`` (U4)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer, TypeAdapter

from jazzmine_dspy.models._base import Value, freeze, thaw

SlotContent = Annotated[
    Any,
    AfterValidator(freeze),
    PlainSerializer(thaw, return_type=Any),
]


class _Command(Value):
    """What all commands share."""


class StartFlow(_Command):
    """Start a flow; a running one is paused by the machine."""

    type: Literal["start_flow"] = "start_flow"
    flow: str


class ResumeFlow(_Command):
    """Go back to a paused flow; None means the newest."""

    type: Literal["resume_flow"] = "resume_flow"
    flow: str | None = None


class CancelFlow(_Command):
    """Leave a flow without finishing it; None means the running one."""

    type: Literal["cancel_flow"] = "cancel_flow"
    flow: str | None = None


class SetSlot(_Command):
    """Fill an empty slot."""

    type: Literal["set_slot"] = "set_slot"
    name: str
    value: SlotContent


class CorrectSlot(_Command):
    """Replace a value already held."""

    type: Literal["correct_slot"] = "correct_slot"
    name: str
    value: SlotContent


class ClearSlot(_Command):
    """Take a value back."""

    type: Literal["clear_slot"] = "clear_slot"
    name: str


class SkipSlot(_Command):
    """Go on without the awaited slot."""

    type: Literal["skip_slot"] = "skip_slot"
    name: str


class Affirm(_Command):
    """Yes to the open confirmation."""

    type: Literal["affirm"] = "affirm"


class Deny(_Command):
    """No to the open confirmation; ``slot`` names what should change."""

    type: Literal["deny"] = "deny"
    slot: str | None = None


class Ask(_Command):
    """A question that no flow answers."""

    type: Literal["ask"] = "ask"
    topic: str = ""


class Clarify(_Command):
    """Ask which of these flows is meant."""

    type: Literal["clarify"] = "clarify"
    flows: tuple[str, ...] = ()


class Repeat(_Command):
    """Say the last answer again."""

    type: Literal["repeat"] = "repeat"


class Restart(_Command):
    """Begin from scratch."""

    type: Literal["restart"] = "restart"


class ChitChat(_Command):
    """Small talk, greeting, thanks."""

    type: Literal["chitchat"] = "chitchat"


class Handoff(_Command):
    """A human is wanted now."""

    type: Literal["handoff"] = "handoff"


class OutOfScope(_Command):
    """A task that no flow does."""

    type: Literal["out_of_scope"] = "out_of_scope"


Command = Annotated[
    StartFlow | ResumeFlow | CancelFlow | SetSlot | CorrectSlot | ClearSlot | SkipSlot | Affirm | Deny | Ask
    | Clarify | Repeat | Restart | ChitChat | Handoff | OutOfScope,
    Field(discriminator="type"),
]  # fmt: skip

COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
COMMAND_KINDS: tuple[str, ...] = (
    "start_flow", "resume_flow", "cancel_flow", "set_slot", "correct_slot", "clear_slot", "skip_slot", "affirm",
    "deny", "ask", "clarify", "repeat", "restart", "chitchat", "handoff", "out_of_scope",
)  # fmt: skip


def command(data: Any) -> Command:
    """Build a command from its JSON form.

    Raises:
        pydantic.ValidationError: ``type`` is unknown, or a field is missing or too many.

    Example:
        >>> command({"type": "set_slot", "name": "order_id", "value": "4471"}).name
        'order_id'
    """
    return COMMANDS.validate_python(data)
