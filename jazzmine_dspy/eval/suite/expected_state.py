"""The state that a conversation should be in, as far as its expectations say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine_dspy.datasets.replay import state_of
from jazzmine_dspy.datasets.schema import StateBefore
from jazzmine_dspy.dialogue.flows import next_in_line
from jazzmine_dspy.dialogue.questions import await_slot, pending_question
from jazzmine_dspy.dialogue.texts import say
from jazzmine_dspy.eval.suite.model import Expect, one_of
from jazzmine_dspy.memory.working import FlowStatus, ProcessedMessage, WorkingMemory
from jazzmine_dspy.models.base import FrozenMap
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.next_step import NextStep
from jazzmine_dspy.models.turn import Turn


class ExpectedState:
    """Follows the expectations of a conversation. What a turn does not say stays as it was.

    Args:
        flows: The flows, by name.
    """

    def __init__(self, flows: Mapping[str, Flow]) -> None:
        self._flows = flows
        self.flow: str | None = None
        self.status = "idle"
        self.awaiting: str | None = None
        self.paused: tuple[str, ...] = ()
        self.offered: str | None = None
        self._held: dict[str, dict[str, Any]] = {}

    @property
    def slots(self) -> dict[str, Any]:
        """The values that the running flow should hold; of several that are right, the first."""
        return self._held.get(self.flow or "", {})

    def follow(self, expect: Expect) -> None:
        """Take what is expected after a turn."""
        given, was = expect.model_fields_set, self.flow
        if "flow" in given:
            self.flow = expect.flow
        elif was in expect.ran or (expect.status == "idle" and "status" in given):
            self.flow = None
        if "paused" in given:
            self.paused = expect.paused
        else:
            self.paused = tuple(name for name in self.paused if name != self.flow)
        if was is not None and was != self.flow and was not in self.paused:
            self._held.pop(was, None)
        if "slots" in given and self.flow is not None:
            self._held[self.flow] = {name: one_of(value)[0] for name, value in expect.slots.items()}
        if "status" in given:
            self.status = expect.status
        elif self.flow != was or self.flow is None:
            self.status = "collecting_slots" if self.flow else "idle"
        self.awaiting = expect.awaiting if "awaiting" in given else None
        left = (self.flow is None and was is not None) or bool(expect.ran)
        newest = self.paused[-1] if self.flow is None and self.paused else None
        self.offered = newest if left or self.offered == newest else None

    def before(self, text: str) -> Turn:
        """The state as commands are compared over it."""
        return Turn(text=text, flow=self.flow, slots=FrozenMap.of(self.slots), paused=self.paused)

    def put_into(self, state: WorkingMemory) -> str:
        """Bring a conversation into this state; what the assistant should have said last."""
        led = state_of(
            StateBefore(
                flow=self.flow,
                slots=FrozenMap.of(self.slots),
                paused=self.paused,
                paused_slots=FrozenMap.of(
                    {name: held for name in self.paused if (held := self._held.get(name))}
                ),
            ),
            self._flows,
        )
        state.active_flow, state.paused = led.active_flow, led.paused
        state.pending_confirmation, state.action, state.offered_flow = None, None, self.offered
        state.question_counts, state.escalation, state.queue = {}, "", []
        step = self._step(state)
        if state.processed:
            last = state.processed[-1].message_id
            kept = ProcessedMessage(message_id=last, next_step=step, reply=step.text)
            state.processed = [*state.processed[:-1], kept]
        return step.text

    def _step(self, state: WorkingMemory) -> NextStep:
        running = state.active_flow
        if running is None:
            offer = next_in_line(state, self._flows) if self.offered else None
            return offer or NextStep(kind="none", text=say("idle"))
        flow = self._flows[running.flow_name]
        if self.status == "in_flow":
            running.status = FlowStatus.ACTIVE
            return NextStep(kind="reask", flow=flow.name, text=say("denied", flow, running.values))
        if self.awaiting is not None and flow.slot(self.awaiting):
            return await_slot(state, running, flow, self.awaiting, again=False)
        step = pending_question(state, self._flows)
        assert step is not None
        return step
