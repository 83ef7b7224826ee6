"""What a turn leaves behind: the message with what was found out about it, and the trace of the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.working import ActiveFlowState, FlowRecord
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.decision import Stage, TurnDecision
from jazzmine_dspy.models.messages import Message, MessageRole, next_episode
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.traces import (
    ConfirmationEvent,
    FlowEvent,
    LLMCallRecord,
    Purpose,
    SlotEvent,
    TurnTrace,
)

if TYPE_CHECKING:
    from jazzmine_dspy.program.turn import TurnProgram

_PURPOSES: dict[Stage, Purpose] = {
    "enhance": "enhancement",
    "select": "flow_selection",
    "understand": "understanding",
}


def enriched(
    state: WorkingMemory,
    *,
    message_id: str,
    user_id: str,
    text: str,
    timestamp: int,
    decision: TurnDecision,
    context: list[str],
    fingerprint: str,
) -> Message:
    """The user's message as it is stored: with its decision, so that it can become a labelled one (M8).

    ``timestamp`` is in Unix milliseconds; the episode counts on from that of ``state``, the state before the
    message.
    """
    found = decision.enhancement
    message = Message(
        id=message_id,
        conversation_id=state.conversation_id,
        user_id=user_id,
        role=MessageRole.USER,
        original_content=text,
        timestamp=timestamp,
        enhanced_message=found.enhanced_query,
        explicit_context=context or None,
        sentiment_score=found.sentiment_score,
        intent=found.intent,
        entities=[entity.model_copy(deep=True) for entity in found.entities],
        is_cancellation=found.is_cancellation,
        is_continuation=found.is_continuation,
        invoked_flows=list(decision.selection.flows) or None,
        errors=[record.cause for record in decision.stages.values() if record.cause] or None,
        decision=decision.model_dump(mode="json"),
        confidences={stage: record.confidence for stage, record in decision.stages.items()},
        program_fingerprint=fingerprint,
    )
    message.episode_id, _ = next_episode(state.episode_id, message)
    return message


def turn_trace(
    before: WorkingMemory,
    after: WorkingMemory,
    decision: TurnDecision,
    registry: FlowRegistry,
    *,
    trace_id: str,
    message_id: str,
    timestamp: int,
    latency_ms: float,
    program: TurnProgram,
) -> TurnTrace:
    """The trace of a turn: its language model calls, a record for each stage that made any, and what changed.

    Args:
        before, after: The states.
        program: What decided; its shape tells what the calls were for.
    """
    fused, model = program.shape == "fused", _model(program)
    calls = [
        LLMCallRecord(
            call_id=f"{message_id}:{stage}",
            purpose="decision" if fused else _PURPOSES[stage],
            model=model,
            prompt_tokens=record.usage.prompt_tokens,
            completion_tokens=record.usage.completion_tokens,
            total_tokens=record.usage.prompt_tokens + record.usage.completion_tokens,
            latency_ms=record.latency_ms,
            timestamp_ms=timestamp,
            success=record.cause is None,
            error=record.cause,
        )
        for stage, record in decision.stages.items()
        if record.usage.lm_calls
    ]
    return TurnTrace(
        id=trace_id,
        message_id=message_id,
        conversation_id=after.conversation_id,
        agent_id=after.agent_id,
        llm_calls=calls,
        total_latency_ms=latency_ms,
        slot_events=_slot_events(before, after, registry),
        confirmation_events=_confirmation_events(before, after),
        flow_events=_flow_events(before, after, registry),
    )


def _model(program: TurnProgram) -> str:
    lm = program.bindings.lm
    if lm is None:
        import dspy

        lm = dspy.settings.lm
    return str(getattr(lm, "model", "") or "")


def _alive(state: WorkingMemory) -> list[ActiveFlowState]:
    return [*([state.active_flow] if state.active_flow else []), *state.paused]


def _key(flow: ActiveFlowState | FlowRecord) -> tuple[str, int]:
    return flow.flow_name, flow.started_at_turn


def _new_records(before: WorkingMemory, after: WorkingMemory) -> list[FlowRecord]:
    count = len(after.flow_history) + after.flows_dropped - len(before.flow_history) - before.flows_dropped
    return after.flow_history[-count:] if count else []


def _flow_events(before: WorkingMemory, after: WorkingMemory, registry: FlowRegistry) -> list[FlowEvent]:
    held = {_key(flow): flow for flow in _alive(before)}
    events = [(record.flow_name, record.status.value) for record in _new_records(before, after)]
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


def _slot_events(before: WorkingMemory, after: WorkingMemory, registry: FlowRegistry) -> list[SlotEvent]:
    held = {_key(flow): flow.slots for flow in _alive(before)}
    events = []
    for flow in _alive(after):
        earlier = held.get(_key(flow), {})
        for name, slot in flow.slots.items():
            definition = registry[flow.flow_name].slot(name) if flow.flow_name in registry else None
            if slot == earlier.get(name) or definition is None:
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


def _confirmation_events(before: WorkingMemory, after: WorkingMemory) -> list[ConfirmationEvent]:
    asked = before.pending_confirmation
    if asked is None or asked == after.pending_confirmation:
        return []
    running = after.active_flow
    agreed = running is not None and running.ready and running.flow_name == asked.flow_name
    outcome: Any = "confirmed" if agreed else "cancelled"
    return [
        ConfirmationEvent(
            question=asked.action_description, outcome=outcome, resolved_at_turn=after.turn_number
        )
    ]
