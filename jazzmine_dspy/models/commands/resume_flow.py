"""Go back to a flow that was set aside."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind, Situation
from jazzmine_dspy.models.flows import Flow, Slot


class ResumeFlow(Kind):
    """Go back to a paused flow; None means the newest."""

    type: Literal["resume_flow"] = "resume_flow"
    flow: str | None = None

    lm_arguments = ("name",)
    lm_place = 2
    place = "opens"
    flag = "resume_request"
    flow_fields = ("flow",)

    @classmethod
    def possible(cls, situation: Situation) -> bool:
        return bool(situation.paused)

    @classmethod
    def names(cls, situation: Situation, slots: Sequence[Slot]) -> Sequence[str]:
        return situation.paused

    @classmethod
    def read(cls, name: str | None, value: Any, situation: Situation, slots: Sequence[Slot]) -> Kind | None:
        meant = cls(flow=name)
        return meant if meant.fits(situation) else None

    def as_answer(self) -> dict[str, Any]:
        return {"type": self.type, "name": self.flow} if self.flow else {"type": self.type}

    def fits(self, situation: Situation) -> bool:
        return self.possible(situation) and self.flow in (None, *situation.paused)

    def opens(self, situation: Situation) -> str | None:
        return self.flow or (situation.paused[-1] if situation.paused else None)

    def concerns(self, flow: Flow) -> bool:
        return self.flow == flow.name

    def key(self, situation: Situation, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        return self.type, self.opens(situation)

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.resume(self.flow)
