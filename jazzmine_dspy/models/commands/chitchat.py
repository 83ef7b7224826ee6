"""Small talk."""

from __future__ import annotations

from typing import Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind


class ChitChat(Kind):
    """Small talk, greeting, thanks."""

    type: Literal["chitchat"] = "chitchat"

    idle = True
    digression = True
    flag = "digression"
    intent = "chitchat"
    cancellation = "rarely"
    replies = {
        "chitchat": "I see.",
        "greeting": "Hello!",
        "thanks": "Happy to help.",
        "farewell": "Goodbye.",
        "noted": "All right.",
        "complaint": "I'm sorry about that.",
    }

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.say("chitchat")
