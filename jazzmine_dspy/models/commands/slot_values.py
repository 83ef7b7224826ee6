"""Give a slot a value, or another one. Which of the two it is follows from the state, so they stand together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, PlainSerializer

from jazzmine_dspy.models._base import freeze, thaw
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
    cancellation = "rarely"

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.correct(self.name, thaw(self.value), self.flow)
