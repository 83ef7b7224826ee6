"""Go on without a slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind, Situation, SlotAct
from jazzmine_dspy.models.flows import Slot


class SkipSlot(SlotAct):
    """Go on without the awaited slot."""

    type: Literal["skip_slot"] = "skip_slot"

    cancellation = "rarely"

    @classmethod
    def names(cls, situation: Situation, slots: Sequence[Slot]) -> Sequence[str]:
        return [situation.awaiting] if situation.awaiting else []

    @classmethod
    def read(cls, name: str | None, value: Any, situation: Situation, slots: Sequence[Slot]) -> Kind | None:
        awaited = situation.awaiting
        return cls(name=awaited) if awaited and name in (None, awaited) else None

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.skip(self.name, self.flow)
