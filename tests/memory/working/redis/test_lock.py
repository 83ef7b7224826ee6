"""The lock of a turn, as it lies in a real server: who has it, for how long, and that nobody else ends or renews it."""

from __future__ import annotations

import inspect
import statistics
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, RedisWorkingMemoryStore
from jazzmine_dspy.memory.working.backend import Grant
from jazzmine_dspy.memory.working.in_process import InProcessBackend
from jazzmine_dspy.memory.working.turns import FIRST_PAUSE, LONGEST_PAUSE
from jazzmine_dspy.models.errors import JazzmineError
from skipping_time import SkippingLoop

pytestmark = pytest.mark.row("W17")


def _key(harness: Any) -> str:
    return str(harness.key("c", "lock"))


async def test_a_turn_is_a_key_with_its_token_that_ends_after_the_lease(harness: Any) -> None:
    backend = (await harness.make(lease=7.0)).backend
    assert await backend.acquire("c", "a")
    assert await harness.client.get(_key(harness)) == b"a"
    assert 6000 < await harness.client.pttl(_key(harness)) <= 7000


async def test_a_key_that_another_has_is_left_as_it_is(harness: Any) -> None:
    backend = (await harness.make(lease=7.0)).backend
    await harness.client.set(_key(harness), "another", px=3000)
    assert await backend.acquire("c", "a") is None
    assert await harness.client.get(_key(harness)) == b"another"
    assert 0 < await harness.client.pttl(_key(harness)) <= 3000


async def test_every_turn_has_a_token_of_its_own(harness: Any) -> None:
    stores = [await harness.make() for _ in range(2)]
    tokens = []
    for store in (*stores, stores[0]):
        async with store.turn("c"):
            tokens.append(await harness.client.get(_key(harness)))
        assert await harness.client.get(_key(harness)) is None
    assert len(set(tokens)) == 3
    assert all(len(token) == 32 and int(token, 16) for token in tokens)


async def test_a_turn_that_lost_the_lock_does_not_end_the_next_one(harness: Any) -> None:
    backend = (await harness.make()).backend
    grant = await backend.acquire("c", "a")
    await backend.create("c", b"{}", fence=grant.fence)
    await harness.client.set(_key(harness), "another", px=5000)
    assert not await backend.release("c", "a")
    assert await harness.client.get(_key(harness)) == b"another"
    # Nor does one whose last write ends it.
    told = {"expected": 0, "fence": grant.fence, "write_id": "a:1"}
    assert await backend.write("c", b"x", **told, release="a") == 1
    assert await harness.client.get(_key(harness)) == b"another"


async def test_a_turn_that_lost_the_lock_does_not_renew_that_of_the_next_one(harness: Any) -> None:
    backend = (await harness.make(lease=60.0)).backend
    grant = await backend.acquire("c", "a")
    await harness.client.set(_key(harness), "another", px=5000)
    assert not await backend.renew("c", "a", grant.fence)
    assert await harness.client.get(_key(harness)) == b"another"
    assert await harness.client.pttl(_key(harness)) <= 5000


async def test_renewal_holds_the_lock_for_another_lease(harness: Any) -> None:
    backend = (await harness.make(lease=60.0)).backend
    grant = await backend.acquire("c", "a")
    await harness.client.pexpire(_key(harness), 1000)
    assert await backend.renew("c", "a", grant.fence)
    assert 59_000 < await harness.client.pttl(_key(harness)) <= 60_000


async def test_a_turn_is_held_for_15_seconds_unless_told_otherwise(harness: Any) -> None:
    store = RedisWorkingMemoryStore(harness.url, prefix=harness.prefix)
    async with store.turn("c"):
        assert 14_000 < await harness.client.pttl(_key(harness)) <= 15_000
    assert store.backend.lease == 15.0
    await store.close()


async def test_waiting_for_too_long_is_an_error_of_both_kinds(harness: Any) -> None:
    await harness.client.set(_key(harness), "another", px=60_000)
    store = await harness.make(wait=0.05)
    with pytest.raises(LockTimeoutError) as caught:
        async with store.turn("c"):
            pytest.fail("two turns at once")
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, JazzmineError)
    assert "'c'" in str(caught.value)


class Held(InProcessBackend):
    """A backend whose turns another one always has."""

    def __init__(self, now: Any) -> None:
        super().__init__()
        self.now = now
        self.asked: list[float] = []

    async def acquire(self, conversation_id: str, token: str) -> Grant | None:
        self.asked.append(self.now())
        return None


def _waited(seed: int | None = 1, **options: Any) -> tuple[list[float], float]:
    """The pauses between the tries for a turn, and when it was given up."""
    loop = SkippingLoop()
    backend = Held(loop.time)

    async def ask() -> None:
        store = InMemoryWorkingMemoryStore(backend=backend, seed=seed, **options)
        with pytest.raises(TimeoutError):
            async with store.turn("c"):
                pytest.fail("two turns at once")

    loop.run_until_complete(ask())
    ended = loop.time()
    loop.close()
    return [later - earlier for earlier, later in zip(backend.asked, backend.asked[1:], strict=False)], ended


def test_a_turn_is_waited_for_15_seconds_unless_told_otherwise() -> None:
    assert _waited()[1] == pytest.approx(15.0)
    assert inspect.signature(RedisWorkingMemoryStore).parameters["wait"].default == 15.0


def test_pauses_grow_by_a_factor_up_to_the_longest_each_spread_by_chance() -> None:
    waits = [_waited(seed, wait=2.0)[0] for seed in range(300)]
    for number in range(12):
        pauses = [wait[number] for wait in waits]
        expected = min(FIRST_PAUSE * 1.6**number, LONGEST_PAUSE)
        assert statistics.mean(pauses) == pytest.approx(expected, rel=0.08)
        assert min(pauses) < 0.6 * expected < 1.4 * expected < max(pauses)
