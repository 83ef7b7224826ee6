"""Records go to jazzmine and back without losing a field, on either side."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazzmine_dspy.integrations.jazzmine.working_memory import JazzmineWorkingMemoryStore
from jazzmine_dspy.memory.errors import UnreadableRecordError
from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    FlowRecord,
    FlowStatus,
    PendingConfirmation,
    ProcessedMessage,
    QueuedMessage,
    RunningAction,
    SlotState,
    ToolCallRecord,
    TopicShift,
    TurnCache,
    WorkingMemory,
    WorkspaceEntity,
)

pytestmark = pytest.mark.row("W22")

STORE = JazzmineWorkingMemoryStore()

# --- what either side can hold -------------------------------------------------------------------------------

texts = st.text(max_size=12)
names = st.text(min_size=1, max_size=8)
counts = st.integers(0, 1000)
times = st.floats(0, 2e9, allow_nan=False)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
mappings = st.dictionaries(texts, values, max_size=2)


def lists(items: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=most)


CALL = {
    "tool_name": names,
    "arguments": mappings,
    "result": values,
    "result_summary": texts,
    "success": st.booleans(),
    "error": texts,
    "turn_number": counts,
    "call_index": counts,
    "called_at": times,
    "step": st.none() | counts,
    "branch": st.none() | texts,
}
CACHE = {
    "turn_number": counts,
    "enhanced_query": texts,
    "intent": texts,
    "sentiment_score": st.floats(-1, 1),
    "is_continuation": st.booleans(),
    "is_cancellation": st.booleans(),
    "raw_entities": lists(mappings),
    "retrieved_same_conv_episodes": lists(mappings),
    "retrieved_prev_conv_episodes": lists(mappings),
    "retrieved_semantic_terms": lists(mappings),
    "combined_flow_prompt": texts,
    "selected_flow_ids": lists(texts),
    "unresolved_flow_ids": lists(texts),
    "flow_candidates": lists(mappings),
}
FLOW = {
    "flow_id": texts,
    "flow_name": names,
    "flow_type": st.sampled_from(["flow", "sequentialflow", "parallelflow", "conditionalflow", "own"]),
    "started_at_turn": counts,
    "started_at": times,
    "priority": lists(counts),
    "tools_required": lists(texts),
    "current_step": counts,
    "total_steps": counts,
    "step_results": lists(values),
    "branch_results": mappings,
    "condition_expr": st.none() | texts,
    "condition_branch_taken": st.none() | texts,
}
ENDED = {
    "flow_id": texts,
    "flow_name": names,
    "started_at_turn": counts,
    "ended_at_turn": counts,
    "slot_values": mappings,
    "tool_summaries": lists(texts),
}
ENTITY = {
    "name": names,
    "attributes": lists(texts),
    "first_seen_turn": counts,
    "last_seen_turn": counts,
    "mention_count": st.integers(1, 99),
}
CONFIRMATION = {
    "flow_id": texts,
    "action_description": texts,
    "action_payload": mappings,
    "requested_at_turn": counts,
    "requested_at": times,
    "timeout_turns": st.integers(1, 9),
}
SLOT = {
    "name": names,
    "description": texts,
    "type": texts,
    "required": st.booleans(),
    "validation_error": texts,
}
TOPIC = {"turn_number": counts, "intent": texts, "summary": texts}
MEMORY = {
    "conversation_id": st.just("c1"),
    "user_id": texts,
    "agent_id": texts,
    "created_at": times,
    "last_updated": times,
    "turn_number": counts,
    "entity_max_age_turns": counts,
}


def their_memories(jazzmine: Any) -> st.SearchStrategy[Any]:
    statuses = st.sampled_from(list(jazzmine.FlowStatus))
    ended = ("completed", "cancelled", "failed")
    running = statuses.filter(lambda status: status.value not in ended)
    calls = lists(st.builds(jazzmine.ToolCallRecord, **CALL))
    filled = {"collected": st.just(True), "value": values.filter(lambda value: value is not None)}
    empty = {"collected": st.just(False), "value": st.none()}
    slots = st.one_of(
        *(st.builds(jazzmine.Slot, **SLOT, **kind, collected_at_turn=counts) for kind in (filled, empty))
    )
    flows = st.builds(
        jazzmine.ActiveFlowState,
        **FLOW,
        status=running,
        tool_call_history=calls,
        slots=st.dictionaries(names, slots, max_size=3),
    )
    records = st.builds(
        jazzmine.FlowRecord, **ENDED, flow_type=FLOW["flow_type"], status=statuses.map(lambda s: s.value)
    )
    return st.builds(
        jazzmine.WorkingMemory,
        **MEMORY,
        status=st.sampled_from(list(jazzmine.ConversationStatus)),
        active_flow=st.none() | flows,
        flow_history=lists(records),
        pending_confirmation=st.none() | st.builds(jazzmine.PendingConfirmation, **CONFIRMATION),
        entity_workspace=st.dictionaries(names, st.builds(jazzmine.WorkspaceEntity, **ENTITY), max_size=2),
        topic_history=lists(st.builds(jazzmine.TopicShift, **TOPIC)),
        last_agent_response=st.none() | names,
        last_agent_intent=st.none() | names,
        current_turn=st.none() | st.builds(jazzmine.TurnCache, **CACHE, tool_calls=calls),
    )


def our_memories() -> st.SearchStrategy[WorkingMemory]:
    types = st.sampled_from(["flow", "sequential", "parallel", "conditional", "sequentialflow", "own"])
    calls = lists(st.builds(ToolCallRecord, **CALL, note=texts))
    slots = st.builds(
        SlotState, **SLOT, value=values, previous_value=values, attempts=counts, collected_at_turn=st.none() | counts,
        skipped=st.booleans(), since=values,
    )  # fmt: skip
    flow = {
        **FLOW,
        "flow_type": types,
        "tool_call_history": calls,
        "tool_calls_dropped": counts,
        "slots": st.dictionaries(names, slots, max_size=3),
        "awaiting": st.none() | names,
        "instructions": texts,
        "ready": st.booleans(),
        "deferred": st.booleans(),
        "paused_at_turn": st.none() | counts,
    }
    running = [
        FlowStatus.ACTIVE,
        FlowStatus.COLLECTING_SLOTS,
        FlowStatus.AWAITING_CONFIRMATION,
        FlowStatus.PAUSED,
    ]
    flows = st.builds(ActiveFlowState, **flow, status=st.sampled_from(running))
    ended = st.builds(
        FlowRecord, **ENDED, flow_type=types, status=st.sampled_from(list(FlowStatus)), result=values, reason=texts,
    )  # fmt: skip
    return st.builds(
        WorkingMemory,
        **MEMORY,
        version=st.just(7),
        schema_version=st.sampled_from([3, 9]),
        began_after=st.sampled_from(["nothing", "expiry", "corruption"]),
        episode_id=counts,
        active_flow=st.none() | flows,
        paused=lists(flows),
        flow_history=lists(ended),
        pending_confirmation=st.none()
        | st.builds(PendingConfirmation, **CONFIRMATION, flow_name=texts, drifted_turns=counts),
        action=st.none()
        | st.builds(RunningAction, flow_name=names, started_at_turn=counts, started_at=counts),
        entity_workspace=st.dictionaries(
            names, st.builds(WorkspaceEntity, **ENTITY, seen_by=texts), max_size=2
        ),
        topic_history=lists(st.builds(TopicShift, **TOPIC)),
        last_agent_response=texts,
        last_agent_intent=texts,
        current_turn=st.none() | st.builds(TurnCache, **CACHE, tool_calls=calls, message_id=texts),
        topics_dropped=counts,
        flows_dropped=counts,
        sentiments=lists(st.floats(-1, 1)),
        open_trace=st.none() | texts,
        started_message_ids=lists(texts),
        queue=lists(st.builds(QueuedMessage, message_id=names, user_id=texts, text=texts)),
        processed=lists(st.builds(ProcessedMessage, message_id=names, next_step=mappings, reply=texts)),
        escalation=texts,
        of_a_newer_version=values,
    )


# --- both ways -----------------------------------------------------------------------------------------------


def written(state: WorkingMemory) -> dict[str, Any]:
    """The record that jazzmine finds."""
    record: dict[str, Any] = json.loads(STORE.encode(state).partition(b"\n")[0])
    return record


def without_status(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what follows from the rest."""
    return {name: value for name, value in record.items() if name != "status"}


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_what_jazzmine_wrote_comes_back_to_it_unchanged(theirs: Any, data: st.DataObject) -> None:
    wrote = data.draw(their_memories(theirs)).to_dict()
    back = written(STORE.decode(json.dumps(wrote).encode() + b"\n", "c1"))
    assert without_status(theirs.WorkingMemory.from_dict(back).to_dict()) == without_status(wrote)


@given(our_memories())
@settings(max_examples=25, deadline=None)
def test_our_state_comes_back_whole_and_jazzmine_can_read_it(theirs: Any, state: WorkingMemory) -> None:
    again = STORE.decode(STORE.encode(state), "c1")
    again.version = state.version
    assert again == state
    record = written(state)
    assert theirs.WorkingMemory.from_dict(record).to_dict() == record


@given(our_memories(), st.data())
@settings(max_examples=25, deadline=None)
def test_whatever_jazzmine_writes_over_ours_is_read_as_it_wrote_it(
    theirs: Any, state: WorkingMemory, data: st.DataObject
) -> None:
    main, _, beside = STORE.encode(state).partition(b"\n")
    wrote = data.draw(their_memories(theirs)).to_dict()
    if data.draw(st.booleans()):
        # The same conversation still, with a flow, a slot and a confirmation that ours had.
        wrote["created_at"] = state.created_at
        for part in ("active_flow", "pending_confirmation", "current_turn", "flow_history"):
            if data.draw(st.booleans()):
                wrote[part] = json.loads(main)[part]
    back = written(STORE.decode(json.dumps(wrote).encode() + b"\n" + beside, "c1"))
    assert without_status(theirs.WorkingMemory.from_dict(back).to_dict()) == without_status(wrote)


# --- what stays of ours when jazzmine has written -------------------------------------------------------------


def rewritten(state: WorkingMemory, **changes: Any) -> WorkingMemory:
    """The state after jazzmine has changed fields of its record."""
    main, _, beside = STORE.encode(state).partition(b"\n")
    return STORE.decode(json.dumps({**json.loads(main), **changes}).encode() + b"\n" + beside, "c1")


def test_the_rest_of_the_same_flow_turn_and_confirmation_stays() -> None:
    slots = {
        "day": SlotState(name="day", value="Monday", previous_value="Sunday", collected_at_turn=1),
        "time": SlotState(name="time", attempts=2, validation_error="too late"),
    }
    state = WorkingMemory(
        conversation_id="c1",
        user_id="ann",
        active_flow=ActiveFlowState(flow_name="book", slots=slots, instructions="Ask.", awaiting="time"),
        flow_history=[FlowRecord(flow_name="greet", status=FlowStatus.COMPLETED, result={"ok": 1})],
        current_turn=TurnCache(turn_number=2, message_id="m2"),
        pending_confirmation=PendingConfirmation(action_description="Book?", drifted_turns=2),
        action=RunningAction(flow_name="book", action_id="a1"),
    )
    flow = written(state)["active_flow"]
    time = {**flow["slots"]["time"], "collected": True, "value": "9 am", "validation_error": ""}
    after = rewritten(
        state, active_flow={**flow, "slots": {**flow["slots"], "time": time}}, last_agent_response="At nine."
    )
    assert after.active_flow is not None
    assert after.active_flow.slots["day"] == slots["day"]
    assert (after.active_flow.slots["time"].value, after.active_flow.slots["time"].attempts) == ("9 am", 0)
    assert (after.active_flow.instructions, after.active_flow.awaiting) == ("Ask.", None)
    assert (after.flow_history, after.current_turn) == (state.flow_history, state.current_turn)
    assert (after.pending_confirmation, after.action) == (state.pending_confirmation, state.action)


@pytest.mark.parametrize("flow", [None, {"flow_name": "other"}, {"started_at_turn": 9}])
def test_what_belonged_to_a_flow_that_is_gone_goes_with_it(flow: dict[str, Any] | None) -> None:
    running = ActiveFlowState(flow_name="book", instructions="Ask.", ready=True)
    state = WorkingMemory(
        conversation_id="c1", user_id="ann", active_flow=running, action=RunningAction(flow_name="book")
    )
    record = written(state)["active_flow"]
    after = rewritten(state, active_flow=flow and {**record, **flow})
    assert after.action is None
    assert after.active_flow is None or (after.active_flow.instructions, after.active_flow.ready) == (
        "",
        False,
    )


def test_what_is_no_number_is_none_and_what_cannot_be_stored_is_unreadable() -> None:
    state = WorkingMemory(conversation_id="c1", user_id="ann", active_flow=ActiveFlowState(flow_name="book"))
    flow = written(state)["active_flow"]
    after = rewritten(state, active_flow={**flow, "step_results": [float("nan"), 5]})
    assert after.active_flow is not None
    assert after.active_flow.step_results == [None, 5]
    for damage in (
        {"user_id": "half \ud83d"},
        {"user_id": None},
        {"flow_history": [5]},
        {"active_flow": [1]},
    ):
        with pytest.raises(UnreadableRecordError):
            rewritten(state, **damage)
