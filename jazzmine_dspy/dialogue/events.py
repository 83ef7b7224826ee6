"""The events of a turn: what differs between the state before it and the state after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast, get_args

from jazzmine_dspy.memory.working import ActiveFlowState, FlowRecord, PendingEvent, SlotState, WorkingMemory
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.messages import ConfirmationEvent, FlowEvent, SlotEvent

FlowChange = Literal["started", "paused", "resumed", "completed", "cancelled", "failed", "topic_shifted"]


class Events(NamedTuple):
    """The events of one turn. A change that the turn itself reverts is none."""

    slots: list[SlotEvent]
    confirmations: list[ConfirmationEvent]
    flows: list[FlowEvent]


def turn_events(
    before: WorkingMemory,
    after: WorkingMemory,
    registry: Mapping[str, Flow],
    *,
    expired: bool = False,
    new_topic: bool = False,
) -> Events:
    """Return the events of a turn, with the changes of flows since the last one.

    Args:
        before: The state before the turn, in line with the registry.
        after: The state after it.
        registry: The flows, by name.
        expired: Whether the open question was left unanswered for too long.
        new_topic: Whether the message opens a topic.
    """
    running = [before.active_flow] if new_topic and before.active_flow is not None else []
    shifts = [PendingEvent(flow_name=flow.flow_name, event="topic_shifted") for flow in running]
    changes = [*before.pending_events, *shifts, *flow_changes(before, after)]
    flows = [
        FlowEvent(
            flow_id=registry[name].id_for(after.agent_id) if name in registry else name,
            flow_name=name,
            flow_type=registry[name].kind if name in registry else "flow",
            event=cast(FlowChange, change),
        )
        for name, change in ((each.flow_name, each.event) for each in changes)
        # A newer version may know changes that this one does not.
        if change in get_args(FlowChange)
    ]
    return Events(_slot_events(before, after, registry), _confirmation_events(before, after, expired), flows)


def flow_changes(before: WorkingMemory, after: WorkingMemory) -> list[PendingEvent]:
    """Return how flows differ: which ended, started, paused and resumed."""
    ended = len(after.flow_history) + after.flows_dropped - len(before.flow_history) - before.flows_dropped
    records = after.flow_history[-ended:] if ended else []
    changes = [(record.flow_name, record.status.value) for record in records]
    known = {_key(flow) for flow in before.open_flows}
    paused = {_key(flow) for flow in before.paused}
    for flow in after.open_flows:
        was_paused, is_paused = _key(flow) in paused, flow is not after.active_flow
        if _key(flow) not in known:
            changes.append((flow.flow_name, "started"))
        if is_paused and not was_paused and not flow.deferred:
            changes.append((flow.flow_name, "paused"))
        if was_paused and not is_paused:
            changes.append((flow.flow_name, "resumed"))
    return [PendingEvent(flow_name=name, event=change) for name, change in changes]


def _key(flow: ActiveFlowState | FlowRecord) -> tuple[str, int]:
    """Tell a flow from one of the same name that started in another turn."""
    return flow.flow_name, flow.started_at_turn


def _slot_events(
    before: WorkingMemory, after: WorkingMemory, registry: Mapping[str, Flow]
) -> list[SlotEvent]:
    slots_before = {_key(flow): flow.slots for flow in before.open_flows}
    events = []
    for flow in after.open_flows:
        earlier = slots_before.get(_key(flow), {})
        for name, slot in flow.slots.items():
            definition = registry[flow.flow_name].slot(name)
            if definition is None or slot == (earlier.get(name) or SlotState.of(definition)):
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


def _confirmation_events(
    before: WorkingMemory, after: WorkingMemory, expired: bool
) -> list[ConfirmationEvent]:
    question, current = before.pending_confirmation, after.pending_confirmation
    # A question that is still open may have counted another turn about something else.
    if question is None or (
        current is not None
        and current.model_copy(update={"drifted_turns": question.drifted_turns}) == question
    ):
        return []
    running = after.active_flow
    agreed = running is not None and running.ready and running.flow_name == question.flow_name
    outcome: Literal["confirmed", "cancelled", "expired"] = "confirmed" if agreed else "cancelled"
    return [
        ConfirmationEvent(
            question=question.action_description,
            outcome="expired" if expired else outcome,
            resolved_at_turn=after.turn_number,
        )
    ]
