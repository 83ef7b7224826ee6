"""The lock of a turn, as it lies in a real server: who has it, for how long, and that nobody else ends or renews it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working import RedisWorkingMemoryStore
from jazzmine_dspy.models.errors import JazzmineError

pytestmark = pytest.mark.row("W17")


def _key(harness: Any) -> str:
    return str(harness.key("c", "lock"))


async def test_a_turn_is_a_key_with_its_token_that_ends_after_the_lease(harness: Any) -> None:
    store = await harness.make(lease=7.0)
    assert await store._begin("c", "a")
    assert await harness.client.get(_key(harness)) == b"a"
    assert 6000 < await harness.client.pttl(_key(harness)) <= 7000


async def test_a_key_that_another_has_is_left_as_it_is(harness: Any) -> None:
    store = await harness.make(lease=7.0)
    await harness.client.set(_key(harness), "another", px=3000)
    assert await store._begin("c", "a") is None
    assert await harness.client.get(_key(harness)) == b"another"
    assert 0 < await harness.client.pttl(_key(harness)) <= 3000


async def test_a_turn_begun_again_after_a_lost_answer_is_granted_again(harness: Any) -> None:
    store = await harness.make()
    first, again = await store._begin("c", "a"), await store._begin("c", "a")
    assert (first.fence, again.fence) == (1, 1)
    assert await store._begin("c", "b") is None
    await store._end("c", "a")
    assert (await store._begin("c", "b")).fence == 2


async def test_every_turn_has_a_token_of_its_own(harness: Any) -> None:
    stores = [await harness.make() for _ in range(2)]
    tokens = []
    for store in (*stores, stores[0]):
        async with store.turn("c"):
            tokens.append(await harness.client.get(_key(harness)))
        assert await harness.client.get(_key(harness)) is None
    assert len(set(tokens)) == 3
    assert all(len(token) == 32 and int(token, 16) for token in tokens)


async def test_a_turn_that_lost_the_lock_neither_ends_nor_renews_that_of_the_next_one(harness: Any) -> None:
    store = await harness.make(lease=60.0)
    turn = await store._begin("c", "a")
    await harness.client.set(_key(harness), "another", px=5000)
    await store._end("c", "a")
    assert not await store._renew(turn)
    assert await harness.client.get(_key(harness)) == b"another"
    assert await harness.client.pttl(_key(harness)) <= 5000


async def test_renewal_holds_the_lock_for_another_lease_and_takes_no_free_one(harness: Any) -> None:
    store = await harness.make(lease=60.0)
    turn = await store._begin("c", "a")
    await harness.client.pexpire(_key(harness), 1000)
    assert await store._renew(turn)
    assert 59_000 < await harness.client.pttl(_key(harness)) <= 60_000
    await store._end("c", "a")
    assert not await store._renew(turn)
    assert await harness.client.get(_key(harness)) is None


async def test_a_turn_is_held_and_waited_for_15_seconds_unless_told_otherwise(harness: Any) -> None:
    store = RedisWorkingMemoryStore(harness.url, prefix=harness.prefix)
    async with store.turn("c"):
        assert 14_000 < await harness.client.pttl(_key(harness)) <= 15_000
    assert (store.lease, store._wait) == (15.0, 15.0)
    assert inspect.signature(RedisWorkingMemoryStore).parameters["lease"].default == 15.0
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
