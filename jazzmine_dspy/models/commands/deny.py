"""No."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Answer, Kind, Situation
from jazzmine_dspy.models.commands.cancel_flow import CancelFlow
from jazzmine_dspy.models.commands.slot_values import answer_to
from jazzmine_dspy.models.flows import Slot


class Deny(Answer):
    """No to the open confirmation; ``slot`` names what should change.

    With none open it rejects what was understood, or what was offered.
    """

    type: Literal["deny"] = "deny"
    slot: str | None = None

    lm_may_name = True
    cancellation = "often"
    replies = {
        "denied": "All right, I won't. What should be different?",
        "rejected": "Sorry. What should be different?",
    }
    slot_fields = ("slot",)

    @classmethod
    def possible(cls, situation: Situation) -> bool:
        return situation.confirming is not None or situation.flow is not None

    @classmethod
    def names(cls, situation: Situation, slots: Sequence[Slot]) -> Sequence[str]:
        return [slot.name for slot in slots]

    @classmethod
    def read(cls, name: str | None, value: Any, situation: Situation, slots: Sequence[Slot]) -> Kind | None:
        slot = name if name in cls.names(situation, slots) else None
        return cls(slot=slot) if cls.possible(situation) else None

    def meant(self, situation: Situation, awaited: Slot | None) -> Kind:
        if situation.confirming is None and situation.offering is not None:
            return CancelFlow(flow=situation.offering)
        return answer_to(awaited, self, situation, value=False) if self.slot is None else self

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.deny(self.slot)
