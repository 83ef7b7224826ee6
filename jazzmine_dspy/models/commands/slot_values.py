"""Give a slot a value, or another one. Which of the two it is follows from the state, so they stand together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, PlainSerializer

from jazzmine_dspy.models._base import FrozenMap, freeze, thaw
from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind, Situation, SlotAct
from jazzmine_dspy.models.flows import Slot

SlotContent = Annotated[
    Any,
    AfterValidator(freeze),
    PlainSerializer(thaw, return_type=Any),
]


class SlotValue(SlotAct):
    """What gives a slot a value."""

    value: SlotContent

    corrects: ClassVar[bool]
    lm_arguments = ("name", "value")
    place = "value"
    flag = "slot_value"

    @classmethod
    def names(cls, situation: Situation, slots: Sequence[Slot]) -> Sequence[str]:
        return [slot.name for slot in slots if (slot.name in situation.slots.names) is cls.corrects]

    @classmethod
    def read(cls, name: str | None, value: Any, situation: Situation, slots: Sequence[Slot]) -> Kind | None:
        if name is None or name not in [slot.name for slot in slots] or value in (None, "", []):
            return None
        return (CorrectSlot if name in situation.slots.names else SetSlot)(name=name, value=value)

    def key(self, situation: Situation, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
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

    corrects = False

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.put(self.name, thaw(self.value), self.flow)


class CorrectSlot(SlotValue):
    """Replace a value already held."""

    type: Literal["correct_slot"] = "correct_slot"

    corrects = True
    changes = True
    cancellation = "rarely"

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.correct(self.name, thaw(self.value), self.flow)


def by_state(command: SlotValue, held: FrozenMap, awaited: str | None = None) -> SlotValue | None:
    """A value for a flow that holds these: a first one, another one, or none where it is the one held.

    One that was just asked for counts as said, whatever is held.
    """
    known = command.name in held.names
    if known and command.name != awaited and _same(held.get(command.name), thaw(command.value)):
        return None
    kind = CorrectSlot if known else SetSlot
    return kind(name=command.name, value=command.value, flow=command.flow)


def answer_to(awaited: Slot | None, said: Kind, situation: Situation, *, value: bool) -> Kind:
    """A yes or no to the question for a slot that is one is its value."""
    if situation.confirming is not None or awaited is None or awaited.type.value != "boolean":
        return said
    return SetSlot(name=awaited.name, value=value)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
