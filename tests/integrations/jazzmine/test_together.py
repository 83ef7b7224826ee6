"""Jazzmine's own store and ours on one conversation, on a real server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError, StaleStateError, TurnLostError
from jazzmine_dspy.memory.working import ActiveFlowState, FlowStatus, Presence, QueuedMessage, SlotState
from jazzmine_dspy.models.errors import InputError

pytestmark = pytest.mark.row("W22")


def call(theirs: Any, number: int) -> Any:
    return theirs.ToolCallRecord(
        tool_name="stock", arguments={"n": number}, result={"left": [number]}, called_at=1.5
    )


async def begin(theirs: Any, store: Any, conversation_id: str = "c1") -> Any:
    """A turn of jazzmine's with some of everything."""
    await store.get_or_create(conversation_id, "ann", "shop")
    cache = theirs.TurnCache(
        turn_number=1,
        enhanced_query="cancel order 4471",
        intent="cancel",
        is_continuation=False,
        raw_entities=[{"name": "order 4471", "attributes": ["late"]}],
        combined_flow_prompt="Ask for the order first.",
        selected_flow_ids=["f-1"],
        flow_candidates=[{"flow_id": "f-1", "score": 0.5}],
    )
    await store.begin_turn(conversation_id, cache)
    flow = theirs.ActiveFlowState(
        flow_id="f-1",
        flow_name="cancel_order",
        flow_type="sequentialflow",
        started_at_turn=1,
        priority=[2, 1],
        tools_required=["stock"],
        total_steps=3,
        condition_expr="x > 1",
    )
    await store.start_flow(conversation_id, flow)
    await store.record_tool_call(conversation_id, call(theirs, 1))
    slots = [theirs.Slot(name=name, description=f"The {name}", type="text") for name in ("order", "reason")]
    await store.register_slots(conversation_id, slots)
    return await store.collect_slot(conversation_id, "order", "4471")


async def test_a_conversation_goes_from_one_to_the_other_and_back(
    theirs: Any, their_store: Any, ours: Any
) -> None:
    before = await begin(theirs, their_store)

    async with ours.turn("c1"):
        state = await ours.get("c1")
        assert state.status.value == "collecting_slots"
        assert state.active_flow.flow_type == "sequential"
        assert state.active_flow.values == {"order": "4471"}
        assert [slot.name for slot in state.pending_slots] == ["reason"]
        assert state.active_flow.instructions == "Ask for the order first."
        assert [entity.name for entity in state.salient_entities] == ["order 4471"]
        state = await ours.correct_slot("c1", "order", "4472")
        state.active_flow.awaiting = "reason"
        state.escalation = "asks for a person"
        await ours.save(state)

    seen = await their_store.get("c1")
    expected = before.to_dict()
    expected["active_flow"]["slots"]["order"]["value"] = "4472"
    assert {**seen.to_dict(), "last_updated": 0} == {**expected, "last_updated": 0}

    await their_store.collect_slot("c1", "reason", "too late")
    await their_store.advance_sequential_step("c1", {"done": True})
    state = await ours.get("c1")
    assert state.status.value == "in_flow"
    assert state.active_flow.values == {"order": "4472", "reason": "too late"}
    assert (state.active_flow.current_step, state.active_flow.step_results) == (1, [{"done": True}])
    assert state.active_flow.slots["order"].previous_value == "4471"
    assert state.active_flow.awaiting is None
    assert state.escalation == "asks for a person"

    await ours.complete_flow("c1", {"refund": 20})
    seen = await their_store.get("c1")
    assert (seen.status.value, seen.active_flow) == ("idle", None)
    ended = seen.flow_history[0]
    assert (ended.flow_name, ended.flow_type, ended.status) == ("cancel_order", "sequentialflow", "completed")
    await their_store.end_turn("c1", "Done.", "confirmed")
    state = await ours.get("c1")
    assert (state.flow_history[0].result, state.last_agent_response) == ({"refund": 20}, "Done.")
    assert state.topic_history[0].summary == "confirmed"


async def test_paused_flows_and_queued_messages_outlast_what_jazzmine_does(
    theirs: Any, their_store: Any, ours: Any
) -> None:
    await ours.get_or_create("c1", "ann", "shop")
    slots = {"day": SlotState(name="day", value="Monday", previous_value="Sunday", attempts=1)}
    await ours.start_flow("c1", ActiveFlowState(flow_name="book", flow_id="b", slots=slots))
    await ours.start_flow("c1", ActiveFlowState(flow_name="cancel", flow_id="c"))
    await ours.begin_action("c1")
    await ours.enqueue("c1", QueuedMessage(message_id="m9", user_id="ann", text="and my coat?"))

    assert (await their_store.get("c1")).status.value == "in_flow"
    await their_store.advance_sequential_step("c1", {"paid": 20})
    state = await ours.get("c1")
    assert state.status.value == "executing_action"
    await their_store.complete_flow("c1")

    state = await ours.get("c1")
    assert (state.status.value, state.action) == ("idle", None)
    assert [message.message_id for message in state.queue] == ["m9"]
    assert [flow.flow_name for flow in state.paused] == ["book"]
    assert state.paused[0].slots["day"].previous_value == "Sunday"
    state = await ours.resume_flow("c1", "book")
    assert state.active_flow.values == {"day": "Monday"}
    assert (await their_store.get("c1")).active_flow.flow_name == "book"


async def test_an_action_of_a_flow_that_jazzmine_replaced_is_over(
    theirs: Any, their_store: Any, ours: Any
) -> None:
    await ours.get_or_create("c1", "ann")
    await ours.start_flow("c1", ActiveFlowState(flow_name="pay", flow_id="p"))
    await ours.begin_action("c1")
    again = theirs.ActiveFlowState(flow_id="p", flow_name="pay", flow_type="flow", started_at_turn=4)
    await their_store.start_flow("c1", again)
    state = await ours.get("c1")
    assert (state.action, state.active_flow.started_at_turn, state.active_flow.ready) == (None, 4, False)


async def test_a_confirmation_is_confirmed_by_either(theirs: Any, their_store: Any, ours: Any) -> None:
    await begin(theirs, their_store)
    await their_store.collect_slot("c1", "reason", "late")
    asked = theirs.PendingConfirmation("f-1", "Cancel order 4471?", {"order": "4471"}, 1)
    await their_store.request_confirmation("c1", asked)
    state = await ours.get("c1")
    assert state.status.value == "awaiting_confirmation"
    assert state.pending_confirmation.flow_name == "cancel_order"
    assert await ours.confirm_action("c1") == {"order": "4471"}
    seen = await their_store.get("c1")
    assert (seen.pending_confirmation, seen.active_flow.status.value) == (None, "active")


async def test_no_step_of_either_is_lost(theirs: Any, their_store: Any, harness: Any) -> None:
    await begin(theirs, their_store)
    stores = [await harness.make(wait=15.0) for _ in range(2)]
    steps = 12

    async def by_us(number: int) -> None:
        store = stores[number % 2]
        async with store.turn("c1"):
            state = await store.get("c1")
            await asyncio.sleep(0)
            state.active_flow.step_results.append({"ours": number})
            state.active_flow.current_step += 1
            await store.save(state)

    theirs_do = [their_store.advance_sequential_step("c1", {"theirs": n}) for n in range(steps)]
    await asyncio.gather(*theirs_do, *(by_us(n) for n in range(steps)))
    state = await stores[0].get("c1")
    assert state.active_flow.current_step == 2 * steps
    for who in ("ours", "theirs"):
        assert {r[who] for r in state.active_flow.step_results if who in r} == set(range(steps))


async def test_jazzmine_waits_for_our_turn(theirs: Any, their_store: Any, ours: Any, redis: Any) -> None:
    await begin(theirs, their_store)
    async with ours.turn("c1"):
        lock = await redis.get("wm_lock:c1")
        assert 10_000 < await redis.pttl("wm_lock:c1") <= 15_000
        waiting = asyncio.create_task(their_store.collect_slot("c1", "reason", "late"))
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done
        assert await redis.get("wm_lock:c1") == lock
        state = await ours.get("c1")
        state.escalation = "tired"
        await ours.save(state)
    await waiting
    state = await ours.get("c1")
    assert (state.active_flow.values["reason"], state.escalation) == ("late", "tired")
    assert await redis.exists("wm_lock:c1") == 0


async def test_our_turn_waits_for_jazzmine(theirs: Any, their_store: Any, harness: Any) -> None:
    await begin(theirs, their_store)
    hasty = await harness.make(wait=0.05)
    async with their_store._distributed_lock("c1"):
        with pytest.raises(LockTimeoutError):
            async with hasty.turn("c1"):
                raise AssertionError("it was not to begin")
    async with hasty.turn("c1") as fence:
        assert fence == 1


async def test_a_write_over_one_of_jazzmine_is_refused(theirs: Any, their_store: Any, ours: Any) -> None:
    await begin(theirs, their_store)
    async with ours.turn("c1"):
        state = await ours.get("c1")
        memory = await their_store.get("c1")
        memory.last_agent_response = "theirs"
        await their_store.save(memory)  # it locks nothing
        state.last_agent_response = "ours"
        with pytest.raises(StaleStateError):
            await ours.save(state)
    assert (await their_store.get("c1")).last_agent_response == "theirs"
    assert (await ours.get("c1")).last_agent_response == "theirs"


async def test_a_turn_whose_lock_jazzmine_has_taken_cannot_write(
    theirs: Any, their_store: Any, ours: Any, redis: Any
) -> None:
    before = await begin(theirs, their_store)
    async with ours.turn("c1"):
        state = await ours.get("c1")
        await redis.delete("wm_lock:c1")  # as if the lease had run out
        async with their_store._distributed_lock("c1"):
            # What it has read now, it will write: nothing may come between.
            with pytest.raises(TurnLostError):
                await ours.save(state)
    assert (await their_store.get("c1")).to_dict() == before.to_dict()


async def test_a_conversation_that_jazzmine_began_anew_gets_nothing_of_the_old_one(
    theirs: Any, their_store: Any, ours: Any
) -> None:
    await ours.get_or_create("c1", "ann")
    await ours.start_flow("c1", ActiveFlowState(flow_name="book"))
    await ours.pause_flow("c1")
    old = await ours.get("c1")
    await their_store.delete("c1")
    await their_store.get_or_create("c1", "bob", "shop")
    state = await ours.get("c1")
    assert (state.user_id, state.paused) == ("bob", [])
    assert state.version > old.version


# --- time to live --------------------------------------------------------------------------------------------


async def test_a_longer_life_that_jazzmine_gave_is_not_shortened(
    theirs: Any, redis: Any, harness: Any
) -> None:
    long_lived = theirs.RedisWorkingMemoryStore(redis, ttl_seconds=7200)
    await begin(theirs, long_lived)
    store = await harness.make(ttl=60)
    state = await store.get("c1")
    await store.save(state)
    assert await redis.pttl("wm:c1") > 7_000_000


async def test_reading_lets_a_record_live_on(
    theirs: Any, their_store: Any, ours: Any, redis: Any, harness: Any
) -> None:
    await begin(theirs, their_store)
    await harness.pass_time(3000)
    await ours.get("c1")
    assert await redis.pttl("wm:c1") > 3_500_000
    await harness.pass_time(3700)
    assert await ours.presence("c1") is Presence.EXPIRED
    assert (await ours.get_or_create("c1", "ann")).began_after == "expiry"


# --- what jazzmine breaks on ---------------------------------------------------------------------------------


async def test_a_field_of_a_newer_version_of_ours_does_not_make_jazzmine_delete_the_memory(
    their_store: Any, ours: Any
) -> None:
    state = await ours.get_or_create("c1", "ann", "shop")
    newer = type(state).model_validate({**state.model_dump(), "a_newer_field": [1]})
    await ours.save(newer)
    assert (await their_store.get("c1")).user_id == "ann"
    assert (await ours.get("c1")).model_extra == {"a_newer_field": [1]}


async def test_every_status_of_ours_is_one_that_jazzmine_knows(their_store: Any, ours: Any) -> None:
    await ours.get_or_create("c1", "ann", "shop")
    await ours.start_flow("c1", ActiveFlowState(flow_name="pay"))
    await ours.begin_action("c1")
    for status in FlowStatus:
        async with ours.turn("c1"):
            state = await ours.get("c1")
            state.active_flow = ActiveFlowState(flow_name="pay", status=status)
            await ours.save(state)
        assert (await their_store.get("c1")).conversation_id == "c1"


DAMAGE = {
    "truncated": b'{"conversation_id": "c1", "us',
    "empty": b"",
    "not a mapping": b"[1]",
    "two lines": b'{"a": 1}\n{"b": 2}',
    "no text": b"\xff\xfe\x00",
    "unknown status of a flow": json.dumps(
        {"conversation_id": "c1", "user_id": "u", "active_flow": {"flow_name": "f", "status": "secret 4471"}}
    ).encode(),
    "a list of flows": b'{"conversation_id": "c1", "user_id": "u", "active_flow": ["f"]}',
    "of another conversation": b'{"conversation_id": "c2", "user_id": "u"}',
    "nested": b'{"a": ' + b"[" * 100_000 + b"}",
}


@pytest.mark.parametrize("kind", DAMAGE)
async def test_an_unreadable_record_is_moved_aside_whole(kind: str, ours: Any, redis: Any) -> None:
    await ours.get_or_create("c1", "ann", "shop")
    beside = await redis.get("{wm:c1}:jazzmine:beside")
    await redis.set("wm:c1", DAMAGE[kind], keepttl=True)
    assert await ours.get("c1") is None
    assert await ours.presence("c1") is Presence.UNREADABLE
    (entry,) = await ours.quarantined("c1")
    assert entry.data == DAMAGE[kind] + b"\n" + beside
    assert "secret" not in entry.cause
    assert (await ours.get_or_create("c1", "ann", "shop")).began_after == "corruption"


async def test_a_key_of_another_type_is_moved_aside(ours: Any, redis: Any) -> None:
    await redis.hset("wm:c1", "field", "value")
    dump = await redis.dump("wm:c1")
    assert await ours.get("c1") is None
    (entry,) = await ours.quarantined("c1")
    assert entry.data == dump + b"\n"


async def test_a_status_that_nobody_knows_is_healed(
    theirs: Any, their_store: Any, ours: Any, redis: Any
) -> None:
    memory = await begin(theirs, their_store)
    await redis.set("wm:c1", json.dumps({**memory.to_dict(), "status": "melancholic"}))
    with pytest.raises(ValueError, match="melancholic"):
        await their_store.get("c1")  # for ever, left to itself
    await ours.save(await ours.get("c1"))
    assert (await their_store.get("c1")).status.value == "collecting_slots"


async def test_an_id_that_would_choose_another_slot_is_refused(ours: Any) -> None:
    with pytest.raises(InputError, match="without braces"):
        await ours.get_or_create("a{b}", "ann")
