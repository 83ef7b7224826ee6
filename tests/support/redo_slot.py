"""A further kind of command, as its one file would be: the user wants to be asked for a value once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jazzmine_dspy.models.commands.base import Dialogue, DialogueState, SlotCommand
from jazzmine_dspy.models.flows import Slot


class RedoSlot(SlotCommand):
    """Ask for a slot's value once more."""

    type: Literal["redo_slot"] = "redo_slot"

    lm_note = "asked anew"
    intent = "second thoughts"
    cancellation = "always"
    replies = {"redo_slot": "Let's have that again."}

    @classmethod
    def names(cls, state: DialogueState, slots: Sequence[Slot]) -> Sequence[str]:
        return state.slots.names

    def fits(self, state: DialogueState) -> bool:
        return self.name in state.slots.names

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.clear(self.name) and dialogue.say("redo_slot")
