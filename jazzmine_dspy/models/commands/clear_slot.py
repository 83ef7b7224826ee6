"""Take a value back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind, Situation, SlotAct
from jazzmine_dspy.models.flows import Slot


class ClearSlot(SlotAct):
    """Take a value back."""

    type: Literal["clear_slot"] = "clear_slot"

    changes = True
    cancellation = "always"

    @classmethod
    def names(cls, situation: Situation, slots: Sequence[Slot]) -> Sequence[str]:
        return situation.slots.names

    @classmethod
    def read(cls, name: str | None, value: Any, situation: Situation, slots: Sequence[Slot]) -> Kind | None:
        return cls(name=name) if name is not None and name in cls.names(situation, slots) else None

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.clear(self.name, self.flow)
