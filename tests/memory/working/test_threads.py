"""Event loops in several threads over one store in memory."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore

pytestmark = pytest.mark.row("A7", "W16")


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads change places all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hurried")
def test_turns_of_all_threads_run_one_at_a_time() -> None:
    store = InMemoryWorkingMemoryStore(wait=60.0)
    inside = 0
    fences: list[int] = []

    async def turn() -> None:
        nonlocal inside
        async with store.turn("c") as fence:
            inside += 1
            fences.append(fence)
            state = await store.get_or_create("c", "u1")
            await asyncio.sleep(0)
            assert inside == 1
            state.last_agent_response = str(int(state.last_agent_response or 0) + 1)
            await store.save(state)
            inside -= 1

    async def turns() -> None:
        await asyncio.gather(*(turn() for _ in range(10)))
        await store.close()

    with ThreadPoolExecutor(6) as threads:
        for _ in range(5):
            list(threads.map(lambda _: asyncio.run(turns()), range(6)))
    state = asyncio.run(store.get("c"))
    assert state is not None
    assert (state.last_agent_response, state.version) == ("300", 300)
    assert fences == sorted(set(fences))
    assert store.locks == 0


@pytest.mark.usefixtures("hurried")
def test_conversations_of_many_threads_do_not_mix() -> None:
    store = InMemoryWorkingMemoryStore(ttl=0.001, remember=0.001, wait=60.0)

    async def talk(name: str) -> int:
        for number in range(50):
            async with store.turn(f"{name} {number}"):
                state = await store.get_or_create(f"{name} {number}", name)
                assert state.user_id == name
        return 1

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(lambda n: asyncio.run(talk(f"u{n}")), range(6))) == 6


def test_a_turn_of_another_thread_is_waited_for_and_no_longer_than_asked() -> None:
    store = InMemoryWorkingMemoryStore(wait=0.2)

    async def second() -> None:
        async with store.turn("c"):
            pytest.fail("two turns at once")

    async def first() -> None:
        async with store.turn("c"):
            with pytest.raises(LockTimeoutError):
                await asyncio.to_thread(asyncio.run, second())
        # `to_thread` takes the context along, with the turn in it.
        await asyncio.to_thread(asyncio.run, again())

    async def again() -> None:
        async with store.turn("c") as fence:
            assert fence == 2

    asyncio.run(first())
