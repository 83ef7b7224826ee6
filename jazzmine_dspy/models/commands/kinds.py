"""The kinds of commands: the model of each, how a language model writes it, when the state allows it, what it does."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from jazzmine_dspy.models.base import FrozenMap, thaw
from jazzmine_dspy.models.commands.base import (
    Answer,
    BaseCommand,
    DialogueState,
    PausedFlowCommand,
    SlotCommand,
    SlotContent,
    Slots,
)
from jazzmine_dspy.models.flows import Flow, Slot


class StartFlow(BaseCommand):
    """Start a flow; a running one is paused by the machine."""

    type: Literal["start_flow"] = "start_flow"
    flow: str

    does = ("start", "flow")
    understood = lm_listed = False
    order = "opens"
    flag = "intent_change"
    flow_fields = ("flow",)

    def opens(self, state: DialogueState) -> str | None:
        return self.flow

    def is_about(self, flow: Flow) -> bool:
        return self.flow == flow.name


class ResumeFlow(PausedFlowCommand):
    """Go back to a paused flow; None means the newest."""

    type: Literal["resume_flow"] = "resume_flow"

    does = ("resume", "flow")
    lm_may_name = True
    lm_place = 2
    order = "opens"
    flag = "resume_request"

    @classmethod
    def possible(cls, state: DialogueState) -> bool:
        return bool(state.paused)

    @classmethod
    def names(cls, state: DialogueState, slots: Slots) -> Sequence[str]:
        # Of one there is nothing to name.
        return state.paused if len(state.paused) > 1 else ()

    @classmethod
    def read(cls, name: str | None, value: Any, state: DialogueState, slots: Slots) -> BaseCommand | None:
        meant = cls(flow=name)
        return meant if meant.fits(state) else None

    def fits(self, state: DialogueState) -> bool:
        return self.possible(state) and self.flow in (None, *state.paused)

    def opens(self, state: DialogueState) -> str | None:
        return self.flow or (state.paused[-1] if state.paused else None)

    def is_about(self, flow: Flow) -> bool:
        return self.flow == flow.name

    def key(self, state: DialogueState, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        return self.type, self.opens(state)


class CancelFlow(PausedFlowCommand):
    """Leave a flow without finishing it; None means the running one."""

    type: Literal["cancel_flow"] = "cancel_flow"
    unsure: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether the flow is only paused, and the assistant asks. JSON has this field only if it is true."""

    does = ("leave", "flow", "unsure")
    lm_may_name = True
    lm_note = "the wish is gone"
    lm_place = 1
    order = "leave"
    flag = "intent_change"
    cancellation = "always"

    @classmethod
    def possible(cls, state: DialogueState) -> bool:
        return bool(state.flow or state.paused)

    @classmethod
    def read(cls, name: str | None, value: Any, state: DialogueState, slots: Slots) -> BaseCommand | None:
        if not cls.possible(state):
            return None
        if name in state.paused:
            return cls(flow=name)
        # With nothing running only a flow that was set aside can be meant: the newest.
        return cls(flow=None if state.flow else state.paused[-1])

    def fits(self, state: DialogueState) -> bool:
        return self.possible(state) and self.flow in (None, state.flow, *state.paused)

    def leaves(self, state: DialogueState) -> str | None:
        return self.flow or state.flow

    def is_about(self, flow: Flow) -> bool:
        return self.flow in (None, flow.name)

    def key(self, state: DialogueState, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        return self.type, self.flow or state.flow, *([True] if self.unsure else [])


class SlotValue(SlotCommand):
    """What gives a slot a value."""

    value: SlotContent

    corrects: ClassVar[bool]
    lm_arguments = ("name", "value")
    order = "value"
    flag = "slot_value"

    @classmethod
    def names(cls, state: DialogueState, slots: Slots) -> Sequence[str]:
        return [slot.name for slot in slots if (slot.name in state.slots.names) is cls.corrects]

    @classmethod
    def read(cls, name: str | None, value: Any, state: DialogueState, slots: Slots) -> BaseCommand | None:
        if name is None or name not in [slot.name for slot in slots] or value in (None, "", []):
            return None
        return (CorrectSlot if name in state.slots.names else SetSlot)(name=name, value=value)

    def key(self, state: DialogueState, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        return self.type, self.name, same(self.value)

    def after(self, earlier: SlotValue) -> SlotValue | None:
        """Both as one, where each gives a slot a first list and the other was said before; else None."""
        one, other = thaw(earlier.value), thaw(self.value)
        if self.corrects or earlier.corrects or not (isinstance(one, list) and isinstance(other, list)):
            return None
        value = [*one, *(item for item in other if item not in one)]
        return type(self)(name=self.name, value=value, flow=self.flow)


class SetSlot(SlotValue):
    """Fill an empty slot."""

    type: Literal["set_slot"] = "set_slot"

    does = ("put", "name", "value", "flow")
    corrects = False


class CorrectSlot(SlotValue):
    """Replace a value already held."""

    type: Literal["correct_slot"] = "correct_slot"

    does = ("correct", "name", "value", "flow")
    lm_listed = False
    corrects = True
    changes = True
    cancellation = "rarely"

    def as_answer(self) -> dict[str, Any]:
        return {**super().as_answer(), "type": SetSlot.name_of_kind()}


def set_or_correct(command: SlotValue, held: FrozenMap, awaited: str | None = None) -> SlotValue | None:
    """A value for a flow that holds these: a first one, another one, or none where it is the one held.

    One that was just asked for counts as said, whatever is held.
    """
    known = command.name in held.names
    current, value = held.get(command.name), thaw(command.value)
    if known and command.name != awaited and type(current) is type(value) and current == value:
        return None
    return (CorrectSlot if known else SetSlot)(name=command.name, value=command.value, flow=command.flow)


def boolean_answer(awaited: Slot | None, said: BaseCommand, state: DialogueState, value: bool) -> BaseCommand:
    """A yes or no to the question for a slot that is one is its value."""
    if state.confirming is not None or awaited is None or awaited.type != "boolean":
        return said
    return SetSlot(name=awaited.name, value=value)


class ClearSlot(SlotCommand):
    """Take a value back."""

    type: Literal["clear_slot"] = "clear_slot"

    does = ("clear", "name", "flow")
    changes = True
    cancellation = "always"

    @classmethod
    def names(cls, state: DialogueState, slots: Slots) -> Sequence[str]:
        return state.slots.names


class SkipSlot(SlotCommand):
    """Go on without the awaited slot."""

    type: Literal["skip_slot"] = "skip_slot"

    does = ("skip", "name", "flow")
    lm_arguments = ()
    lm_note = "or no preference"
    cancellation = "rarely"

    @classmethod
    def names(cls, state: DialogueState, slots: Slots) -> Sequence[str]:
        return [state.awaiting] if state.awaiting else []

    @classmethod
    def read(cls, name: str | None, value: Any, state: DialogueState, slots: Slots) -> BaseCommand | None:
        return super().read(state.awaiting if name is None else name, value, state, slots)


class Affirm(Answer):
    """Yes to the open confirmation, or to the offer to go back to a flow."""

    type: Literal["affirm"] = "affirm"

    does = ("affirm",)
    closes = True

    def resolve(self, state: DialogueState, awaited: Slot | None) -> BaseCommand:
        if state.confirming is None and state.offering is not None:
            return ResumeFlow(flow=state.offering)
        return boolean_answer(awaited, self, state, True)


class Deny(Answer):
    """No to the open confirmation; ``slot`` names what should change.

    With none open it rejects what was understood, or what was offered.
    """

    type: Literal["deny"] = "deny"
    slot: str | None = None

    does = ("deny", "slot")
    lm_may_name = True
    lm_note = "no to the question, or to that value"
    cancellation = "often"
    slot_fields = ("slot",)

    @classmethod
    def possible(cls, state: DialogueState) -> bool:
        return state.confirming is not None or state.flow is not None

    @classmethod
    def names(cls, state: DialogueState, slots: Slots) -> Sequence[str]:
        return [slot.name for slot in slots] if state.confirming is not None else []

    @classmethod
    def read(cls, name: str | None, value: Any, state: DialogueState, slots: Slots) -> BaseCommand | None:
        slot = name if name in cls.names(state, slots) else None
        return cls(slot=slot) if cls.possible(state) else None

    def resolve(self, state: DialogueState, awaited: Slot | None) -> BaseCommand:
        if state.confirming is None and state.offering is not None:
            return CancelFlow(flow=state.offering)
        return boolean_answer(awaited, self, state, False) if self.slot is None else self


class Ask(BaseCommand):
    """A question that no flow answers."""

    type: Literal["ask"] = "ask"
    topic: str = ""

    lm_note = "a question no flow answers"
    digression = True
    flag = "digression"
    intent = "question"
    says = "ask"

    def key(self, state: DialogueState, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        # The topic is free text.
        return (self.type,)


class Clarify(BaseCommand):
    """Ask which of these flows is meant."""

    type: Literal["clarify"] = "clarify"
    flows: tuple[str, ...] = ()

    does = ("ask_which", "flows")
    understood = False
    lm_note = "next to the letters of the flows that fit equally"
    flag = "digression"
    intent = "clarify"
    flow_fields = ("flows",)

    def key(self, state: DialogueState, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        # Which flows are listed counts, their order does not.
        return self.type, frozenset(self.flows)


class Repeat(BaseCommand):
    """Say the last answer again."""

    type: Literal["repeat"] = "repeat"

    does = ("repeat",)
    digression = True
    about_any_flow = True
    flag = "digression"
    intent = ""


class Restart(BaseCommand):
    """Begin from scratch."""

    type: Literal["restart"] = "restart"

    does = ("restart",)
    restarts = True
    about_any_flow = True
    flag = "intent_change"
    intent = ""
    cancellation = "rarely"


class ChitChat(BaseCommand):
    """Small talk, greeting, thanks."""

    type: Literal["chitchat"] = "chitchat"

    lm_note = "alone"
    is_small_talk = True
    digression = True
    flag = "digression"
    intent = "chitchat"
    cancellation = "rarely"
    says = "chitchat"


class Handoff(BaseCommand):
    """A human is wanted now."""

    type: Literal["handoff"] = "handoff"

    does = ("hand_over",)
    lm_note = "a person"
    flag = "digression"
    intent = "handoff"


class OutOfScope(BaseCommand):
    """A task that no flow does."""

    type: Literal["out_of_scope"] = "out_of_scope"

    lm_note = "not this business's"
    is_small_talk = True
    flag = "digression"
    intent = "out_of_scope"
    says = "out_of_scope"
