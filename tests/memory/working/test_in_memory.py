"""The store in memory: bounded, shared by several stores of a process, and as strict as the others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, Presence
from jazzmine_dspy.memory.working.in_memory import StoredConversation
from jazzmine_dspy.memory.working.turn_lock import Record


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def over(
    clock: Clock, conversations: dict[str, StoredConversation], **options: Any
) -> InMemoryWorkingMemoryStore:
    shared = {"conversations": conversations, "monotonic": clock, "ttl": 100.0, "remember": 1_000.0}
    return InMemoryWorkingMemoryStore(**shared, **options)


def test_it_needs_no_server_and_none_of_its_libraries() -> None:
    code = (
        "import sys, jazzmine_dspy.memory.working as w; w.InMemoryWorkingMemoryStore();"
        "bad = {'redis', 'sqlalchemy', 'pytest', 'dspy'} & set(sys.modules); sys.exit(', '.join(bad) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


async def test_stores_share_conversations_or_nothing(clock: Clock) -> None:
    conversations: dict[str, StoredConversation] = {}
    one, other = over(clock, conversations), over(clock, conversations)
    await one.get_or_create("c1", "ann")
    assert (await other.get_or_create("c1", "bob")).user_id == "ann"
    assert await InMemoryWorkingMemoryStore().get("c1") is None


@pytest.mark.row("W20", "W21")
async def test_conversations_that_are_over_do_not_pile_up(clock: Clock) -> None:
    conversations: dict[str, StoredConversation] = {}
    store = over(clock, conversations)
    for number in range(500):
        clock.now += 10.0
        async with store.turn(f"c{number}"):
            await store.get_or_create(f"c{number}", "u1")
        async with store.turn(f"never begun {number}"):
            pass
        await store.get(f"never seen {number}")
        await store.presence(f"never seen {number}")
    # A conversation is known for 1,100 s and swept away within 100 s: 110 to 120 of each kind, and the newest lookups.
    assert len(conversations) <= 2 * 121 + 12
    clock.now += 5_000.0
    await store.get("another")
    assert set(conversations) == {"another"}


async def test_turns_under_way_and_records_moved_aside_are_not_swept_away(clock: Clock) -> None:
    conversations: dict[str, StoredConversation] = {}
    store, hasty = over(clock, conversations), over(clock, conversations, wait=0.0)
    await store.get_or_create("broken", "u1")
    conversations["broken"].record = Record(b"broken", 0)
    assert await store.get("broken") is None
    async with store.turn("c1") as fence:
        clock.now += 1e9
        await store.get("another")
        with pytest.raises(TimeoutError):
            async with hasty.turn("c1"):
                pytest.fail("two turns at once")
    async with hasty.turn("c1") as next_fence:
        assert next_fence == fence + 1
    assert [entry.data for entry in await store.quarantined("broken")] == [b"broken"]


async def test_numbers_of_turns_outlive_a_conversation_that_never_had_a_record(clock: Clock) -> None:
    conversations: dict[str, StoredConversation] = {}
    store = over(clock, conversations)
    async with store.turn("c1") as first:
        pass
    clock.now += 900.0
    await store.get("another")
    async with store.turn("c1") as second:
        assert second > first
    assert await store.presence("c1") is Presence.ABSENT


@pytest.mark.row("W16", "W21")
async def test_a_thousand_conversations_with_turns_of_their_own_at_once() -> None:
    store = InMemoryWorkingMemoryStore()

    async def talk(name: str) -> None:
        await store.get_or_create(name, "u1")
        for number in range(3):
            async with store.turn(name):
                state = await store.get(name)
                assert state is not None
                assert state.last_agent_response == (str(number - 1) if number else "")
                await asyncio.sleep(0)
                await store.end_turn(name, str(number))

    await asyncio.gather(*(talk(f"c{number}") for number in range(1_000)))
    assert [(await store.get_or_create(f"c{n}", "u1")).version for n in range(1_000)] == [3] * 1_000
    assert store.locks == 0
