"""Say that again."""

from __future__ import annotations

from typing import Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind
from jazzmine_dspy.models.flows import Flow


class Repeat(Kind):
    """Say the last answer again."""

    type: Literal["repeat"] = "repeat"

    digression = True
    flag = "digression"
    intent = ""
    replies = {"repeat": "I haven't said anything yet."}

    def concerns(self, flow: Flow) -> bool:
        return True

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.repeat()
