"""Ask which flow is meant."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind, Situation


class Clarify(Kind):
    """Ask which of these flows is meant."""

    type: Literal["clarify"] = "clarify"
    flows: tuple[str, ...] = ()

    understood = False
    flag = "digression"
    intent = "clarify"
    replies = {"clarify": "Which do you mean: {tasks}?"}
    flow_fields = ("flows",)

    def key(self, situation: Situation, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        # Which flows are listed counts, their order does not.
        return self.type, frozenset(self.flows)

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.ask_which(self.flows)
