"""Addresses that are accepted and refused, what errors tell, and event loops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster

from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore
from jazzmine_dspy.memory.working.redis_client import connect, without_secrets
from jazzmine_dspy.models.errors import InputError, JazzmineError, MemoryUnavailableError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://u:p%40w@cache:6380/3", {"port": 6380, "db": 3, "username": "u", "password": "p@w"}),
        ("redis://cache?socket_timeout=7", {"host": "cache", "socket_timeout": 7.0}),
        ("unix:///run/redis.sock?db=2", {"path": "/run/redis.sock", "db": 2}),
        ("rediss://cache", {"host": "cache"}),
    ],
)
def test_a_single_server(url: str, expected: dict[str, Any]) -> None:
    pool = RedisWorkingMemoryStore(url, connections=7)._connect().connection_pool  # type: ignore[union-attr]
    assert isinstance(pool, BlockingConnectionPool)
    assert pool.max_connections == 7
    assert expected.items() <= pool.connection_kwargs.items()


def test_a_cluster() -> None:
    client = RedisWorkingMemoryStore("rediss+cluster://u:pw@a:7000?ssl_ca_certs=/ca.pem")._connect()
    assert isinstance(client, RedisCluster)
    assert {(node.host, node.port) for node in client.nodes_manager.startup_nodes.values()} == {("a", 7000)}
    assert client.connection_kwargs["password"] == "pw"
    assert client.connection_kwargs["ssl_ca_certs"] == "/ca.pem"


REFUSED = [
    "", "localhost:6379", "http://localhost", "redis://a:99999", "redis://a?no_such_option=1", "redis://a?max_connections=0",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(InputError, match="not a URL") as caught:
        RedisWorkingMemoryStore(url)
    assert "redis+cluster://" in str(caught.value)


@pytest.mark.parametrize("source", [redis.Redis(), object(), None, Redis(decode_responses=True)])
def test_what_is_neither_address_nor_client_of_bytes_is_refused(source: Any) -> None:
    with pytest.raises(InputError, match="neither a URL nor a client"):
        RedisWorkingMemoryStore(source)


# --- secrets -----------------------------------------------------------------------------------------------


@pytest.mark.row("G4")
@pytest.mark.parametrize(
    "url",
    [
        "redis://bot:s3cret@127.0.0.1:1/0",
        "redis://:s3cret@127.0.0.1:1",
        "redis+cluster://bot:s3cret@127.0.0.1:1",
    ],
)
async def test_no_error_shows_the_password(url: str, caplog: Any) -> None:
    store = RedisWorkingMemoryStore(url, timeout=0.5)
    for call in (store.get("c"), store.turn("c").__aenter__()):
        with pytest.raises(MemoryUnavailableError) as caught:
            await call
        assert "127.0.0.1:1" in str(caught.value)
        assert "s3cret" not in str(caught.value) + repr(caught.value) + caplog.text
    await store.close()
    assert "s3cret" not in caplog.text


@pytest.mark.row("G4")
def test_an_address_is_shown_without_its_secrets() -> None:
    for url in (*REFUSED, "redis://a:b@c:d@host/1?password=b"):
        assert ":b@" not in without_secrets(url)
        assert "password" not in without_secrets(url)
    with pytest.raises(InputError) as caught:
        RedisWorkingMemoryStore("redis://u:s3cret@host:99999?password=s3cret")
    assert "s3cret" not in str(caught.value)


@pytest.mark.row("G4")
async def test_what_redis_quotes_is_not_repeated(harness: Any) -> None:
    store = await harness.make()
    await harness.client.set(harness.key("my pin 9876", "aside"), "of another type")
    with pytest.raises(MemoryUnavailableError, match="ResponseError") as caught:
        await store.quarantined("my pin 9876")
    assert "9876" not in str(caught.value)


# --- clients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_client_may_be_handed_in_and_stays_open(harness: Any, protocol: int) -> None:
    client = Redis.from_url(harness.url, protocol=protocol)
    store = RedisWorkingMemoryStore(client, prefix=harness.prefix)
    await store.get_or_create("c ü", "u1")
    assert (await (await harness.make()).get("c ü")) == await store.get("c ü")
    await store.close()
    assert await client.ping()
    await client.aclose()


@pytest.mark.row("A5")
def test_importing_the_package_does_not_import_redis() -> None:
    code = (
        "import sys, jazzmine_dspy, jazzmine_dspy.memory.working as working\n"
        "assert 'redis' not in sys.modules\n"
        "working.RedisWorkingMemoryStore\n"
        "assert 'redis' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- refusals ----------------------------------------------------------------------------------------------


async def test_a_wrong_password_and_a_missing_permission_are_reported_at_once(harness: Any) -> None:
    await harness.client.execute_command("ACL", "SETUSER", "shut", "on", ">pw", "+ping", "~*")
    for user, kind in (("bot:wrong", "AuthenticationError"), ("shut:pw", "NoPermissionError")):
        store = RedisWorkingMemoryStore(harness.url.replace("//", f"//{user}@"), timeout=5.0)
        with pytest.raises(MemoryUnavailableError, match=kind) as caught:
            await store.get("c")
        assert "password" in caught.value.remedy
        await store.close()
    await harness.client.execute_command("ACL", "DELUSER", "shut")


async def test_what_the_documents_allow_a_user_is_enough(harness: Any) -> None:
    page = (Path(__file__).parents[4] / "docs" / "guide" / "workers.md").read_text("utf-8")
    (rule,) = re.findall(r"^ACL SETUSER assistant (.*)$", page, re.MULTILINE)
    rule = rule.replace("jazzmine:", f"{harness.prefix}:").replace("PASSWORD", "pw")
    await harness.client.execute_command("ACL", "SETUSER", "assistant", "reset", *rule.split())
    await harness.client.script_flush()
    url = harness.url.replace("//", "//assistant:pw@")
    store = RedisWorkingMemoryStore(url, prefix=harness.prefix)
    other = RedisWorkingMemoryStore(url, prefix=harness.prefix, wait=0.05)
    async with store.turn("c"):
        await store.get_or_create("c", "u1")
        await store.end_turn("c", "Hello")
        with pytest.raises(TimeoutError):
            await other.end_turn("c", "too early")
        turn = store._current("c")
        assert turn is not None
        assert await store._renew(turn)
    await harness.put_raw("c", b"broken")
    assert await store.get("c") is None
    assert [entry.data for entry in await store.quarantined("c")] == [b"broken"]
    assert await store.delete("c")
    for one in (store, other):
        await one.close()
    await harness.client.execute_command("ACL", "DELUSER", "assistant")


@pytest.mark.row("U15")
async def test_redis_down_is_an_error_within_the_deadline() -> None:
    loop = asyncio.get_running_loop()
    store = RedisWorkingMemoryStore("redis://127.0.0.1:1", timeout=1.0)
    began = loop.time()
    for call in (
        store.get("c"),
        store.get_or_create("c", "u1"),
        store.delete("c"),
        store.presence("c"),
        store.quarantined("c"),
        store.turn("c").__aenter__(),
        store.end_turn("c", "Hello"),
    ):
        with pytest.raises(JazzmineError, match=r"does not answer.*127\.0\.0\.1:1") as caught:
            await call
        assert isinstance(caught.value, MemoryUnavailableError)
        assert loop.time() - began < 1.5
        began = loop.time()
    await store.close()
    assert store.locks == 0


# --- event loops -------------------------------------------------------------------------------------------


async def _turn(store: RedisWorkingMemoryStore) -> int:
    async with store.turn("c"):
        return (await store.save(await store.get_or_create("c", "u1"))).version


@pytest.mark.row("A7", "W16")
def test_a_store_serves_one_event_loop_after_the_other_and_a_forked_child(redis_url: str) -> None:
    store = RedisWorkingMemoryStore(redis_url, prefix=f"loops-{uuid.uuid4().hex}")
    assert [asyncio.run(_turn(store)) for _ in range(3)] == [1, 2, 3]
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os._exit(asyncio.run(_turn(store)))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4

    async def last() -> int:
        # A task that its loop has left behind.
        store._background.add(abandoned)
        version = await _turn(store)
        await store.close()
        return version

    former = asyncio.new_event_loop()
    abandoned = former.create_task(asyncio.sleep(0))
    try:
        assert asyncio.run(last()) == 5
    finally:
        former.run_until_complete(abandoned)
        former.close()


@pytest.mark.row("A7", "W16")
def test_a_store_serves_event_loops_of_several_threads(redis_url: str) -> None:
    store = RedisWorkingMemoryStore(redis_url, prefix=f"threads-{uuid.uuid4().hex}")
    with ThreadPoolExecutor(4) as threads:
        versions = list(threads.map(lambda _: asyncio.run(_turn(store)), range(40)))
    assert sorted(versions) == list(range(1, 41))


@pytest.mark.row("U15")
def test_a_client_of_another_event_loop_is_refused_with_the_remedy(redis_url: str) -> None:
    client = Redis.from_url(redis_url)
    store = RedisWorkingMemoryStore(client, prefix=f"loops-{uuid.uuid4().hex}")
    assert asyncio.run(_turn(store)) == 1
    with pytest.raises(InputError, match="another event loop"):
        asyncio.run(store.get("c"))


@pytest.mark.row("W17")
@pytest.mark.parametrize("option", ["decode_responses=True", "retry=3", "protocol=9", "retry_on_error=1"])
def test_an_option_that_the_store_sets_itself_is_refused_by_name(option: str) -> None:
    with pytest.raises(InputError, match=option.partition("=")[0]) as refused:
        connect(f"redis://localhost:6379/0?{option}", "here", 1.0, 2)
    assert "Remove it" in refused.value.remedy
