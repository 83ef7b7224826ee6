"""A question aside."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind, Situation


class Ask(Kind):
    """A question that no flow answers."""

    type: Literal["ask"] = "ask"
    topic: str = ""

    lm_note = "a question aside"
    digression = True
    flag = "digression"
    intent = "question"
    replies = {"ask": "I can't answer that here."}

    def key(self, situation: Situation, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        # The topic is free text.
        return (self.type,)

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.say("ask")
