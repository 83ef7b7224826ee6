"""Clients of Redis from a URL: a single server, a cluster, or the master that sentinels name."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit
from weakref import WeakKeyDictionary

from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialBackoff, NoBackoff

from jazzmine_dspy.models.errors import InputError

Client = Redis | RedisCluster

SCHEMES = "redis://, rediss://, unix://, redis+cluster:// and redis+sentinel:// (rediss+… for TLS)"

_URL = re.compile(
    r"(?P<scheme>rediss?\+(?:cluster|sentinel))://(?:(?P<user>[^@/]*)@)?(?P<hosts>[^/?#@]+)(?P<rest>.*)"
)


@dataclass(frozen=True)
class Opened:
    """A client of one event loop, with what closes it and what limits its connections."""

    client: Client
    free: asyncio.Semaphore
    close: Callable[[], Awaitable[None]]


@dataclass
class Connections:
    """Clients for one address, one for each event loop that asks.

    A client that was handed in belongs to the loop that uses it first, and to its owner, who closes it.

    Args:
        source: A URL or a client of ``redis.asyncio``.
        connections: How many calls may be under way at once; further ones wait.
        timeout: Seconds that a call may take. One of several hosts may take a quarter of it to answer, so that
            the others are asked in time.
    """

    source: str | Client
    connections: int
    timeout: float
    where: str = field(init=False)
    _open: Callable[[], tuple[Client, Callable[[], Awaitable[None]]]] = field(init=False, repr=False)
    _by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Opened] = field(
        init=False, repr=False, default_factory=WeakKeyDictionary
    )
    _only: asyncio.AbstractEventLoop | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.source, Redis | RedisCluster):
            self.where = f"the {type(self.source).__name__} client that was given"
        elif isinstance(self.source, str):
            self.where = without_secrets(self.source)
            self._open = _opener(self.source, self.where, self.connections, self.timeout / 4)
        else:
            kind = type(self.source)
            raise InputError(
                f"{kind.__module__}.{kind.__name__} is neither a URL nor a client of redis.asyncio",
                where="url_or_client",
                remedy="Hand in a URL, or a redis.asyncio.Redis or RedisCluster.",
            )

    def here(self) -> Opened:
        """The client of the running event loop.

        Raises:
            InputError: the client that was handed in is used in another loop.
        """
        loop = asyncio.get_running_loop()
        opened = self._by_loop.get(loop)
        if opened is None:
            opened = self._by_loop[loop] = self._opened(loop)
        return opened

    def _opened(self, loop: asyncio.AbstractEventLoop) -> Opened:
        free = asyncio.Semaphore(self.connections)
        if isinstance(self.source, str):
            client, close = self._open()
            return Opened(client, free, close)
        if self._only not in (None, loop):
            raise other_loop(self.where)
        self._only = loop
        return Opened(self.source, free, _nothing)

    async def close(self) -> None:
        """Close the connections of this event loop; those of loops that have ended are dropped."""
        opened = self._by_loop.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.close()


def other_loop(where: str) -> InputError:
    """The error for a client whose connections belong to another event loop."""
    return InputError(
        "The Redis client belongs to another event loop",
        where=where,
        remedy="Give a URL instead of a client, or build the client and the store in the loop that uses them.",
    )


async def _nothing() -> None:
    """The owner closes it."""


def without_secrets(url: str) -> str:
    """A URL as it may be shown: without user, password and options.

    Example:
        >>> without_secrets("redis://bot:pass%40word@cache:6379/2?ssl_ca_certs=x")
        'redis://cache:6379/2'
    """
    plain = url.partition("?")[0]
    scheme, found, rest = plain.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found else "the URL"


def _opener(
    url: str, where: str, connections: int, patience: float
) -> Callable[[], tuple[Client, Callable[[], Awaitable[None]]]]:
    """What makes clients for a URL, once it is known to be one."""
    try:
        many = _URL.fullmatch(url)
        if many is not None:
            build = _cluster if many["scheme"].endswith("cluster") else _sentinel
            return build(many, connections, patience)
        return _single(url, connections)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"This is no URL of a Redis server: {error}", where=where, remedy=f"Possible are {SCHEMES}."
        ) from error


def _settings(**found: Any) -> dict[str, Any]:
    """Settings of all connections. Tries are counted and timed by the backend, not by each connection."""
    kept_alive = {} if "path" in found else {"socket_keepalive": True}
    return {"protocol": 2, "retry": Retry(NoBackoff(), 0), "socket_timeout": None, **kept_alive, **found}


def _single(url: str, connections: int) -> Callable[[], tuple[Client, Callable[[], Awaitable[None]]]]:
    found = parse_url(url)
    if urlsplit(url).scheme != "unix" and not re.fullmatch(r"/?\d*", urlsplit(url).path):
        raise ValueError("its path is no number of a database")

    def pool() -> ConnectionPool:
        return ConnectionPool(**{"max_connections": connections, **_settings(**found)})

    # An option that no connection knows is noticed here and not at the first turn.
    pool().make_connection()  # type: ignore[no-untyped-call]

    def make() -> tuple[Client, Callable[[], Awaitable[None]]]:
        client = Redis.from_pool(pool())
        return client, client.aclose

    return make


def _hosts(text: str, port: int) -> list[tuple[str, int]]:
    hosts = []
    for host in text.split(","):
        parts = urlsplit(f"//{host}")
        if not parts.hostname:
            raise ValueError(f"{host!r} names no host")
        hosts.append((parts.hostname, parts.port or port))
    return hosts


def _rest(many: re.Match[str], path: str = "") -> dict[str, Any]:
    """User, password and options of a URL with several hosts."""
    scheme = "rediss" if many["scheme"].startswith("rediss") else "redis"
    user = f"{many['user']}@" if many["user"] else ""
    query = urlsplit(f"//x{many['rest']}").query
    found: dict[str, Any] = {**parse_url(f"{scheme}://{user}host{path}{'?' if query else ''}{query}")}
    for name in ("host", "port", "connection_class"):
        found.pop(name, None)
    if scheme == "rediss":
        found["ssl"] = True
    return found


def _cluster(
    many: re.Match[str], connections: int, patience: float
) -> Callable[[], tuple[Client, Callable[[], Awaitable[None]]]]:
    from redis.asyncio.cluster import ClusterNode

    hosts, found = _hosts(many["hosts"], 6379), _rest(many)
    if urlsplit(f"//x{many['rest']}").path.strip("/") not in ("", "0") or found.pop("db", 0):
        raise ValueError("a cluster has only database 0")
    limits = {"socket_timeout": patience, "socket_connect_timeout": patience}
    settings = {"max_connections": max(connections, 8), **_settings(**{**limits, **found})}
    # A node that does not answer is taken out and the others are asked; the backend's deadline ends this.
    settings["retry"] = Retry(ExponentialBackoff(cap=0.2, base=0.01), 3)
    RedisCluster(startup_nodes=[ClusterNode(*host) for host in hosts], **settings)

    def make() -> tuple[Client, Callable[[], Awaitable[None]]]:
        client = RedisCluster(startup_nodes=[ClusterNode(*host) for host in hosts], **settings)
        return client, client.aclose

    return make


def _sentinel(
    many: re.Match[str], connections: int, patience: float
) -> Callable[[], tuple[Client, Callable[[], Awaitable[None]]]]:
    hosts = _hosts(many["hosts"], 26379)
    service, _, db = urlsplit(f"//x{many['rest']}").path.strip("/").partition("/")
    if not service:
        raise ValueError("it does not name the service: redis+sentinel://HOST:PORT/SERVICE")
    found = _rest(many, f"/{int(db or 0)}")
    asked = {name[9:]: str(found.pop(name)) for name in list(found) if name.startswith("sentinel_")}
    limits = {"socket_timeout": patience, "socket_connect_timeout": patience}
    own = {**_settings(**limits), **parse_url(f"redis://x?{urlencode(asked)}")}
    del own["host"]
    if "ssl" in found:
        own["ssl"] = True
    settings = {"max_connections": max(connections, 8), **_settings(**found)}

    def make() -> tuple[Client, Callable[[], Awaitable[None]]]:
        sentinel = Sentinel(hosts, sentinel_kwargs=own, **settings)  # type: ignore[no-untyped-call]
        client = sentinel.master_for(unquote(service))

        async def close() -> None:
            for one in (client, *sentinel.sentinels):
                await one.aclose()

        return client, close

    probe, _ = make()
    probe.connection_pool.make_connection()  # type: ignore[union-attr]
    return make
