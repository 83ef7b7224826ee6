"""Yes."""

from __future__ import annotations

from typing import Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Answer, Kind, Situation
from jazzmine_dspy.models.commands.resume_flow import ResumeFlow
from jazzmine_dspy.models.commands.slot_values import answer_to
from jazzmine_dspy.models.flows import Slot


class Affirm(Answer):
    """Yes to the open confirmation, or to the offer to go back to a flow."""

    type: Literal["affirm"] = "affirm"

    closes = True

    def meant(self, situation: Situation, awaited: Slot | None) -> Kind:
        if situation.confirming is None and situation.offering is not None:
            return ResumeFlow(flow=situation.offering)
        return answer_to(awaited, self, situation, value=True)

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.affirm()
