"""What a turn leaves behind: no gate, no context, nothing in an event loop that is gone."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, WorkingMemory
from jazzmine_dspy.memory.working.codec import JsonCodec
from jazzmine_dspy.memory.working.in_process import InProcessBackend
from jazzmine_dspy.memory.working.lease import held
from jazzmine_dspy.models.errors import InputError


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
    before = dict(held.get())
    async with store.turn("a"), store.turn("b"):
        assert len(held.get()) == len(before) + 2
    assert dict(held.get()) == before


async def test_a_change_that_fails_half_way_changes_nothing() -> None:
    store = InMemoryWorkingMemoryStore()

    def change(state: Any) -> None:
        state.begun.append("half")
        raise ZeroDivisionError

    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
        before = await store.end_turn("c1", "before")
        with pytest.raises(ZeroDivisionError):
            await store.operate("c1", change)
        assert await store.get("c1") == before


def test_a_store_goes_from_one_event_loop_to_the_next() -> None:
    store = InMemoryWorkingMemoryStore()

    async def together() -> None:
        await store.get_or_create("c1", "u1")
        await asyncio.gather(*(store.end_turn("c1", "hello") for _ in range(5)))

    for _ in range(3):
        asyncio.run(together())
    state = asyncio.run(store.get("c1"))
    assert state is not None
    assert state.version == 15
    asyncio.run(store.close())


def test_a_turn_left_open_by_a_loop_that_was_closed_is_over(caplog: pytest.LogCaptureFixture) -> None:
    store = InMemoryWorkingMemoryStore(wait=0.5)

    async def stay() -> None:
        async with store.turn("c1"):
            await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    left = loop.create_task(stay())
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert store.locks == 1
    asyncio.run(store.get_or_create("c1", "u1"))
    assert asyncio.run(store.end_turn("c1", "free")).last_agent_response == "free"
    asyncio.run(store.close())
    assert not left.done()
    # Python would complain of the task that nobody waited for, and mean this test.
    left._log_destroy_pending = False  # type: ignore[attr-defined]
    left.get_coro().close()  # type: ignore[union-attr]
    assert store.locks == 0


def test_two_event_loops_at_once_are_refused() -> None:
    store = InMemoryWorkingMemoryStore()
    loop = asyncio.new_event_loop()
    turn = store.turn("c1")
    loop.run_until_complete(turn.__aenter__())
    with pytest.raises(InputError, match="another event loop"):
        asyncio.run(store.end_turn("c1", "hello"))
    loop.run_until_complete(turn.__aexit__(None, None, None))
    loop.close()


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
    backend, now = InProcessBackend(), [1.0]
    store = InMemoryWorkingMemoryStore(backend=backend, clock=lambda: now[0] if now else [][0])
    before = await store.get_or_create("c1", "u1")
    now.clear()
    with pytest.raises(IndexError):
        await store.end_turn("c1", "never")
    with pytest.raises(IndexError):
        await store.get_or_create("c2", "u1")
    assert await store.get("c1") == before
    assert await store.get("c2") is None
    async with InMemoryWorkingMemoryStore(backend=backend, wait=0.0).turn("c1"):
        assert await store.get("c1") == before


async def test_what_was_read_back_is_not_decoded_again() -> None:
    decoded = Counter[int]()

    class Counting(JsonCodec):
        def decode(self, data: bytes | None, *, version: int, conversation_id: str) -> WorkingMemory:
            decoded[0] += 1
            return super().decode(data, version=version, conversation_id=conversation_id)

    store = InMemoryWorkingMemoryStore(codec=Counting())
    await store.get_or_create("c1", "u1")
    decoded.clear()
    async with store.turn("c1"):
        for number in range(5):
            await store.end_turn("c1", str(number))
    assert decoded[0] == 5
