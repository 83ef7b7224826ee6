"""The operations on a store: as the reference document uses them, in the turn of the task or one of their own."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from jazzmine_dspy.memory.errors import NotStoredError, StateError
from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    InMemoryWorkingMemoryStore,
    PendingConfirmation,
    QueuedMessage,
    SlotState,
    ToolCallRecord,
    TurnCache,
    WorkingMemoryStore,
    operations,
)
from jazzmine_dspy.models.flows import Flow, Slot


@pytest.mark.row("W13")
async def test_the_usage_pattern_of_the_reference_runs_as_written() -> None:
    store = InMemoryWorkingMemoryStore()
    cid, uid, aid = "c1", "u1", "support"
    turn_cache = TurnCache(enhanced_query="hi", intent="greet", is_continuation=False)
    my_record = ToolCallRecord(
        tool_name="get_inventory",
        arguments={"sku": "LAP-123"},
        result={"count": 5, "warehouse": "A1"},
        result_summary="Found 5 units in Warehouse A1.",
        success=True,
    )
    wm = await store.get_or_create(cid, uid, aid)
    wm = await store.begin_turn(cid, turn_cache)
    assert wm.turn_number == 1
    await store.record_tool_call(cid, my_record)
    wm = await store.end_turn(cid, "Hello world", "greeting")
    assert (wm.last_agent_response, wm.last_agent_intent) == ("Hello world", "greeting")
    assert wm.current_turn is not None
    assert wm.current_turn.tool_calls[0].result == {"count": 5, "warehouse": "A1"}
    assert wm.current_turn.tool_calls[0].called_at > 0
    assert await store.get(cid) == wm
    assert store.locks == 0


@pytest.mark.row("W13")
@pytest.mark.parametrize("name", operations.__all__)
def test_every_operation_is_a_method_of_a_store(name: str) -> None:
    operation, method = getattr(operations, name), getattr(WorkingMemoryStore, name)
    assert inspect.iscoroutinefunction(method)
    assert method.__name__ == operation.__name__ == name
    assert operation.__doc__
    assert method.__doc__


@pytest.mark.row("W13")
async def test_each_operation_opens_a_turn_of_its_own_or_uses_the_running_one() -> None:
    store = InMemoryWorkingMemoryStore(wait=0.05)
    await store.get_or_create("c1", "u1")
    await store.start_flow("c1", Flow(name="f", description="d", slots=[Slot(name="a", type="text")]))
    async with store.turn("c1"):
        await store.collect_slot("c1", "a", 0)
        state = await store.request_confirmation(
            "c1", PendingConfirmation(action_description="?", action_payload={"a": 0})
        )
        assert state.status == "awaiting_confirmation"
        assert await store.confirm_action("c1") == {"a": 0}
        assert await store.confirm_action("c1") is None
    state = await store.begin_action("c1")
    assert state.action is not None
    assert state.action.started_at > 0
    await store.enqueue("c1", QueuedMessage(message_id="m", user_id="u1", text="hello?"))
    assert await store.dequeue("c1") is None
    await store.finish_action("c1", {"ok": True})
    waiting = await store.dequeue("c1")
    assert waiting is not None
    assert waiting.text == "hello?"
    assert await store.dequeue("c1") is None
    kept = await store.get("c1")
    assert kept is not None
    assert (kept.flow_history[0].result, kept.queue) == ({"ok": True}, [])


@pytest.mark.row("W13", "W12")
async def test_an_operation_that_fails_changes_nothing_and_leaves_no_turn_behind() -> None:
    store = InMemoryWorkingMemoryStore()
    with pytest.raises(NotStoredError):
        await store.begin_turn("c1", TurnCache())
    before = await store.get_or_create("c1", "u1")
    for failing in (
        lambda: store.collect_slot("c1", "a", 1),
        lambda: store.deny_action("c1"),
        lambda: store.finish_action("c1"),
        lambda: store.resume_flow("c1"),
    ):
        with pytest.raises(StateError):
            await failing()
        assert await store.get("c1") == before
    assert store.locks == 0


@pytest.mark.row("W13", "W12")
async def test_ref_w17_turns_begun_at_once_are_counted_one_by_one() -> None:
    store = InMemoryWorkingMemoryStore()
    await store.get_or_create("c1", "u1")
    caches = [TurnCache(turn_number=1, message_id=f"m{n % 10}") for n in range(30)]
    states = await asyncio.gather(*(store.begin_turn("c1", cache) for cache in caches))
    assert max(state.turn_number for state in states) == 10
    kept = await store.get("c1")
    assert kept is not None
    assert kept.started_message_ids == [f"m{n}" for n in range(10)]


@pytest.mark.row("W11", "W13")
async def test_finding_6_starting_a_flow_over_another_loses_nothing() -> None:
    store = InMemoryWorkingMemoryStore()
    await store.get_or_create("c1", "u1")
    await store.start_flow("c1", ActiveFlowState(flow_name="first"))
    await store.register_slots("c1", [SlotState(name="a")])
    await store.collect_slot("c1", "a", "kept")
    await store.start_flow("c1", ActiveFlowState(flow_name="second"))
    state = await store.resume_flow("c1", "first")
    assert state.active_flow is not None
    assert (state.active_flow.values, state.paused[0].flow_name) == ({"a": "kept"}, "second")
