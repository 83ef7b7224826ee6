"""Leave a flow."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

from jazzmine_dspy.models.commands._dialogue import Dialogue
from jazzmine_dspy.models.commands._kind import Kind, Situation
from jazzmine_dspy.models.flows import Flow, Slot


class CancelFlow(Kind):
    """Leave a flow without finishing it; None means the running one."""

    type: Literal["cancel_flow"] = "cancel_flow"
    flow: str | None = None

    lm_may_name = True
    lm_place = 1
    place = "leave"
    flag = "intent_change"
    cancellation = "always"
    replies = {"cancelled": "All right, I've dropped it: {task}."}
    flow_fields = ("flow",)

    @classmethod
    def possible(cls, situation: Situation) -> bool:
        return bool(situation.flow or situation.paused)

    @classmethod
    def names(cls, situation: Situation, slots: Sequence[Slot]) -> Sequence[str]:
        return situation.paused

    @classmethod
    def read(cls, name: str | None, value: Any, situation: Situation, slots: Sequence[Slot]) -> Kind | None:
        if not cls.possible(situation):
            return None
        if name in situation.paused:
            return cls(flow=name)
        # With nothing running only a flow that was set aside can be meant: the newest.
        return cls(flow=None if situation.flow else situation.paused[-1])

    def fits(self, situation: Situation) -> bool:
        return self.possible(situation) and self.flow in (None, situation.flow, *situation.paused)

    def leaves(self, situation: Situation) -> str | None:
        return self.flow or situation.flow

    def concerns(self, flow: Flow) -> bool:
        return self.flow in (None, flow.name)

    def key(self, situation: Situation, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        return self.type, self.flow or situation.flow

    def apply(self, dialogue: Dialogue) -> bool:
        return dialogue.leave(self.flow)
