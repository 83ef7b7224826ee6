"""Addresses that are accepted and refused, what errors tell, and event loops."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.sentinel import SentinelManagedSSLConnection

from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore
from jazzmine_dspy.memory.working.redis._failures import unavailable
from jazzmine_dspy.memory.working.redis.connect import Connections, without_secrets
from jazzmine_dspy.models.errors import InputError, JazzmineError, MemoryUnavailableError


async def _client(url: str) -> Any:
    return Connections(url, 4, 2.0).here().client


def _settings(client: Any) -> dict[str, Any]:
    return dict(client.connection_pool.connection_kwargs)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://cache", {"host": "cache"}),
        ("redis://u:p%40w@cache:6380/3", {"port": 6380, "db": 3, "username": "u", "password": "p@w"}),
        ("redis://cache?socket_timeout=7", {"socket_timeout": 7.0}),
        ("unix:///run/redis.sock?db=2", {"path": "/run/redis.sock", "db": 2}),
    ],
)
async def test_a_single_server(url: str, expected: dict[str, Any]) -> None:
    client = await _client(url)
    assert isinstance(client, Redis)
    assert expected.items() <= _settings(client).items()


async def test_tls() -> None:
    pool = (await _client("rediss://cache")).connection_pool
    assert issubclass(pool.connection_class, redis.asyncio.SSLConnection)


async def test_a_cluster() -> None:
    client = await _client("redis+cluster://u:pw@a:7000,b,[::1]:7001")
    assert isinstance(client, RedisCluster)
    nodes = {(node.host, node.port) for node in client.nodes_manager.startup_nodes.values()}
    assert nodes == {("a", 7000), ("b", 6379), ("::1", 7001)}
    assert client.connection_kwargs["password"] == "pw"
    assert "ssl_ca_certs" not in client.connection_kwargs
    tls = await _client("rediss+cluster://a?ssl_ca_certs=/ca.pem")
    assert tls.connection_kwargs["ssl_ca_certs"] == "/ca.pem"


async def test_sentinels() -> None:
    url = "rediss+sentinel://u:pw@a:1,b/main/2?sentinel_password=s%26w&sentinel_socket_timeout=7&ssl_cert_reqs=none"
    pool = (await _client(url)).connection_pool
    assert pool.service_name == "main"
    assert {"db": 2, "password": "pw", "username": "u"}.items() <= pool.connection_kwargs.items()
    assert pool.connection_class is SentinelManagedSSLConnection
    asked = [s.connection_pool.connection_kwargs for s in pool.sentinel_manager.sentinels]
    assert [(k["host"], k["port"], k["password"]) for k in asked] == [("a", 1, "s&w"), ("b", 26379, "s&w")]
    assert all((k["socket_timeout"], k["socket_connect_timeout"]) == (7.0, 0.5) for k in asked)
    assert all(k.get("username") is None for k in asked)


REFUSED = [
    "",
    "localhost",
    "localhost:6379",
    "http://localhost",
    "redis-sentinel://a/main",
    "redis+sentinel://a:1",
    "redis+sentinel://a/main/two",
    "redis+cluster://a/1",
    "redis+cluster://a:port",
    "redis+cluster://",
    "redis://a/one",
    "redis://a:99999",
    "redis://a?no_such_option=1",
    "redis+sentinel://a/main?no_such_option=1",
    "redis://a?socket_timeout=soon",
]


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(InputError, match="no URL") as caught:
        RedisWorkingMemoryStore(url)
    assert "redis+cluster://" in str(caught.value)


@pytest.mark.parametrize("source", [redis.Redis(), object(), None, 6379])
def test_what_is_neither_address_nor_client_is_refused(source: Any) -> None:
    with pytest.raises(InputError, match="neither a URL nor a client"):
        RedisWorkingMemoryStore(source)


def test_an_unknown_kind_of_records_is_refused() -> None:
    with pytest.raises(InputError, match="records"):
        RedisWorkingMemoryStore(records="other")


# --- secrets -----------------------------------------------------------------------------------------------


@pytest.mark.row("G4")
@pytest.mark.parametrize(
    "url",
    [
        "redis://bot:s3cret@127.0.0.1:1/0",
        "redis://:s3cret@127.0.0.1:1?password=s3cret",
        "redis+sentinel://bot:s3cret@127.0.0.1:1/main?sentinel_password=s3cret",
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
    for url in (*REFUSED, "redis://a:b@c:d@host/1?password=b", "redis+sentinel://u:b@h1,h2/main"):
        assert ":b@" not in without_secrets(url)
        assert "password" not in without_secrets(url)
    with pytest.raises(InputError) as caught:
        RedisWorkingMemoryStore("redis://u:s3cret@host/none?password=s3cret")
    assert "s3cret" not in str(caught.value)


# --- clients and loops -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 3}])
async def test_a_client_may_be_handed_in_and_stays_open(harness: Any, options: dict[str, Any]) -> None:
    client = Redis.from_url(harness.url, **options)
    store = RedisWorkingMemoryStore(client, prefix=harness.prefix)
    await store.get_or_create("c ü", "u1")
    assert (await (await harness.make()).get("c ü")) == await store.get("c ü")
    assert await store.conversations() == ["c ü"]
    await store.close()
    assert await client.ping()
    await client.aclose()


def test_a_store_with_an_address_serves_one_loop_after_the_other(redis_url: str) -> None:
    store = RedisWorkingMemoryStore(redis_url, prefix="loops")

    async def turn() -> int:
        async with store.turn("c") as fence:
            await store.get_or_create("c", "u1")
        return fence

    first = asyncio.run(turn())
    assert asyncio.run(turn()) == first + 1
    asyncio.run(store.delete("c"))


def test_a_client_of_a_closed_loop_is_refused_with_the_reason(redis_url: str) -> None:
    client = Redis.from_url(redis_url)
    store = RedisWorkingMemoryStore(client, prefix="loops")
    asyncio.run(store.get("c"))
    with pytest.raises(InputError, match="another event loop"):
        asyncio.run(store.get("c"))
    # Its connections are the former loop's even where the store is new.
    with pytest.raises(InputError, match="another event loop"):
        asyncio.run(RedisWorkingMemoryStore(client, prefix="loops").get("c"))


@pytest.mark.row("A5")
def test_importing_the_package_does_not_import_redis() -> None:
    code = (
        "import sys, jazzmine_dspy, jazzmine_dspy.memory.working as working\n"
        "import jazzmine_dspy.memory.working.redis\n"
        "assert 'redis' not in sys.modules\n"
        "working.RedisWorkingMemoryStore\n"
        "assert 'redis' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- refusals ----------------------------------------------------------------------------------------------


async def test_a_wrong_password_is_told_at_once(harness: Any) -> None:
    store = RedisWorkingMemoryStore(harness.url.replace("//", "//bot:wrong@"), timeout=5.0)
    with pytest.raises(MemoryUnavailableError, match="USER:PASSWORD"):
        await store.get("c")
    await store.close()


async def test_what_a_user_may_not_do_is_told(harness: Any) -> None:
    await harness.client.execute_command("ACL", "SETUSER", "shut", "on", ">pw", "+ping", "~*")
    store = RedisWorkingMemoryStore(harness.url.replace("//", "//shut:pw@"), timeout=5.0)
    with pytest.raises(MemoryUnavailableError, match="EVALSHA"):
        await store.get("c")
    await store.close()
    await harness.client.execute_command("ACL", "DELUSER", "shut")


async def test_what_the_documents_allow_a_user_is_enough(harness: Any) -> None:
    page = (Path(__file__).parents[4] / "docs" / "guide" / "workers.md").read_text("utf-8")
    (rule,) = re.findall(r"^ACL SETUSER assistant (.*)$", page, re.MULTILINE)
    rule = rule.replace("jazzmine:", f"{harness.prefix}:").replace("PASSWORD", "pw")
    await harness.client.execute_command("ACL", "SETUSER", "assistant", "reset", *rule.split())
    url = harness.url.replace("//", "//assistant:pw@")
    store = RedisWorkingMemoryStore(url, prefix=harness.prefix)
    other = RedisWorkingMemoryStore(url, prefix=harness.prefix, wait=0.05)
    async with store.turn("c"):
        await store.get_or_create("c", "u1")
        await store.end_turn("c", "Hello")
        with pytest.raises(TimeoutError):
            await other.end_turn("c", "too early")
        fence = await harness.client.hget(harness.key("c", "meta"), "f")
        token = await harness.client.get(harness.key("c", "lock"))
        assert await store.backend.renew("c", token.decode(), int(fence))
    aside = await store.set_aside("c", cause="odd")
    assert await store.conversations() == ["c"]
    assert [one.id for one in await store.aside("c")] == [aside]
    await store.restore("c", aside)
    assert await store.delete("c")
    for one in (store, other):
        await one.close()
    await harness.client.execute_command("ACL", "DELUSER", "assistant")


async def test_redis_down_is_an_error_within_the_deadline() -> None:
    loop = asyncio.get_running_loop()
    store = RedisWorkingMemoryStore("redis://127.0.0.1:1", timeout=1.0)
    began = loop.time()
    for call in (
        store.get("c"),
        store.get_or_create("c", "u1"),
        store.delete("c"),
        store.presence("c"),
        store.conversations(),
        store.turn("c").__aenter__(),
        store.end_turn("c", "Hello"),
    ):
        with pytest.raises(JazzmineError, match=r"can't be reached.*127\.0\.0\.1:1.*redis-cli") as caught:
            await call
        assert isinstance(caught.value, MemoryUnavailableError)
        assert loop.time() - began < 1.5
        began = loop.time()
    await store.close()
    assert store.locks == 0


@pytest.mark.parametrize("kind", [redis.ResponseError, redis.OutOfMemoryError, redis.ConnectionError])
def test_what_redis_quotes_is_not_repeated(kind: type[Exception]) -> None:
    told = str(unavailable(kind("unknown, with args beginning with: 'my pin 9876'"), "redis://r", 1.0))
    assert "Redis refuses: " in told or "ConnectionError" in told
    assert "9876" not in told
