"""Waiting for a turn that another worker has: how often it is asked for, and when it is given up."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.memory.working.backend import Grant
from jazzmine_dspy.memory.working.in_process import InProcessBackend
from jazzmine_dspy.memory.working.turns import FIRST_PAUSE, LONGEST_PAUSE
from skipping_time import SkippingLoop


class Asked(InProcessBackend):
    """A backend that notes when a turn is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def acquire(self, conversation_id: str, token: str) -> Grant | None:
        self.times.append(asyncio.get_running_loop().time())
        return await super().acquire(conversation_id, token)


def tries(seed: int, wait: float) -> list[float]:
    """When a turn is asked for that another one has, from the first time on, and when it is given up."""
    loop, backend = SkippingLoop(), Asked()

    async def ask() -> None:
        assert await backend.acquire("c1", "another")
        backend.times.clear()
        store = InMemoryWorkingMemoryStore(backend=backend, wait=wait, seed=seed)
        with pytest.raises(LockTimeoutError):
            async with store.turn("c1"):
                pytest.fail("two turns at once")
        backend.times.append(loop.time())
        await store.close()

    loop.run_until_complete(ask())
    loop.close()
    return backend.times


@pytest.mark.row("W16", "W17")
def test_waiting_backs_off_with_jitter_and_ends_in_its_time() -> None:
    times = [at for at in tries(1, 2.0) if at < 2.0]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert all(0.5 * FIRST_PAUSE <= pause <= 1.5 * LONGEST_PAUSE + 1e-9 for pause in pauses)
    assert max(pauses[:3]) < min(pauses[9:])
    assert 20 < len(pauses) < 50
    assert tries(1, 2.0)[-1] == pytest.approx(2.0)


@pytest.mark.row("W17")
def test_tries_of_two_stores_are_not_in_step() -> None:
    assert tries(1, 1.0) == tries(1, 1.0)
    # The first try is at once, the last one when the time is over.
    assert set(tries(1, 1.0)) & set(tries(2, 1.0)) <= {0.0, 1.0}


async def test_of_one_store_only_one_task_asks_the_backend() -> None:
    backend = Asked()
    assert await backend.acquire("c1", "another")
    backend.times.clear()
    store = InMemoryWorkingMemoryStore(backend=backend, wait=0.05)

    async def turn() -> None:
        async with store.turn("c1"):
            pytest.fail("two turns at once")

    ended = await asyncio.gather(*(turn() for _ in range(20)), return_exceptions=True)
    assert all(isinstance(one, LockTimeoutError) for one in ended)
    assert len(backend.times) < 25
