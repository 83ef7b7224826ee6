"""Connections cut, delayed, half closed, and swallowed by a proxy that counts what it did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from jazzmine_dspy.memory.working import RedisWorkingMemoryStore
from jazzmine_dspy.models.errors import MemoryUnavailableError

pytestmark = pytest.mark.chaos

FAULTS = ["cut_request", "cut_midway", "cut_reply", "half_close", "delay", "blackhole"]
SCRIPTS = ["acquire", "presence", "create", "write", "release"]


@pytest_asyncio.fixture
async def store(proxy: Any, prefix: str) -> AsyncIterator[RedisWorkingMemoryStore]:
    made = RedisWorkingMemoryStore(proxy.url, prefix=prefix, timeout=1.0, connections=2)
    # The scripts are known to the server, so that each is one request.
    await _turn(made, "before", "m0")
    proxy.done.clear()
    yield made
    await made.close()


async def _turn(store: RedisWorkingMemoryStore, conversation_id: str, message: str) -> None:
    async with store.turn(conversation_id):
        state = await store.get_or_create(conversation_id, "u1")
        state.last_agent_response += message
        await store.save(state)


@pytest.mark.row("W17", "W18")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("at", range(len(SCRIPTS)), ids=SCRIPTS)
async def test_a_turn_survives_one_fault_anywhere(store: Any, proxy: Any, fault: str, at: int) -> None:
    proxy.plan(*[""] * at, fault)
    await _turn(store, "c", "m1")
    assert proxy.done[fault] == 1
    assert not proxy.planned
    state = await store.get("c")
    assert (state.last_agent_response, state.version) == ("m1", 1)
    await _turn(store, "c", "m2")
    assert (await store.get("c")).last_agent_response == "m1m2"


@pytest.mark.row("W18")
async def test_a_write_whose_answers_are_all_lost_is_an_error_and_is_not_applied_again(
    store: Any, proxy: Any
) -> None:
    await _turn(store, "c", "m1")
    async with store.turn("c"):
        state = await store.get("c")
        state.last_agent_response += "m2"
        proxy.plan(*["cut_reply"] * 5)
        with pytest.raises(MemoryUnavailableError):
            await store.save(state)
    assert proxy.done["cut_reply"] == 5
    state = await store.get("c")
    assert (state.last_agent_response, state.version) == ("m1m2", 2)


async def test_a_turn_whose_end_is_not_heard_ends_with_its_lease(proxy: Any, prefix: str) -> None:
    store = RedisWorkingMemoryStore(proxy.url, prefix=prefix, timeout=1.0, lease=0.3)
    await _turn(store, "c", "m1")
    async with store.turn("c"):
        proxy.plan(*["cut_request"] * 5)
    assert proxy.done["cut_request"] == 5
    await _turn(store, "c", "m2")
    assert (await store.get("c")).last_agent_response == "m1m2"
    await store.close()


@pytest.mark.row("W17")
async def test_a_renewal_that_fails_is_tried_again(proxy: Any, prefix: str) -> None:
    store = RedisWorkingMemoryStore(proxy.url, prefix=prefix, timeout=1.0, lease=0.3)
    other = RedisWorkingMemoryStore(proxy.url, prefix=prefix, wait=0.0)
    async with store.turn("c"):
        proxy.plan("cut_request", "cut_reply")
        await proxy.struck("cut_reply")
        with pytest.raises(TimeoutError):
            async with other.turn("c"):
                pytest.fail("the turn was lost")
    await store.close()
    await other.close()


@pytest.mark.parametrize("fault", ["blackhole", "cut_request"])
async def test_a_server_that_cannot_be_reached_is_an_error_within_the_deadline(
    store: Any, proxy: Any, fault: str
) -> None:
    loop = asyncio.get_running_loop()
    proxy.rates = {fault: 1.0}
    began = loop.time()
    with pytest.raises(MemoryUnavailableError, match="127"):
        await _turn(store, "c", "m1")
    assert loop.time() - began < 2.0
    assert proxy.done[fault] >= 2
    proxy.rates = {}
    await _turn(store, "c", "m2")
    assert (await store.get("c")).last_agent_response == "m2"


async def test_a_server_that_went_away_and_came_back(store: Any, proxy: Any) -> None:
    await _turn(store, "c", "m1")
    await proxy.shut()
    with pytest.raises(MemoryUnavailableError, match="does not answer"):
        await _turn(store, "c", "m2")
    async with proxy:
        await _turn(store, "c", "m3")
        assert (await store.get("c")).last_agent_response == "m1m3"
    assert store.locks == 0
