"""No."""

from __future__ import annotations

from typing import Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Answer


class Deny(Answer):
    """No to the open confirmation; ``slot`` names what should change."""

    type: Literal["deny"] = "deny"
    slot: str | None = None

    cancellation = "often"
    replies = {"denied": "All right, I won't. What should be different?"}
    slot_fields = ("slot",)

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.deny(self.slot)
