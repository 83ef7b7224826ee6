"""What a turn changes: noted by the state machine while it changes it, told as the events of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast, get_args

from jazzmine_dspy.memory.working import ActiveFlowState, PendingEvent, SlotState, WorkingMemory
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.traces import ConfirmationEvent, FlowEvent, SlotEvent

Move = Literal["started", "paused", "resumed"]
Lived = Literal["started", "paused", "resumed", "completed", "cancelled", "failed", "topic_shifted"]


class Events(NamedTuple):
    """The events of one turn. What a turn takes back itself is none."""

    slots: list[SlotEvent]
    confirmations: list[ConfirmationEvent]
    flows: list[FlowEvent]


class Changes:
    """Notes the changes of one turn.

    Args:
        state: The state that is about to change, in line with the registry.
    """

    def __init__(self, state: WorkingMemory, registry: Mapping[str, Flow]) -> None:
        self._state, self._registry = state, registry
        asked = state.pending_confirmation
        self._asked = asked.model_copy() if asked else None
        self._ended_before = len(state.flow_history) + state.flows_dropped
        self._shifted: list[str] = []
        self._expired = False
        # Flows are told apart by identity: one begun anew has the name of the one before. Those that ended are kept,
        # so that no other takes their place in memory.
        self._kept: list[ActiveFlowState] = []
        self._moves: dict[int, list[Move]] = {}
        self._slots: dict[tuple[int, str], SlotState] = {}

    def topic(self) -> None:
        """The message opens a topic while a flow runs."""
        if self._state.active_flow is not None:
            self._shifted = [self._state.active_flow.flow_name]

    def expire(self) -> None:
        """The open question was left unanswered for too long."""
        self._expired = True

    def flow(self, flow: ActiveFlowState | None, move: Move) -> None:
        """A flow starts, is set aside or taken up; None where there is none to."""
        if flow is not None:
            self._kept.append(flow)
            self._moves.setdefault(id(flow), []).append(move)

    def slot(self, flow: ActiveFlowState, name: str) -> None:
        """A slot is about to change."""
        self._kept.append(flow)
        self._slots.setdefault((id(flow), name), flow.slots[name].model_copy())

    def events(self) -> Events:
        """All that came of the turn, now that it is over, and what the state says of flows since the last one."""
        self.leave()
        pending_events, self._state.pending_events = self._state.pending_events, []
        # A newer version may know events that this one does not.
        flows = [
            self._event(each.flow_name, each.event)
            for each in pending_events
            if each.event in get_args(Lived)
        ]
        return Events(self._slot_events(), self._confirmation_events(), flows)

    def leave(self) -> None:
        """Leave what became of flows, outside a turn, to the trace of the next one."""
        moved = [PendingEvent(flow_name=name, event=event) for name, event in self._flow_events()]
        self._state.pending_events = [*self._state.pending_events, *moved]

    def _slot_events(self) -> list[SlotEvent]:
        made = []
        for flow in _alive(self._state):
            for name, slot in flow.slots.items():
                defined = self._registry[flow.flow_name].slot(name)
                if defined is None or self._slots.get((id(flow), name), slot) == slot:
                    continue
                made.append(
                    SlotEvent(
                        flow_name=flow.flow_name,
                        slot_name=name,
                        slot_type=defined.type,
                        required=defined.required,
                        value=slot.value,
                        collected=slot.collected_at_turn == self._state.turn_number,
                        collected_at_turn=slot.collected_at_turn or 0,
                        validation_error=slot.validation_error,
                    )
                )
        return made

    def _confirmation_events(self) -> list[ConfirmationEvent]:
        asked, open_now = self._asked, self._state.pending_confirmation
        if asked is None:
            return []
        # A question that is still open may have counted another turn about something else.
        if (
            open_now is not None
            and open_now.model_copy(update={"drifted_turns": asked.drifted_turns}) == asked
        ):
            return []
        running = self._state.active_flow
        agreed = running is not None and running.ready and running.flow_name == asked.flow_name
        outcome: Literal["confirmed", "cancelled", "expired"] = "confirmed" if agreed else "cancelled"
        return [
            ConfirmationEvent(
                question=asked.action_description,
                outcome="expired" if self._expired else outcome,
                resolved_at_turn=self._state.turn_number,
            )
        ]

    def _flow_events(self) -> list[tuple[str, Lived]]:
        state = self._state
        count = len(state.flow_history) + state.flows_dropped - self._ended_before
        events: list[tuple[str, Lived]] = [(name, "topic_shifted") for name in self._shifted]
        ended = state.flow_history[-count:] if count else []
        events += [(record.flow_name, cast(Lived, record.status.value)) for record in ended]
        for flow in _alive(state):
            events += [(flow.flow_name, move) for move in self._told(flow)]
        return events

    def _told(self, flow: ActiveFlowState) -> list[Move]:
        """Keep the moves of a flow that last: it started, it ran and now waits, or it waited and now runs."""
        moves = self._moves.get(id(flow), [])
        told: list[Move] = ["started"] if "started" in moves else []
        waited = moves[:1] == ["resumed"]
        if moves[-1:] == ["paused"] and not waited:
            told.append("paused")
        if moves[-1:] == ["resumed"] and waited:
            told.append("resumed")
        return told

    def _event(self, name: str, event: str) -> FlowEvent:
        flow = self._registry.get(name)
        return FlowEvent(
            flow_id=flow.id_for(self._state.agent_id) if flow else name,
            flow_name=name,
            flow_type=flow.kind if flow else "flow",
            event=cast(Lived, event),
        )


def _alive(state: WorkingMemory) -> list[ActiveFlowState]:
    return [*([state.active_flow] if state.active_flow else []), *state.paused]
