"""The server out of memory, killed, and started again."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import redis

from jazzmine_dspy.memory.errors import StaleStateError
from jazzmine_dspy.memory.working import RedisWorkingMemoryStore
from jazzmine_dspy.memory.working.store import Presence
from jazzmine_dspy.models.errors import MemoryUnavailableError

pytestmark = pytest.mark.chaos


@pytest.fixture(params=["valkey", "redis-6.2"])
def full(request: pytest.FixtureRequest, servers: Any) -> Any:
    """A server that a test may fill."""
    if request.param not in servers.binaries():
        pytest.skip("the extra `dev` installs it")
    with servers.server(request.param) as one:
        yield one


def _fill(client: Any) -> None:
    """Leave no memory for anything that needs some."""
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)


@pytest.mark.row("W18")
async def test_memory_is_full(full: Any) -> None:
    store = RedisWorkingMemoryStore(full.url)
    async with store.turn("c"):
        state = await store.get_or_create("c", "u1")
        state.last_agent_response = "first"
        state = await store.save(state)
    with redis.Redis.from_url(full.url) as client:
        turn = store.turn("c")
        await turn.__aenter__()
        _fill(client)
        with pytest.raises(redis.OutOfMemoryError):
            client.set("proof", "1")
        state.last_agent_response = "second"
        for call in (store.save(state), store.get_or_create("new", "u1"), store.turn("d").__aenter__()):
            with pytest.raises(MemoryUnavailableError, match=r"OutOfMemoryError|ResponseError"):
                await call
        # Nothing was half done, reading goes on, and so does the end of a turn.
        assert (await store.get("c")).last_agent_response == "first"
        assert await store.presence("new") is Presence.ABSENT
        assert await store._renew(store._current("c"))
        await turn.__aexit__(None, None, None)
        assert client.exists(store.key("c", "lock")) == 0
        client.config_set("maxmemory", 0)
    async with store.turn("c"):
        assert (await store.end_turn("c", "third")).version == 2
    await store.close()


@pytest.mark.row("W18")
async def test_a_server_killed_and_started_again_has_what_it_had_promised_to_keep(servers: Any) -> None:
    with servers.server("", "--appendonly", "yes", "--appendfsync", "always") as one:
        store = RedisWorkingMemoryStore(one.url, timeout=5.0)
        run_ids = []
        for n in range(2):
            with redis.Redis.from_url(one.url) as client:
                run_ids.append(client.info("server")["run_id"])
            async with store.turn("c"):
                await store.get_or_create("c", "u1")
                assert (await store.end_turn("c", f"answer {n}")).version == n + 1
            one.kill()
            assert one.process.returncode == -signal.SIGKILL
            with pytest.raises(MemoryUnavailableError, match="does not answer"):
                await store.get("c")
            one.start()
        assert run_ids[0] != run_ids[1]
        assert (await store.get("c")).last_agent_response == "answer 1"
        async with store.turn("c") as fence:
            assert fence == 3
        await store.close()


async def test_a_server_that_forgot_everything_starts_conversations_over(servers: Any) -> None:
    with servers.server() as one:
        store = RedisWorkingMemoryStore(one.url, timeout=5.0)
        turn = store.turn("c")
        await turn.__aenter__()
        state = await store.get_or_create("c", "u1")
        one.kill()
        one.start()
        # The turn's number and the record are gone, and its write is not taken for a first one.
        with pytest.raises(StaleStateError, match=r"another one has begun|is gone"):
            await store.save(state)
        await turn.__aexit__(None, None, None)
        assert (await store.get_or_create("c", "u1")).version == 0
        await store.close()
