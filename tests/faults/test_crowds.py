"""Many workers on one conversation, and many conversations at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis

from jazzmine_dspy.memory.working import RedisWorkingMemoryStore

pytestmark = pytest.mark.chaos


@pytest.mark.row("W16", "W17")
async def test_fifty_workers_on_one_conversation(server: Any, prefix: str) -> None:
    stores = [RedisWorkingMemoryStore(server.url, prefix=prefix, wait=60.0) for _ in range(50)]
    inside = 0
    fences: list[int] = []

    async def turn(store: RedisWorkingMemoryStore) -> None:
        nonlocal inside
        async with store.turn("c") as fence:
            inside += 1
            fences.append(fence)
            state = await store.get_or_create("c", "u1")
            assert inside == 1
            state.last_agent_response = str(int(state.last_agent_response or 0) + 1)
            await store.save(state)
            assert inside == 1
            inside -= 1

    await asyncio.gather(*(turn(store) for store in stores for _ in range(2)))
    state = await stores[0].get("c")
    assert (state.last_agent_response, state.version) == ("100", 100)
    assert fences == sorted(set(fences))
    with redis.Redis.from_url(server.url) as client:
        assert client.info("clients")["connected_clients"] >= 50
    await asyncio.gather(*(store.close() for store in stores))


@pytest.mark.row("W16")
async def test_a_thousand_conversations_at_once(server: Any, prefix: str) -> None:
    store = RedisWorkingMemoryStore(server.url, prefix=prefix, timeout=60.0, connections=20)

    async def turn(number: int) -> int:
        async with store.turn(f"c{number}"):
            state = await store.get_or_create(f"c{number}", "u1")
            state.last_agent_response = f"answer {number}"
            return (await store.save(state)).version

    versions = await asyncio.gather(*(turn(n) for n in range(1000)))
    assert versions == [1] * 1000
    states = await asyncio.gather(*(store.get(f"c{n}") for n in range(1000)))
    assert [state.last_agent_response for state in states] == [f"answer {n}" for n in range(1000)]
    assert store.locks == 0
    with redis.Redis.from_url(server.url) as client:
        ours = [c for c in client.client_list() if c["age"] != "0" or c["cmd"] == "evalsha"]
        assert len(ours) <= 25
    await store.close()
