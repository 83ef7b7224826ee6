"""Begin again."""

from __future__ import annotations

from typing import Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind
from jazzmine_dspy.models.flows import Flow


class Restart(Kind):
    """Begin from scratch."""

    type: Literal["restart"] = "restart"

    anew = True
    flag = "intent_change"
    intent = ""
    cancellation = "rarely"
    replies = {"restarted": "Let's start over."}

    def concerns(self, flow: Flow) -> bool:
        return True

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.restart()
