"""What goes wrong in the stores that this one takes the place of, each found by running or reading them.

The names say what goes wrong there; the tests show that it does not here.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError, TurnLostError
from jazzmine_dspy.memory.working import SlotState, TurnCache, WorkingMemoryStore
from jazzmine_dspy.memory.working.store import Presence
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy_conformance.working_memory import Harness


@pytest.fixture
async def store(harness: Harness) -> WorkingMemoryStore:
    store = await harness.make()
    await store.get_or_create("c1", "u1")
    return store


@pytest.mark.row("W12")
async def test_two_messages_at_once_both_become_turn_1(store: WorkingMemoryStore) -> None:
    # The caller's number is not what counts.
    caches = [TurnCache(message_id=f"m{n}", turn_number=1) for n in range(2)]
    states = await asyncio.gather(*(store.begin_turn("c1", cache) for cache in caches))
    assert sorted(state.turn_number for state in states) == [1, 2]


@pytest.mark.row("W12")
async def test_a_retried_message_counts_twice(store: WorkingMemoryStore) -> None:
    cache = TurnCache(message_id="m1", is_continuation=False, raw_entities=[{"name": "Lamp"}])
    once = await store.begin_turn("c1", cache)
    twice = await store.begin_turn("c1", cache)
    assert twice.model_dump(exclude={"version", "last_updated"}) == once.model_dump(
        exclude={"version", "last_updated"}
    )
    assert twice.entity_workspace["Lamp"].mention_count == 1


@pytest.mark.row("W20")
async def test_a_conversation_that_is_only_read_is_silently_lost_after_an_hour(harness: Harness) -> None:
    store = await harness.make(ttl=3600.0)
    await store.get_or_create("c1", "u1")
    for _ in range(3):
        await harness.pass_time(2_400.0)
        assert await store.get("c1") is not None
    await harness.pass_time(4_000.0)
    assert await store.get("c1") is None
    # And where it does expire, it is told.
    assert await store.presence("c1") is Presence.EXPIRED


@pytest.mark.row("W18")
async def test_a_lease_that_ran_out_is_a_warning_after_the_write_has_happened(
    store: WorkingMemoryStore, harness: Harness
) -> None:
    other = await harness.make()
    async with store.turn("c1"):
        late = await store.get("c1")
        assert late is not None
        await harness.lose_lease("c1")
        await other.end_turn("c1", "in time")
        with pytest.raises(TurnLostError):
            await store.save(late)
    state = await other.get("c1")
    assert state is not None
    assert state.last_agent_response == "in time"


@pytest.mark.row("W16")
async def test_the_lock_holds_for_one_method_and_not_for_the_turn(
    store: WorkingMemoryStore, harness: Harness
) -> None:
    hasty = await harness.make(wait=0.01)
    async with store.turn("c1"):
        await store.begin_turn("c1", TurnCache(message_id="m1"))
        # In between, a language model is asked; another message comes meanwhile.
        with pytest.raises(LockTimeoutError) as caught:
            await hasty.begin_turn("c1", TurnCache(message_id="m2"))
        state = await store.end_turn("c1", "the answer to m1")
    assert (state.turn_number, state.started_message_ids) == (1, ["m1"])
    assert isinstance(caught.value, JazzmineError)
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.row("W19")
async def test_an_unknown_status_breaks_the_conversation_for_ever(
    store: WorkingMemoryStore, harness: Harness
) -> None:
    record = json.loads(await harness.raw("c1") or b"")
    record["active_flow"] = {"flow_name": "f", "status": "of a newer version"}
    await harness.put_raw("c1", json.dumps(record).encode())
    assert (await store.get_or_create("c1", "u1")).began_after == "corruption"
    assert (await store.end_turn("c1", "it goes on")).last_agent_response == "it goes on"


@pytest.mark.row("W19")
async def test_one_field_more_and_the_whole_memory_is_deleted(
    store: WorkingMemoryStore, harness: Harness
) -> None:
    await store.end_turn("c1", "before")
    record = json.loads(await harness.raw("c1") or b"")
    await harness.put_raw("c1", json.dumps({**record, "one_more": 1}).encode())
    assert (await store.end_turn("c1", "after")).version == 2
    assert json.loads(await harness.raw("c1") or b"")["one_more"] == 1


@pytest.mark.row("W19")
async def test_what_cannot_be_read_is_deleted(store: WorkingMemoryStore, harness: Harness) -> None:
    await harness.put_raw("c1", b'{"the only copy": ')
    assert await store.get("c1") is None
    assert [one.data for one in await store.quarantined("c1")] == [b'{"the only copy": ']


@pytest.mark.row("W16")
async def test_deleting_takes_the_lock_of_another_worker(store: WorkingMemoryStore, harness: Harness) -> None:
    other = await harness.make(wait=0.01)
    async with store.turn("c1"):
        await other.delete("c1")
        with pytest.raises(LockTimeoutError):
            async with other.turn("c1"):
                pytest.fail("two turns at once")


@pytest.mark.row("W21")
async def test_what_was_read_is_the_live_object(store: WorkingMemoryStore) -> None:
    state = await store.get("c1")
    assert state is not None
    state.last_agent_response = "never saved"
    again = await store.get("c1")
    assert again is not None
    assert again.last_agent_response == ""


@pytest.mark.row("W21")
async def test_locks_of_conversations_are_never_let_go(harness: Harness) -> None:
    store: Any = await harness.make()
    for number in range(100):
        async with store.turn(f"c{number}"):
            pass
    assert store.locks == 0


@pytest.mark.row("W3")
async def test_a_result_that_is_no_json_stops_every_later_save(store: WorkingMemoryStore) -> None:
    state = await store.get("c1")
    assert state is not None
    state.started_message_ids.append(object())  # type: ignore[arg-type]
    with pytest.raises(JazzmineError, match="cannot be stored"):
        await store.save(state)
    assert (await store.end_turn("c1", "it goes on")).last_agent_response == "it goes on"


@pytest.mark.row("W6", "W14")
async def test_a_slot_filled_during_a_confirmation_is_a_way_around_it(store: WorkingMemoryStore) -> None:
    from jazzmine_dspy.memory.working import ActiveFlowState, PendingConfirmation

    await store.start_flow("c1", ActiveFlowState(flow_name="pay"))
    await store.register_slots("c1", [SlotState(name="amount")])
    await store.collect_slot("c1", "amount", 5)
    asked = PendingConfirmation(action_description="Pay?", action_payload={"amount": 5})
    await store.request_confirmation("c1", asked)
    assert (await store.collect_slot("c1", "amount", 500)).status == "awaiting_confirmation"


@pytest.mark.row("W13")
async def test_a_turn_that_ends_early_stays_open(store: WorkingMemoryStore) -> None:
    async def answer() -> str:
        async with store.turn("c1"):
            await store.begin_turn("c1", TurnCache(message_id="m1"))
            return "blocked"

    assert await answer() == "blocked"
    # The next message does not find it in its way.
    assert (await store.begin_turn("c1", TurnCache(message_id="m2"))).turn_number == 2
