"""Turns over a store that fails, forgets and is slow: what the suite cannot bring about from outside."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working import ActiveFlowState, InMemoryWorkingMemoryStore, TurnCache
from jazzmine_dspy.memory.working.in_memory import StoredConversation
from jazzmine_dspy.memory.working.turn_lock import Record, _turns
from jazzmine_dspy.models.errors import MemoryUnavailableError
from trying_store import Trying

DOWN = MemoryUnavailableError("The store does not answer", remedy="Start it.")


# --- renewal ------------------------------------------------------------------------------------------------


@pytest.mark.row("W16")
async def test_a_turn_is_renewed_while_it_lasts_and_no_longer() -> None:
    store = Trying(lease=0.003)
    store.reached["renew"] = renewed = asyncio.Event()
    async with store.turn("c1"):
        for _ in range(3):
            await asyncio.wait_for(renewed.wait(), 5)
            renewed.clear()
    at_the_end = store.calls["renew"]
    await store.close()
    # Longer than several spans of renewing.
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(renewed.wait(), 0.02)
    assert store.calls["renew"] <= at_the_end + 1


@pytest.mark.row("W16")
@pytest.mark.parametrize("failure", [DOWN, RuntimeError("a fault of the backend")], ids=["down", "fault"])
async def test_a_renewal_that_fails_is_tried_again(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store = Trying(lease=0.003)
    store.before["renew"] = [failure] * 3
    store.reached["renew"] = renewed = asyncio.Event()
    async with store.turn("c1"):
        await asyncio.wait_for(renewed.wait(), 5)
    assert sum("was not renewed" in message for message in caplog.messages) == 3
    assert "a fault of the backend" not in caplog.text


@pytest.mark.row("W18")
async def test_a_turn_that_is_lost_is_not_renewed_any_more(caplog: pytest.LogCaptureFixture) -> None:
    store = Trying(lease=0.003)
    store.reached["renew"] = renewed = asyncio.Event()
    async with store.turn("c1"):
        store.conversations["c1"].token = "another"
        await asyncio.wait_for(renewed.wait(), 5)
        renewed.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(renewed.wait(), 0.02)
    assert sum("was lost" in message for message in caplog.messages) == 1


# --- answers that are lost ----------------------------------------------------------------------------------


async def test_a_turn_granted_with_the_answer_lost_is_given_back() -> None:
    store = Trying()
    store.after["begin"] = [DOWN]
    with pytest.raises(MemoryUnavailableError):
        async with store.turn("c1"):
            pytest.fail("it was not heard of")
    await store.close()
    assert await store.free()
    assert store.locks == 0


async def test_a_turn_granted_to_a_task_that_is_gone_is_given_back() -> None:
    store = Trying()
    await store.get_or_create("c1", "u1")
    reached, let_go = store.hold("begin")
    task = asyncio.create_task(store.end_turn("c1", "hello"))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    let_go.set()
    await store.close()
    assert await store.free()
    assert store.locks == 0


async def test_a_write_with_its_answer_lost_is_seen_by_the_next_read_in_the_turn() -> None:
    store = Trying()
    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
        store.after["write"] = [DOWN]
        with pytest.raises(MemoryUnavailableError):
            await store.end_turn("c1", "written all the same")
        state = await store.get("c1")
        assert state is not None
        assert (state.last_agent_response, state.version) == ("written all the same", 1)
        assert (await store.end_turn("c1", "next")).version == 2


async def test_a_write_that_was_not_done_is_not_seen() -> None:
    store = Trying()
    async with store.turn("c1"):
        before = await store.get_or_create("c1", "u1")
        store.before["write"] = [DOWN]
        with pytest.raises(MemoryUnavailableError):
            await store.end_turn("c1", "never written")
        assert await store.get("c1") == before


async def test_a_cancelled_write_leaves_the_turn_with_what_is_so() -> None:
    store = Trying()
    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
        reached, let_go = store.hold("write")
        task = asyncio.create_task(store.end_turn("c1", "cancelled"))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        let_go.set()
        state = await store.get("c1")
        assert state is not None
        assert state.last_agent_response == "cancelled"
        assert (await store.end_turn("c1", "next")).version == 2


async def test_a_release_that_fails_is_logged_and_hides_no_error(caplog: pytest.LogCaptureFixture) -> None:
    store = Trying()
    store.before["end"] = [DOWN, DOWN]
    async with store.turn("c1"):
        pass
    assert "ends with its lease" in caplog.text
    store.conversations["c1"].token = ""
    with pytest.raises(ZeroDivisionError):
        async with store.turn("c1"):
            raise ZeroDivisionError
    assert store.locks == 0


async def test_a_turn_cancelled_while_it_is_given_back_is_given_back() -> None:
    store = Trying()
    reached, let_go = store.hold("end", before=True)

    async def turn() -> None:
        async with store.turn("c1"):
            pass

    task = asyncio.create_task(turn())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    let_go.set()
    await store.close()
    assert await store.free()


# --- tasks of one turn --------------------------------------------------------------------------------------


@pytest.mark.row("W16")
async def test_a_turn_is_not_over_while_a_task_of_it_writes() -> None:
    store = Trying()
    reached, let_go = store.hold("write", before=True)
    writing: list[asyncio.Task[Any]] = []

    async def turn() -> None:
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1")
            writing.append(asyncio.create_task(store.end_turn("c1", "by a task")))
            await reached.wait()

    leaving = asyncio.create_task(turn())
    await reached.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not await store.free()
    let_go.set()
    await leaving
    assert (await writing[0]).last_agent_response == "by a task"
    assert await store.free()


async def test_a_read_beside_a_write_does_not_bring_back_what_was_before() -> None:
    store = Trying()
    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
        wrote, let_write = store.hold("write", before=True)
        _, let_read = store.hold("read")
        writing = asyncio.create_task(store.end_turn("c1", "written"))
        await wrote.wait()
        reading = asyncio.create_task(store.get("c1"))
        for _ in range(5):
            await asyncio.sleep(0)
        let_write.set()
        await writing
        let_read.set()
        await reading
        assert (await store.end_turn("c1", "next")).version == 2


@pytest.mark.row("W19")
async def test_a_record_mended_while_it_is_moved_aside_stays() -> None:
    class Mending(Trying):
        async def _quarantine(self, conversation_id: str, record: Record, cause: str) -> None:
            stored = self.conversations[conversation_id]
            self._put(stored, good)
            await super()._quarantine(conversation_id, record, cause)

    store = Mending()
    await store.get_or_create("c1", "ann")
    good = store.conversations["c1"].record.data  # type: ignore[union-attr, assignment]
    store.conversations["c1"].record = Record(b"broken", 0)
    assert (await store.get_or_create("c1", "bob")).user_id == "ann"
    assert await store.quarantined("c1") == []


# --- trips to the backend -----------------------------------------------------------------------------------


async def test_a_turn_reads_once_whatever_is_done_in_it() -> None:
    store = Trying()
    await store.get_or_create("c1", "u1")
    store.calls.clear()
    async with store.turn("c1"):
        await store.begin_turn("c1", TurnCache(message_id="m1"))
        await store.start_flow("c1", ActiveFlowState(flow_name="track"))
        await store.get("c1")
        await store.end_turn("c1", "hello")
    # Beginning the turn reads the record.
    assert store.calls == {"begin": 1, "write": 3, "end": 1}


async def test_an_operation_by_itself_is_a_turn() -> None:
    store = Trying()
    await store.get_or_create("c1", "u1")
    store.calls.clear()
    await store.end_turn("c1", "hello")
    assert store.calls == {"begin": 1, "write": 1, "end": 1}
    assert await store.free()


async def test_the_first_turn_of_a_conversation_does_not_ask_twice_whether_it_is_there() -> None:
    store = Trying()
    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
    assert store.calls == {"begin": 1, "presence": 1, "create": 1, "end": 1}


# --- what is left behind ------------------------------------------------------------------------------------


async def test_closing_waits_for_what_is_under_way() -> None:
    store = Trying()
    store.after["begin"] = [DOWN]
    with pytest.raises(MemoryUnavailableError):
        await store.end_turn("c1", "it was not heard of")
    assert store.calls["end"] == 0
    await store.close()
    assert store.calls["end"] == 1


@pytest.mark.row("W21")
async def test_no_gate_outlives_its_turns() -> None:
    store = InMemoryWorkingMemoryStore()

    async def turn(number: int) -> None:
        async with store.turn(f"c{number % 50}"):
            await asyncio.sleep(0)
            if number % 7 == 0:
                raise ValueError("a turn that fails")

    tasks = [asyncio.create_task(turn(number)) for number in range(200)]
    await asyncio.sleep(0)
    for task in tasks[::11]:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(one) for one in ended} == {type(None), ValueError, asyncio.CancelledError}
    assert store.locks == 0


async def test_a_task_is_in_no_turn_once_its_turns_are_over() -> None:
    store = InMemoryWorkingMemoryStore()
    before = dict(_turns.get())
    async with store.turn("a"), store.turn("b"):
        assert len(_turns.get()) == len(before) + 2
    assert dict(_turns.get()) == before


async def test_a_change_that_fails_half_way_changes_nothing() -> None:
    store = InMemoryWorkingMemoryStore()

    def change(state: Any) -> None:
        state.started_message_ids.append("half")
        raise ZeroDivisionError

    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
        before = await store.end_turn("c1", "before")
        with pytest.raises(ZeroDivisionError):
            await store.operate("c1", change)
        assert await store.get("c1") == before


def test_leaving_a_turn_is_logged_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    async def talk() -> None:
        store = InMemoryWorkingMemoryStore()
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1")
        await store.close()

    with caplog.at_level(logging.DEBUG):
        asyncio.run(talk(), debug=True)
    assert [record.message for record in caplog.records if "jazzmine" in record.name] == []


async def test_a_clock_that_fails_changes_nothing_and_leaves_no_turn() -> None:
    now = [1.0]
    store = Trying(clock=lambda: now[0] if now else [][0])
    before = await store.get_or_create("c1", "u1")
    now.clear()
    with pytest.raises(IndexError):
        await store.end_turn("c1", "never")
    with pytest.raises(IndexError):
        await store.get_or_create("c2", "u1")
    assert (await store.get("c1"), await store.get("c2")) == (before, None)
    assert await store.free()


async def test_of_one_store_only_one_task_tries_for_a_turn() -> None:
    store = Trying(wait=0.05)
    store.conversations["c1"] = StoredConversation(token="another")

    async def turn() -> None:
        async with store.turn("c1"):
            pytest.fail("two turns at once")

    ended = await asyncio.gather(*(turn() for _ in range(20)), return_exceptions=True)
    assert all(isinstance(one, LockTimeoutError) for one in ended)
    assert store.calls["begin"] < 40
