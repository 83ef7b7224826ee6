"""The in-process store: bounded, shared by several stores of a process, and as strict as the others."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from jazzmine_dspy.memory.errors import StaleStateError, TurnLostError
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, WorkingMemoryStore
from jazzmine_dspy.memory.working.backend import Presence
from jazzmine_dspy.memory.working.in_process import InProcessBackend


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backend(clock: Clock) -> InProcessBackend:
    return InProcessBackend(ttl=100.0, remember=1_000.0, monotonic=clock, clock=clock)


def test_it_is_a_store() -> None:
    assert isinstance(InMemoryWorkingMemoryStore(), WorkingMemoryStore)


def test_it_needs_no_server_and_none_of_its_libraries() -> None:
    code = (
        "import sys, jazzmine_dspy.memory.working as w; w.InMemoryWorkingMemoryStore();"
        "bad = {'redis', 'sqlalchemy', 'pytest', 'dspy'} & set(sys.modules); sys.exit(', '.join(bad) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


async def test_stores_share_a_backend_that_is_still_empty(backend: InProcessBackend) -> None:
    one, other = (InMemoryWorkingMemoryStore(backend=backend) for _ in range(2))
    await one.get_or_create("c1", "ann")
    assert (await other.get_or_create("c1", "bob")).user_id == "ann"


async def test_stores_without_one_share_nothing() -> None:
    one, other = InMemoryWorkingMemoryStore(), InMemoryWorkingMemoryStore()
    await one.get_or_create("c1", "ann")
    assert await other.get("c1") is None


@pytest.mark.row("W20", "W21")
async def test_conversations_that_are_over_do_not_pile_up(clock: Clock, backend: InProcessBackend) -> None:
    store = InMemoryWorkingMemoryStore(backend=backend)
    for number in range(500):
        clock.now += 10.0
        async with store.turn(f"c{number}"):
            await store.get_or_create(f"c{number}", "u1")
        async with store.turn(f"never begun {number}"):
            pass
        await store.get(f"never seen {number}")
        await store.presence(f"never seen {number}")
    # A conversation is known for 1,100 s, and swept away 100 s later: 110 to 120 of each kind.
    assert len(backend) <= 2 * 121
    clock.now += 5_000.0
    assert await store.conversations() == []
    assert len(backend) == 0


async def test_a_record_set_aside_is_not_swept_away(clock: Clock, backend: InProcessBackend) -> None:
    store = InMemoryWorkingMemoryStore(backend=backend)
    await store.get_or_create("c1", "u1")
    await store.set_aside("c1", cause="by hand")
    clock.now += 1e9
    assert await store.conversations() == ["c1"]
    [aside] = await store.aside("c1")
    await store.restore("c1", aside.id)
    assert await store.presence("c1") is Presence.PRESENT


async def test_a_turn_under_way_is_not_swept_away(clock: Clock, backend: InProcessBackend) -> None:
    store = InMemoryWorkingMemoryStore(backend=backend)
    hasty = InMemoryWorkingMemoryStore(backend=backend, wait=0.0)
    async with store.turn("c1") as fence:
        clock.now += 1e9
        await store.conversations()
        with pytest.raises(TimeoutError):
            async with hasty.turn("c1"):
                pytest.fail("two turns at once")
    async with hasty.turn("c1") as next_fence:
        assert next_fence == fence + 1


@pytest.mark.row("W18")
async def test_a_turn_that_hangs_can_be_ended_from_outside(backend: InProcessBackend) -> None:
    store, other = (InMemoryWorkingMemoryStore(backend=backend) for _ in range(2))
    async with store.turn("c1"):
        late = await store.get_or_create("c1", "u1")
        assert backend.lapse("c1")
        await other.end_turn("c1", "in time")
        with pytest.raises(TurnLostError):
            await store.save(late)
    assert not backend.lapse("c1")
    assert not backend.lapse("c2")


async def test_a_write_repeated_is_done_once_and_answered_alike(backend: InProcessBackend) -> None:
    grant = await backend.acquire("c1", "t")
    assert grant is not None
    await backend.create("c1", b"0", fence=grant.fence)
    for _ in range(3):
        version = await backend.write("c1", b"1", expected=0, fence=grant.fence, write_id="w1")
        assert version == 1
    with pytest.raises(StaleStateError):
        await backend.write("c1", b"2", expected=0, fence=grant.fence, write_id="w2")
    again = await backend.acquire("c1", "t")
    assert again is not None
    assert again.fence == grant.fence
    assert await backend.acquire("c1", "other") is None


async def test_numbers_of_turns_outlive_a_conversation_that_never_had_a_record(
    clock: Clock, backend: InProcessBackend
) -> None:
    first = await backend.acquire("c1", "paused for long")
    assert first is not None
    backend.lapse("c1")
    clock.now += 900.0
    await backend.conversations(limit=1)
    second = await backend.acquire("c1", "newer")
    assert second is not None
    assert second.fence > first.fence


async def test_only_the_record_that_was_found_is_set_aside(backend: InProcessBackend) -> None:
    found = await backend.create("c1", b"broken", fence=None)
    grant = await backend.acquire("c1", "t")
    assert grant is not None
    await backend.write("c1", b"mended", expected=0, fence=grant.fence, write_id="w1")
    assert await backend.set_aside("c1", cause="broken", found=found) is None
    assert await backend.aside("c1") == []
    kept = await backend.read("c1")
    assert kept is not None
    assert kept.data == b"mended"


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
    assert len(await store.conversations(limit=2_000)) == 1_000
    assert store.locks == 0
