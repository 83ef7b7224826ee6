"""A real cluster of two masters, and a real sentinel with a master and its replica."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.asyncio.sentinel import Sentinel

from jazzmine_dspy.memory.errors import TurnLostError
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore
from jazzmine_dspy.models.errors import MemoryUnavailableError

SLOTS = 16384


@pytest.fixture(scope="module")
def cluster(servers: Any) -> Iterator[list[Any]]:
    """Two masters with half of the slots each."""
    with _cluster(servers, masters=2, replicas=0) as nodes:
        yield nodes


@contextlib.contextmanager
def _cluster(servers: Any, masters: int, replicas: int) -> Iterator[list[Any]]:
    """Masters that share the slots, then the replicas of the first masters."""
    if "valkey" not in servers.binaries():
        pytest.skip("the extra `dev` installs Valkey")
    nodes: list[Any] = []
    try:
        for _ in range(masters + replicas):
            options = ("--cluster-enabled", "yes", "--cluster-port", str(servers.free_port()))
            timeout = ("--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0")
            nodes.append(servers.Server(servers.binaries()["valkey"], *timeout, *options))
        share = -(-SLOTS // masters)
        for number, node in enumerate(nodes):
            with redis.Redis.from_url(node.url) as client:
                if number < masters:
                    first, last = number * share, min((number + 1) * share, SLOTS) - 1
                    client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        with redis.Redis.from_url(nodes[0].url) as client:
            for node in nodes[1:]:
                client.execute_command("CLUSTER MEET", "127.0.0.1", node.port, node._command[-1])
        for node in nodes:
            node.wait_for("Cluster state changed: ok")
        for master, replica in zip(nodes, nodes[masters:], strict=False):
            _replicate(master, replica)
        yield nodes
    finally:
        for node in nodes:
            node.close()


def _replicate(master: Any, replica: Any) -> None:
    with redis.Redis.from_url(master.url) as client:
        name = client.execute_command("CLUSTER MYID").decode()
    with redis.Redis.from_url(replica.url) as client:
        while name not in str(client.execute_command("CLUSTER NODES")):
            time.sleep(0.05)
        client.execute_command("CLUSTER REPLICATE", name)
    replica.wait_for("<-> REPLICA sync: Finished with success")


async def _turn(store: RedisWorkingMemoryStore, conversation_id: str, text: str) -> WorkingMemory:
    async with store.turn(conversation_id):
        await store.get_or_create(conversation_id, "u1")
        return await store.end_turn(conversation_id, text)


@pytest.mark.row("W16", "W18")
async def test_conversations_of_a_cluster(cluster: list[Any]) -> None:
    store = RedisWorkingMemoryStore(f"redis+cluster://127.0.0.1:{cluster[1].port}", timeout=5.0)
    ids = [f"c{n} {{x}}" for n in range(20)]
    for conversation_id in ids:
        assert (await _turn(store, conversation_id, "Hello")).version == 1
    for node in cluster:
        with redis.Redis.from_url(node.url) as client:
            assert 0 < client.dbsize() < 2 * len(ids)
    for conversation_id in ids:
        assert await store.delete(conversation_id)
    await store.close()


async def test_a_node_of_a_cluster_taken_for_a_single_server_is_told(cluster: list[Any]) -> None:
    store = RedisWorkingMemoryStore(cluster[0].url)
    # Some of these conversations are at home in the other half.
    told = await asyncio.gather(*(store.get(f"c{n}") for n in range(20)), return_exceptions=True)
    wrong = [one for one in told if one is not None]
    assert 0 < len(wrong) < 20
    assert all(isinstance(one, MemoryUnavailableError) and "redis+cluster://" in str(one) for one in wrong)
    await store.close()


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.row("W16", "W18")
async def test_a_cluster_that_loses_two_masters_goes_on(servers: Any) -> None:
    with _cluster(servers, masters=3, replicas=2) as nodes:
        store = RedisWorkingMemoryStore(f"redis+cluster://127.0.0.1:{nodes[2].port}")
        ids = [f"c{n}" for n in range(30)]
        version = 1
        await asyncio.gather(*(_turn(store, each, "before") for each in ids))
        for master, replica in zip(nodes, nodes[3:], strict=False):
            with redis.Redis.from_url(master.url) as client:
                assert client.wait(1, 5000) == 1
            master.kill()
            await asyncio.to_thread(replica.wait_for, "Failover election won")
            await asyncio.to_thread(replica.wait_for, "Cluster state changed: ok")
            version += 1
            states = await asyncio.gather(*(_turn(store, each, "after") for each in ids))
            assert {state.version for state in states} == {version}
        await store.close()


@pytest.fixture
def guarded(servers: Any) -> Iterator[tuple[Any, Any, Any]]:
    """A master, its replica, and a sentinel that watches them."""
    if "valkey" not in servers.binaries():
        pytest.skip("the extra `dev` installs Valkey")
    binary = servers.binaries()["valkey"]
    running = []
    try:
        running.append(master := servers.Server(binary, "--repl-diskless-sync-delay", "0"))
        running.append(replica := servers.Server(binary, "--replicaof", f"127.0.0.1 {master.port}"))
        replica.wait_for("<-> REPLICA sync: Finished with success")
        watch = [
            f"sentinel monitor main 127.0.0.1 {master.port} 1",
            "sentinel down-after-milliseconds main 200",
            "sentinel failover-timeout main 2000",
        ]
        running.append(sentinel := servers.Server(binary, sentinel="\n".join(watch)))
        sentinel.wait_for(r"\+slave slave")
        yield master, replica, sentinel
    finally:
        for one in running:
            one.close()


@pytest.mark.chaos
@pytest.mark.row("W16", "W18")
async def test_the_conversation_goes_on_at_the_replica_after_the_master_was_killed(guarded: Any) -> None:
    master, replica, sentinel = guarded
    sentinels = Sentinel([("127.0.0.1", sentinel.port)])
    store, other = (RedisWorkingMemoryStore(sentinels.master_for("main"), timeout=10.0) for _ in range(2))
    before = await _turn(store, "c", "before")
    overtaken = store.turn("c")
    fence = await overtaken.__aenter__()
    with redis.Redis.from_url(master.url) as client:
        assert client.wait(1, 5000) == 1
    master.kill()
    await asyncio.to_thread(sentinel.wait_for, r"\+switch-master main")
    # The lock was copied too; another worker's turn begins when it is gone.
    with redis.Redis.from_url(replica.url) as client:
        assert client.info("replication")["role"] == "master"
        client.delete(store.key("c", "lock"))
    after = await _turn(other, "c", "after")
    assert after.version == before.version + 1
    with pytest.raises(TurnLostError):
        await store.end_turn("c", f"too late, in turn {fence}")
    await overtaken.__aexit__(None, None, None)
    assert (await store.get("c")).last_agent_response == "after"
    await store.close()
    await other.close()


async def test_a_replica_is_no_place_to_write(guarded: Any) -> None:
    _, replica, _ = guarded
    store = RedisWorkingMemoryStore(replica.url, timeout=1.0)
    with pytest.raises(MemoryUnavailableError, match="ReadOnlyError"):
        await store.get_or_create("c", "u1")
    await store.close()
