"""The events of a turn, worked out from the states before and after: the state machine's own are held against them."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.memory.working import ActiveFlowState, FlowRecord, SlotState, WorkingMemory
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.traces import ConfirmationEvent, FlowEvent, SlotEvent


def _alive(state: WorkingMemory) -> list[ActiveFlowState]:
    return [*([state.active_flow] if state.active_flow else []), *state.paused]


def _key(flow: ActiveFlowState | FlowRecord) -> tuple[str, int]:
    return flow.flow_name, flow.started_at_turn


def _new_records(before: WorkingMemory, after: WorkingMemory) -> list[FlowRecord]:
    count = len(after.flow_history) + after.flows_dropped - len(before.flow_history) - before.flows_dropped
    return after.flow_history[-count:] if count else []


def flow_events(
    before: WorkingMemory, after: WorkingMemory, registry: FlowRegistry, *, shifted: bool
) -> list[FlowEvent]:
    held = {_key(flow): flow for flow in _alive(before)}
    events = [(before.active_flow.flow_name, "topic_shifted")] if shifted and before.active_flow else []
    events += [(record.flow_name, record.status.value) for record in _new_records(before, after)]
    for flow in _alive(after):
        earlier = held.get(_key(flow))
        if earlier is None:
            events.append((flow.flow_name, "started"))
        was, now = earlier is not None and earlier in before.paused, flow is not after.active_flow
        if now and not was and not flow.deferred:
            events.append((flow.flow_name, "paused"))
        if was and not now:
            events.append((flow.flow_name, "resumed"))
    made: list[FlowEvent] = []
    for name, event in events:
        flow_kind = registry[name].kind if name in registry else "flow"
        flow_id = registry[name].id_for(after.agent_id) if name in registry else name
        fields: dict[str, Any] = {
            "flow_id": flow_id,
            "flow_name": name,
            "flow_type": flow_kind,
            "event": event,
        }
        made.append(FlowEvent(**fields))
    return made


def slot_events(before: WorkingMemory, after: WorkingMemory, registry: FlowRegistry) -> list[SlotEvent]:
    held = {_key(flow): flow.slots for flow in _alive(before)}
    events = []
    for flow in _alive(after):
        earlier = held.get(_key(flow), {})
        for name, slot in flow.slots.items():
            definition = registry[flow.flow_name].slot(name) if flow.flow_name in registry else None
            # A slot that nobody has touched is no event, even of a flow that has just begun.
            if definition is None or slot == earlier.get(name, SlotState.of(definition)):
                continue
            events.append(
                SlotEvent(
                    flow_name=flow.flow_name,
                    slot_name=name,
                    slot_type=definition.type,
                    required=definition.required,
                    value=slot.value,
                    collected=slot.collected_at_turn == after.turn_number,
                    collected_at_turn=slot.collected_at_turn or 0,
                    validation_error=slot.validation_error,
                )
            )
    return events


def confirmation_events(
    before: WorkingMemory, after: WorkingMemory, *, drifts: bool
) -> list[ConfirmationEvent]:
    asked, open_now = before.pending_confirmation, after.pending_confirmation
    if asked is None:
        return []
    # A question that is still open may have counted another turn about something else.
    if open_now is not None and open_now.model_copy(update={"drifted_turns": asked.drifted_turns}) == asked:
        return []
    running = after.active_flow
    agreed = running is not None and running.ready and running.flow_name == asked.flow_name
    expired = drifts and asked.drifted_turns + 1 >= asked.timeout_turns
    outcome: Any = "confirmed" if agreed else "expired" if expired else "cancelled"
    return [
        ConfirmationEvent(
            question=asked.action_description, outcome=outcome, resolved_at_turn=after.turn_number
        )
    ]
