"""Yes."""

from __future__ import annotations

from typing import Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Answer


class Affirm(Answer):
    """Yes to the open confirmation."""

    type: Literal["affirm"] = "affirm"

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.affirm()
