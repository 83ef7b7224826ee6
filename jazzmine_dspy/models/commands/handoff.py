"""A person is wanted."""

from __future__ import annotations

from typing import Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind


class Handoff(Kind):
    """A human is wanted now."""

    type: Literal["handoff"] = "handoff"

    lm_note = "a person"
    flag = "digression"
    intent = "handoff"
    replies = {"handoff": "I'll get a person to take over."}

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.hand_over()
