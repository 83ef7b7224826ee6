"""The promises of a store of working memories, kept by the one in this process."""

from __future__ import annotations

import asyncio

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError, StaleStateError
from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    HeldSlot,
    InMemoryWorkingMemoryStore,
    WorkingMemoryStore,
)
from jazzmine_dspy.models.errors import JazzmineError


@pytest.fixture
def store() -> InMemoryWorkingMemoryStore:
    return InMemoryWorkingMemoryStore()


def test_it_is_a_store(store: InMemoryWorkingMemoryStore) -> None:
    assert isinstance(store, WorkingMemoryStore)


async def test_a_conversation_is_made_once(store: InMemoryWorkingMemoryStore) -> None:
    assert await store.get("c1") is None
    made = await store.get_or_create("c1", "ann", "support")
    again = await store.get_or_create("c1", "bob", "sales")
    assert made == again == await store.get("c1")
    assert (again.user_id, again.agent_id, again.version) == ("ann", "support", 0)


async def test_nothing_handed_out_is_what_is_kept(store: InMemoryWorkingMemoryStore) -> None:
    state = await store.get_or_create("c1", "u1")
    state.active_flow = ActiveFlowState(flow_name="f", slots={"a": HeldSlot(name="a", value=["x"])})
    saved = await store.save(state)
    state.active_flow.slots["a"].value.append("after saving")
    assert saved.active_flow is not None
    saved.active_flow.slots["a"].value.append("on what was returned")
    read = await store.get("c1")
    assert read is not None
    assert read.active_flow is not None
    read.active_flow.slots["a"].value.append("on what was read")
    kept = await store.get_or_create("c1", "u1")
    assert kept.active_flow is not None
    assert kept.active_flow.values == {"a": ["x"]}


async def test_a_stale_state_is_refused_and_changes_nothing(store: InMemoryWorkingMemoryStore) -> None:
    first = await store.get_or_create("c1", "u1")
    second = await store.get_or_create("c1", "u1")
    first.last_agent_response = "first"
    assert (await store.save(first)).version == 1
    second.last_agent_response = "second"
    with pytest.raises(StaleStateError, match="version 1, not 0"):
        await store.save(second)
    kept = await store.get("c1")
    assert kept is not None
    assert (kept.last_agent_response, kept.version) == ("first", 1)


async def test_a_deleted_conversation_does_not_come_back_by_a_late_save(
    store: InMemoryWorkingMemoryStore,
) -> None:
    state = await store.get_or_create("c1", "u1")
    assert await store.delete("c1")
    assert not await store.delete("c1")
    with pytest.raises(StaleStateError, match="is gone"):
        await store.save(state)
    assert await store.get("c1") is None


async def test_turns_of_a_conversation_run_one_after_another_in_order(
    store: InMemoryWorkingMemoryStore,
) -> None:
    log: list[str] = []

    async def turn(name: str) -> None:
        async with store.turn("c1"):
            log.append(f"{name} in")
            for _ in range(5):
                await asyncio.sleep(0)
            log.append(f"{name} out")

    await asyncio.gather(*(turn(name) for name in "abcd"))
    assert log == [f"{name} {way}" for name in "abcd" for way in ("in", "out")]


async def test_other_conversations_do_not_wait(store: InMemoryWorkingMemoryStore) -> None:
    async with store.turn("c1"), store.turn("c2"):
        assert store.locks == 2


async def test_fencing_numbers_grow(store: InMemoryWorkingMemoryStore) -> None:
    fences = []
    for name in ("c1", "c2", "c1"):
        async with store.turn(name) as fence:
            fences.append(fence)
    assert fences == [1, 1, 2]


async def test_no_lock_outlives_its_turns(store: InMemoryWorkingMemoryStore) -> None:
    async def turn(number: int) -> None:
        async with store.turn(f"c{number % 50}"):
            await asyncio.sleep(0)
            if number % 7 == 0:
                raise ValueError("a turn that fails")

    done = await asyncio.gather(*(turn(number) for number in range(200)), return_exceptions=True)
    assert sum(isinstance(one, ValueError) for one in done) == 29
    assert store.locks == 0


async def test_a_waiter_that_gives_up_leaves_no_trace(store: InMemoryWorkingMemoryStore) -> None:
    async def turn() -> None:
        async with store.turn("c1"):
            pass

    async with store.turn("c1"):
        waiting = asyncio.create_task(turn())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert store.locks == 0
    await turn()


async def test_waiting_too_long_is_a_timeout_and_an_error_of_ours() -> None:
    store = InMemoryWorkingMemoryStore(wait=0.01)

    async def turn() -> None:
        async with store.turn("c1"):
            pass

    async with store.turn("c1"):
        await turn()  # a turn within the turn is the same one
        with pytest.raises(LockTimeoutError, match=r"0\.01 s.*c1") as caught:
            await asyncio.create_task(turn())
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, JazzmineError)
    assert store.locks == 0
