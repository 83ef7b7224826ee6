"""Start a flow."""

from __future__ import annotations

from typing import Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind, Situation
from jazzmine_dspy.models.flows import Flow


class StartFlow(Kind):
    """Start a flow; a running one is paused by the machine."""

    type: Literal["start_flow"] = "start_flow"
    flow: str

    understood = False
    place = "opens"
    flag = "intent_change"
    flow_fields = ("flow",)

    def opens(self, situation: Situation) -> str | None:
        return self.flow

    def concerns(self, flow: Flow) -> bool:
        return self.flow == flow.name

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.start(self.flow)
