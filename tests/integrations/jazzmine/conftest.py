"""The installed jazzmine's working memory and ours, over one real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

import jazzmine_package
import redis_servers as servers
from jazzmine_dspy.integrations.jazzmine.working_memory import JazzmineWorkingMemoryStore
from jazzmine_dspy_conformance.working_memory import Harness


@pytest.fixture(scope="session")
def theirs() -> Any:
    """``jazzmine.core.working_memory``, as installed."""
    return jazzmine_package.working_memory()


class SharedHarness(Harness):
    """Stores over records shared with jazzmine. What lies there is no record of ours, so that is not offered."""

    def __init__(self, url: str, client: Any) -> None:
        self.url = url
        self.client = client
        self._made: list[JazzmineWorkingMemoryStore] = []

    async def make(
        self, *, wait: float = 5.0, ttl: float = 3600.0, **options: Any
    ) -> JazzmineWorkingMemoryStore:
        settings = {"timeout": 5.0, **options}
        self._made.append(JazzmineWorkingMemoryStore(self.url, wait=wait, ttl=ttl, **settings))
        return self._made[-1]

    async def pass_time(self, seconds: float) -> None:
        async for key in self.client.scan_iter("*"):
            left = await self.client.pttl(key)
            if left > 0 and not key.startswith(b"wm_lock:"):
                await self.client.pexpire(key, left - int(seconds * 1000))

    async def lose_lease(self, conversation_id: str) -> None:
        assert await self.client.delete(f"wm_lock:{conversation_id}")

    async def close(self) -> None:
        for store in self._made:
            await store.close()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Any]:
    """A server of these tests alone: jazzmine's keys have no prefix that could keep tests apart."""
    if not servers.binaries():
        pytest.skip("no Redis or Valkey here; the extra `dev` installs some")
    with servers.server() as running:
        yield running


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A server that is a cluster of its own, once it has been given all slots."""
    if not servers.binaries():
        pytest.skip("no Redis or Valkey here; the extra `dev` installs some")
    with servers.server("", "--cluster-enabled", "yes") as running:
        yield running


@pytest_asyncio.fixture
async def redis(shared_server: Any) -> AsyncIterator[Any]:
    """A client of the server, which is emptied after each test."""
    client = Redis.from_url(shared_server.url)
    yield client
    await client.flushall()
    await client.aclose()


@pytest_asyncio.fixture
async def harness(shared_server: Any, redis: Any) -> AsyncIterator[SharedHarness]:
    made = SharedHarness(shared_server.url, redis)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def ours(harness: SharedHarness) -> JazzmineWorkingMemoryStore:
    """Our store."""
    return await harness.make()


@pytest.fixture
def their_store(theirs: Any, redis: Any) -> Any:
    """Jazzmine's own store, over the same server."""
    return theirs.RedisWorkingMemoryStore(redis)
