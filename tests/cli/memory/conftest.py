"""A real server, with the command line and a worker's store over it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import redis

import redis_servers as servers
from jazzmine_dspy.integrations.jazzmine.working_memory import JazzmineWorkingMemoryStore
from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    if not servers.binaries():
        pytest.skip("no Redis or Valkey here; the extra `dev` installs some")
    with servers.server() as running:
        yield running.url


@pytest.fixture
def free_address() -> str:
    """Where nobody listens."""
    return f"127.0.0.1:{servers.free_port()}"


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with redis.Redis.from_url(url) as made:
        yield made
        made.flushall()


class Place:
    """A store as a worker has it, and the command line over the same records."""

    def __init__(self, url: str, client: Any, run: Callable[..., Any], records: str) -> None:
        self.prefix = f"t{uuid.uuid4().hex[:6]}"
        self.url, self.client, self.records, self._run = url, client, records, run

    def memory(self, command: str, *args: object, **options: Any) -> Any:
        where = ["--redis", self.url, "--prefix", self.prefix, "--records", self.records]
        return self._run("memory", command, *args, *where, **options)

    def work(self, job: Callable[[RedisWorkingMemoryStore], Coroutine[Any, Any, Any]]) -> Any:
        async def run() -> Any:
            kind = JazzmineWorkingMemoryStore if self.records == "jazzmine" else RedisWorkingMemoryStore
            store = kind(self.url, prefix=self.prefix)
            try:
                return await job(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def begin(self, conversation_id: str = "c1", **changes: Any) -> Any:
        async def job(store: RedisWorkingMemoryStore) -> Any:
            async with store.turn(conversation_id):
                state = await store.get_or_create(conversation_id, "ann", "shop")
                for name, value in changes.items():
                    setattr(state, name, value)
                return await store.save(state)

        return self.work(job)

    def damage(self, conversation_id: str = "c1", data: bytes = b'{"conversation_id": "c1", ') -> None:
        if self.records == "jazzmine":
            self.client.set(f"wm:{conversation_id}", data, keepttl=True)
        else:
            self.client.set(f"{self.prefix}:{{{conversation_id}}}:state", data, keepttl=True)


@pytest.fixture(params=["own", "jazzmine"])
def place(request: pytest.FixtureRequest, url: str, client: Any, run: Callable[..., Any]) -> Place:
    return Place(url, client, run, request.param)


@pytest.fixture
def own(url: str, client: Any, run: Callable[..., Any]) -> Place:
    return Place(url, client, run, "own")
