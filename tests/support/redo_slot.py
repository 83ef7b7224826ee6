"""A further kind of command, as its one file would be: the user wants to be asked for a value once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind, Situation, SlotAct
from jazzmine_dspy.models.flows import Slot


class RedoSlot(SlotAct):
    """Ask for a slot's value once more."""

    type: Literal["redo_slot"] = "redo_slot"

    lm_note = "asked anew"
    intent = "second thoughts"
    cancellation = "often"
    replies = {"redo_slot": "Let's have that again."}

    @classmethod
    def names(cls, situation: Situation, slots: Sequence[Slot]) -> Sequence[str]:
        return situation.slots.names

    @classmethod
    def read(cls, name: str | None, value: Any, situation: Situation, slots: Sequence[Slot]) -> Kind | None:
        return cls(name=name) if name is not None and name in cls.names(situation, slots) else None

    def fits(self, situation: Situation) -> bool:
        return self.name in situation.slots.names

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.clear(self.name) and dialogue.say("redo_slot")
