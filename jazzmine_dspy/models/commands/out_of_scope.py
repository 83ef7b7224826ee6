"""Nothing that the assistant does."""

from __future__ import annotations

from typing import Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind


class OutOfScope(Kind):
    """A task that no flow does."""

    type: Literal["out_of_scope"] = "out_of_scope"

    idle = True
    flag = "digression"
    intent = "out_of_scope"
    replies = {"out_of_scope": "That is something I can't do."}

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.say("out_of_scope")
