"""Operations on a store: each in one step, in the turn there is or in one of its own."""

# The name of a test says what it checks.
# ruff: noqa: D102

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import NotStoredError, StateError
from jazzmine_dspy.memory.working.flow import ActiveFlowState, TurnCache
from jazzmine_dspy.memory.working.records import PendingConfirmation, QueuedMessage, SlotState, ToolCallRecord
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy_conformance.working_memory.harness import (
    Suite,
    stored_flow,
    stored_state,
    with_timeout,
)

Operation = Callable[[WorkingMemoryStore, str], Awaitable[Any]]

PAY = PendingConfirmation(action_description="Pay 5 EUR?", action_payload={"amount": 5})
LATE = QueuedMessage(message_id="m9", user_id="u1", text="and?")

OPERATIONS: dict[str, Operation] = {
    "begin_turn": lambda store, name: store.begin_turn(name, TurnCache(message_id="m1")),
    "end_turn": lambda store, name: store.end_turn(name, "Hello world", "greeting"),
    "start_flow": lambda store, name: store.start_flow(name, ActiveFlowState(flow_name="track")),
    "pause_flow": lambda store, name: store.pause_flow(name),
    "resume_flow": lambda store, name: store.resume_flow(name),
    "complete_flow": lambda store, name: store.complete_flow(name),
    "cancel_flow": lambda store, name: store.cancel_flow(name),
    "fail_flow": lambda store, name: store.fail_flow(name),
    "advance_sequential_step": lambda store, name: store.advance_sequential_step(name, 1),
    "record_branch_result": lambda store, name: store.record_branch_result(name, "a", 1),
    "set_condition_branch": lambda store, name: store.set_condition_branch(name, "a"),
    "record_tool_call": lambda store, name: store.record_tool_call(name, ToolCallRecord(tool_name="t")),
    "register_slots": lambda store, name: store.register_slots(name, [SlotState(name="a")]),
    "collect_slot": lambda store, name: store.collect_slot(name, "a", 1),
    "correct_slot": lambda store, name: store.correct_slot(name, "a", 1),
    "clear_slot": lambda store, name: store.clear_slot(name, "a"),
    "request_confirmation": lambda store, name: store.request_confirmation(name, PAY),
    "confirm_action": lambda store, name: store.confirm_action(name),
    "deny_action": lambda store, name: store.deny_action(name),
    "begin_action": lambda store, name: store.begin_action(name),
    "finish_action": lambda store, name: store.finish_action(name),
    "enqueue": lambda store, name: store.enqueue(name, LATE),
    "dequeue": lambda store, name: store.dequeue(name),
}
"""Every operation with arguments that it takes in some state; all but a few refuse an idle conversation."""

WHEN_IDLE = {"begin_turn", "end_turn", "start_flow", "confirm_action", "dequeue"}


async def running(store: WorkingMemoryStore, *slots: SlotState) -> None:
    """Begin a conversation with a flow under way."""
    await store.get_or_create("c1", "u1")
    flow = ActiveFlowState(flow_name="pay", slots={slot.name: slot for slot in slots})
    await store.start_flow("c1", flow)


class OperationSuite(Suite):
    """What holds for operations on any store; what each does is tested without one."""

    async def test_the_standard_pattern_runs_as_written(self, store: WorkingMemoryStore) -> None:
        cid, uid, aid = "c1", "u1", "support"
        turn_cache = TurnCache(message_id="m1", enhanced_query="Is the lamp in stock?")
        my_record = ToolCallRecord(tool_name="stock", arguments={"sku": "L-1"}, result=[5])

        wm = await store.get_or_create(cid, uid, aid)
        wm = await store.begin_turn(cid, turn_cache)
        await store.record_tool_call(cid, my_record)
        await store.end_turn(cid, "Hello world", "greeting")

        state = await stored_state(store)
        assert (wm.turn_number, state.turn_number, state.version) == (1, 1, 3)
        assert state.current_turn is not None
        assert [call.result for call in state.current_turn.tool_calls] == [[5]]
        assert (state.last_agent_response, state.last_agent_intent) == ("Hello world", "greeting")

    async def test_the_same_pattern_in_one_turn(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1", "support")
            await store.begin_turn("c1", TurnCache(message_id="m1"))
            await store.record_tool_call("c1", ToolCallRecord(tool_name="stock", result=[5]))
            last = await store.end_turn("c1", "Hello world", "greeting")
            assert await stored_state(store) == last
        assert await stored_state(store) == last

    async def test_each_operation_is_taken_or_refused_and_then_changes_nothing(
        self, store: WorkingMemoryStore
    ) -> None:
        for name, operation in OPERATIONS.items():
            before = await store.get_or_create(name, "u1")
            if name in WHEN_IDLE:
                await operation(store, name)
                assert (await stored_state(store, name)).version == 1
            else:
                with pytest.raises(StateError) as caught:
                    await operation(store, name)
                assert caught.value.remedy
                assert await store.get(name) == before
            # The turn of its own is over in either case.
            assert (await with_timeout(store.end_turn(name, "free"))).last_agent_response == "free"

    @pytest.mark.parametrize("name", ["pause_flow", "collect_slot", "request_confirmation", "finish_action"])
    async def test_a_refusal_within_a_turn_changes_nothing_and_the_turn_goes_on(
        self, store: WorkingMemoryStore, name: str
    ) -> None:
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1")
            before = await store.end_turn("c1", "before")
            with pytest.raises(StateError):
                await OPERATIONS[name](store, "c1")
            assert await stored_state(store) == before
            assert (await store.end_turn("c1", "after")).version == before.version + 1

    async def test_what_an_operation_was_given_and_gave_is_not_what_is_kept(
        self, store: WorkingMemoryStore
    ) -> None:
        await store.get_or_create("c1", "u1")
        async with store.turn("c1"):
            flow = ActiveFlowState(flow_name="track", slots={"a": SlotState(name="a", value=[1])})
            call = ToolCallRecord(tool_name="t", result=[1])
            states = [await store.start_flow("c1", flow), await store.record_tool_call("c1", call)]
            flow.slots["a"].value.append(2)
            call.result.append(2)
            for state in states:
                assert state.active_flow is not None
                state.active_flow.slots["a"].value.append(3)
                state.active_flow.tool_call_history.clear()
            await store.end_turn("c1", "done")
        active = await stored_flow(store)
        assert (active.values, [one.result for one in active.tool_call_history]) == ({"a": [1]}, [[1]])

    async def test_operations_at_once_are_each_done_on_what_the_others_left(
        self, store: WorkingMemoryStore, workers: list[WorkingMemoryStore]
    ) -> None:
        await running(store)
        calls = [ToolCallRecord(tool_name=f"t{number}") for number in range(12)]
        work = [workers[number % 3].record_tool_call("c1", call) for number, call in enumerate(calls)]
        await with_timeout(asyncio.gather(*work))
        active = await stored_flow(store)
        assert [call.call_index for call in active.tool_call_history] == list(range(12))
        assert {call.tool_name for call in active.tool_call_history} == {call.tool_name for call in calls}

    async def test_tools_called_at_once_in_one_turn_are_each_noted(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1")
            await store.begin_turn("c1", TurnCache(message_id="m1"))
            calls = [ToolCallRecord(tool_name=f"t{number}") for number in range(10)]
            await with_timeout(asyncio.gather(*(store.record_tool_call("c1", call) for call in calls)))
            turn = (await stored_state(store)).current_turn
        assert turn is not None
        assert [call.tool_name for call in turn.tool_calls] == [call.tool_name for call in calls]

    async def test_a_message_delivered_three_times_at_once_begins_one_turn(
        self, store: WorkingMemoryStore, workers: list[WorkingMemoryStore]
    ) -> None:
        await store.get_or_create("c1", "u1")
        cache = TurnCache(
            message_id="m1", is_continuation=False, raw_entities=[{"name": "Order #555"}], intent="track"
        )
        states = await with_timeout(asyncio.gather(*(one.begin_turn("c1", cache) for one in workers)))
        assert {state.turn_number for state in states} == {1}
        state = await stored_state(store)
        assert (state.started_message_ids, len(state.topic_history)) == (["m1"], 1)
        assert [entity.mention_count for entity in state.entity_workspace.values()] == [1]

    async def test_beginning_a_turn_is_all_or_nothing(self, store: WorkingMemoryStore) -> None:
        await store.get_or_create("c1", "u1")
        before = await store.begin_turn("c1", TurnCache(message_id="m1"))
        broken = TurnCache(
            message_id="m2", is_continuation=False, raw_entities=[{"name": "Lamp"}, {"name": 5}]
        )
        with pytest.raises(InputError, match="raw_entities"):
            await store.begin_turn("c1", broken)
        assert await store.get("c1") == before
        # The message was not taken, so that it can be delivered again.
        assert (await store.begin_turn("c1", TurnCache(message_id="m2"))).turn_number == 2

    async def test_a_payload_is_paid_out_once_to_any_number_of_workers(
        self, store: WorkingMemoryStore, workers: list[WorkingMemoryStore]
    ) -> None:
        await running(store)
        await store.request_confirmation("c1", PAY)
        paid = await with_timeout(asyncio.gather(*(one.confirm_action("c1") for one in 2 * workers)))
        assert [payload for payload in paid if payload is not None] == [{"amount": 5}]

    async def test_a_queued_message_is_taken_once(
        self, store: WorkingMemoryStore, workers: list[WorkingMemoryStore]
    ) -> None:
        await running(store)
        await store.begin_action("c1")
        for number in range(3):
            await store.enqueue("c1", QueuedMessage(message_id=f"m{number}", user_id="u1", text="and?"))
        await store.finish_action("c1", {"done": True})
        taken = await with_timeout(asyncio.gather(*(one.dequeue("c1") for one in 2 * workers)))
        assert sorted(one.message_id for one in taken if one is not None) == ["m0", "m1", "m2"]
        assert (await stored_state(store)).queue == []

    async def test_a_conversation_is_carried_on_by_another_worker_in_every_step(
        self, workers: list[WorkingMemoryStore]
    ) -> None:
        await running(workers[0], SlotState(name="amount"))
        await workers[1].collect_slot("c1", "amount", 0)
        await workers[2].request_confirmation("c1", PAY)
        assert await workers[0].confirm_action("c1") == {"amount": 5}
        await workers[1].begin_action("c1")
        state = await workers[2].finish_action("c1", {"paid": 5})
        assert (state.status, state.flow_history[-1].result) == ("idle", {"paid": 5})

    async def test_a_conversation_deleted_meanwhile_is_not_there_for_the_next_operation(
        self, store: WorkingMemoryStore
    ) -> None:
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1")
            await store.end_turn("c1", "before")
            await store.delete("c1")
            with pytest.raises(NotStoredError):
                await store.end_turn("c1", "after")

    async def test_a_conversation_that_has_not_begun_is_refused_by_all_and_not_made(
        self, store: WorkingMemoryStore
    ) -> None:
        for name, operation in OPERATIONS.items():
            with pytest.raises(NotStoredError, match="c1") as caught:
                await operation(store, "c1")
            assert "get_or_create" in caught.value.remedy, name
        assert await store.get("c1") is None
