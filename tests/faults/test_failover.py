"""The primary changes while stores are connected to it: by URL, where the address moves, and by a sentinel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.asyncio.sentinel import Sentinel

import redis_servers
from fault_proxy import Proxy
from jazzmine_dspy.memory.errors import TurnLostError
from jazzmine_dspy.memory.working import RedisWorkingMemoryStore, WorkingMemory
from jazzmine_dspy.models.errors import MemoryUnavailableError

pytestmark = [pytest.mark.chaos, pytest.mark.row("W16", "W18")]

KINDS = ["valkey", "redis-6.2"]
CHANGES = [redis_servers.hand_over, redis_servers.promote]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, servers: Any) -> str:
    if request.param not in servers.binaries():
        pytest.skip("the extra `dev` installs it")
    return str(request.param)


@pytest.fixture
def pair(kind: str) -> Iterator[tuple[Any, Any]]:
    """A primary and its replica."""
    with redis_servers.pair(kind) as servers:
        yield servers


async def _turn(store: RedisWorkingMemoryStore, conversation_id: str, text: str) -> WorkingMemory:
    async with store.turn(conversation_id):
        await store.get_or_create(conversation_id, "u1")
        return await store.end_turn(conversation_id, text)


@pytest.mark.parametrize("change", CHANGES)
async def test_no_turn_fails_once_the_address_leads_to_the_new_primary(
    pair: tuple[Any, Any], change: Callable[..., None]
) -> None:
    primary, replica = pair
    async with Proxy(primary.port) as proxy:
        store = RedisWorkingMemoryStore(proxy.url)
        ids = [f"c{number}" for number in range(20)]
        # As many connections as conversations.
        await asyncio.gather(*(_turn(store, each, "before") for each in ids))
        await asyncio.to_thread(change, primary, replica)
        proxy.target = replica.port
        for number in range(3):
            states = await asyncio.gather(*(_turn(store, each, "after") for each in ids))
            assert [state.version for state in states] == [number + 2] * 20
        await store.close()
    with redis.Redis.from_url(replica.url) as client:
        assert client.exists(*(store.key(each, "state") for each in ids)) == 20


async def test_a_turn_begun_before_a_failover_goes_on_after_it_and_is_fenced_as_ever(
    pair: tuple[Any, Any],
) -> None:
    primary, replica = pair
    async with Proxy(primary.port) as proxy:
        store = RedisWorkingMemoryStore(proxy.url)
        other = RedisWorkingMemoryStore(proxy.url)
        going_on, overtaken = store.turn("a"), store.turn("b")
        for turn, name in ((going_on, "a"), (overtaken, "b")):
            await turn.__aenter__()
            await store.get_or_create(name, "u1")
        await asyncio.to_thread(redis_servers.hand_over, primary, replica)
        proxy.target = replica.port
        with redis.Redis.from_url(replica.url) as client:
            client.delete(store.key("b", "lock"))
        assert (await _turn(other, "b", "first")).version == 1
        assert (await store.end_turn("a", "goes on")).version == 1
        with pytest.raises(TurnLostError):
            await store.end_turn("b", "too late")
        for turn in (going_on, overtaken):
            await turn.__aexit__(None, None, None)
        assert (await store.get("b")).last_agent_response == "first"
        for each in (store, other):
            await each.close()


async def test_connections_that_lead_nowhere_any_more_cost_one_call_half_of_its_time(
    pair: tuple[Any, Any],
) -> None:
    primary, replica = pair
    async with Proxy(primary.port) as proxy:
        store = RedisWorkingMemoryStore(proxy.url, timeout=1.0)
        await asyncio.gather(*(_turn(store, f"c{number}", "before") for number in range(20)))
        # As if the machine were gone: nothing tells the connections that they are dead.
        proxy.silence()
        await asyncio.to_thread(redis_servers.promote, primary, replica)
        proxy.target = replica.port
        began = asyncio.get_running_loop().time()
        for number in range(20):
            assert (await _turn(store, f"c{number}", "after")).version == 2
        assert asyncio.get_running_loop().time() - began < 1.5
        await store.close()


async def test_a_failover_that_takes_a_moment_is_waited_for(pair: tuple[Any, Any]) -> None:
    primary, replica = pair
    async with Proxy(primary.port) as proxy:
        store = RedisWorkingMemoryStore(proxy.url)
        await _turn(store, "c", "before")
        await asyncio.to_thread(redis_servers.hand_over, primary, replica)
        turn = asyncio.create_task(_turn(store, "c", "after"))
        await asyncio.sleep(0.15)
        # The address has led to the replica until now.
        proxy.target = replica.port
        assert (await turn).version == 2
        await store.close()


async def test_a_primary_whose_data_are_stale_is_left(pair: tuple[Any, Any]) -> None:
    primary, replica = pair
    async with Proxy(primary.port) as proxy:
        store = RedisWorkingMemoryStore(proxy.url)
        await _turn(store, "c", "before")
        await asyncio.to_thread(redis_servers.hand_over, primary, replica)
        with redis.Redis.from_url(primary.url) as client:
            client.config_set("replica-serve-stale-data", "no")
            client.replicaof("127.0.0.1", "1")
            with pytest.raises(redis.exceptions.MasterDownError):
                client.get("x")
        proxy.target = replica.port
        assert (await _turn(store, "c", "after")).version == 2
        await store.close()


@pytest.mark.parametrize("connections", [1, 20])
async def test_a_sentinel_is_asked_again_where_connections_stay_open(
    pair: tuple[Any, Any], kind: str, connections: int
) -> None:
    primary, replica = pair
    watch = "sentinel monitor main 127.0.0.1 {} 1"
    sentinel = redis_servers.Server(redis_servers.binaries()[kind], sentinel=watch.format(primary.port))
    try:
        client = Sentinel([("127.0.0.1", sentinel.port)]).master_for("main")
        store = RedisWorkingMemoryStore(client)
        ids = [f"c{number}" for number in range(connections)]
        await asyncio.gather(*(_turn(store, each, "before") for each in ids))
        await asyncio.to_thread(redis_servers.hand_over, primary, replica)
        with redis.Redis.from_url(sentinel.url) as watcher:
            watcher.sentinel_remove("main")
            watcher.sentinel_monitor("main", "127.0.0.1", replica.port, 1)
        states = await asyncio.gather(*(_turn(store, each, "after") for each in ids))
        assert [state.version for state in states] == [2] * connections
        await store.close()
        await client.aclose()
    finally:
        sentinel.close()


@pytest.mark.row("U15")
async def test_a_session_that_is_logged_out_is_logged_in_again(kind: str) -> None:
    with redis_servers.server(kind, "--requirepass", "pw") as server:
        async with Proxy(server.port) as proxy:
            store = RedisWorkingMemoryStore(proxy.url.replace("//", "//:pw@"))
            await _turn(store, "c", "before")
            proxy.log_out()
            assert (await _turn(store, "c", "after")).version == 2
            await store.close()


@pytest.mark.row("U15")
async def test_a_server_that_loads_its_data_is_an_error_in_time_and_used_afterwards(servers: Any) -> None:
    if "valkey" not in servers.binaries():
        pytest.skip("the extra `dev` installs Valkey")
    slowly = ["--loading-process-events-interval-bytes", "1024", "--key-load-delay", "5000"]
    with (
        redis_servers.server("valkey", *slowly, "--enable-debug-command", "yes") as server,
        redis.Redis.from_url(server.url) as client,
    ):
        store = RedisWorkingMemoryStore(server.url, timeout=1.0)
        await _turn(store, "c", "before")
        for number in range(500):
            client.set(f"filler{number}", bytes(range(256)) * 8)
        loading = asyncio.create_task(asyncio.to_thread(client.execute_command, "DEBUG RELOAD"))
        await asyncio.to_thread(server.wait_for, "Loading RDB|RDB age")
        with pytest.raises(MemoryUnavailableError, match="BusyLoadingError"):
            await store.get("c")
        await loading
        assert (await _turn(store, "c", "after")).version == 2
        await store.close()
