"""Clients of Redis: by URL, with their retries, and what is said where they fail."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, MasterDownError, ReadOnlyError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError, format_error

Client = Redis | RedisCluster


QUOTED = {"-READONLY": ReadOnlyError, "unauthenticated": AuthenticationError}
"""What an error in another one's text is: Redis 6.2 quotes a script's, and newer ones refuse long calls by it."""


def retry(timeout: float) -> Retry:
    """Up to four more tries, with growing pauses, where another connection may do: this one was lost, its server
    became a replica, or forgot who we are."""
    lost: tuple[Any, ...] = (
        RedisConnectionError,
        RedisTimeoutError,
        TimeoutError,
        ReadOnlyError,
        MasterDownError,
    )
    return Retry(ExponentialBackoff(cap=timeout / 8, base=0.01), 4, lost)


def unavailable(error: Exception, where: str) -> MemoryUnavailableError:
    """The error for a server that could not be reached, or did not answer as it should."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return MemoryUnavailableError(
            "The certificate of Redis is not trusted, or names another host",
            where=where,
            remedy="Add ?ssl_ca_certs=FILE with the certificate of its authority, and use a host that it names.",
        )
    return MemoryUnavailableError(
        f"Redis does not answer: {format_error(error)}",
        where=where,
        remedy="Check that it is up, its address (redis+cluster:// for a cluster) and password, and its log.",
    )


_OURS = frozenset(("decode_responses", "protocol", "retry", "retry_on_error", "retry_on_timeout"))


def connect(source: str | Client, where: str, timeout: float, connections: int) -> Client:
    """A client of a URL, or the one given.

    Raises:
        InputError: ``source`` is neither, or names no server.
    """
    if not isinstance(source, str):
        if not isinstance(source, Redis | RedisCluster) or source.get_encoder().decode_responses:
            raise InputError(
                f"{type(source).__name__} is neither a URL nor a client of redis.asyncio that returns bytes",
                where="url_or_client",
                remedy="Pass a URL, or a redis.asyncio.Redis or RedisCluster without decode_responses.",
            )
        return source
    settings: dict[str, Any] = {
        # The third version costs each connection a further call, and each answer time.
        "protocol": 2,
        "socket_connect_timeout": timeout / 2,
        "max_connections": connections,
    }
    try:
        options = parse_qs(urlsplit(source).query)
        if ours := _OURS & options.keys():
            raise InputError(
                f"The URL sets {', '.join(sorted(ours))}",
                where=where,
                remedy="Remove it: the store reads bytes, and tries again by its own timeout.",
            )
        if (verification := options.get("ssl_cert_reqs", ["none"])[0]) not in (
            "none",
            "optional",
            "required",
        ):
            raise InputError(
                f"ssl_cert_reqs is {verification!r}",
                where=where,
                remedy="Write ssl_cert_reqs=none, optional or required, in place of CERT_NONE and the like.",
            )
        if int(options.get("max_connections", ["1"])[0]) < 1:
            raise ValueError("max_connections is below 1")
        if "+cluster://" in source:
            # A node that stalls is taken for one that failed.
            return RedisCluster.from_url(
                source.replace("+cluster", "", 1),
                socket_timeout=timeout / 2,
                retry=retry(timeout),
                **settings,
            )
        # `_run` measures the time of each call; redis-py would need a task and a timer for that.
        pool = BlockingConnectionPool.from_url(source, timeout=None, socket_timeout=None, **settings)
        pool.make_connection()  # type: ignore[no-untyped-call]
        return Redis.from_pool(pool)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"This is not a URL of a Redis server: {format_error(error)}",
            where=where,
            remedy="Possible are redis://, rediss://, unix://, redis+cluster:// and rediss+cluster://.",
        ) from error


def without_secrets(url: str) -> str:
    """A URL as it may be shown: without user, password and options.

    Example:
        >>> without_secrets("redis://bot:pass%40word@cache:6379/2?ssl_ca_certs=x")
        'redis://cache:6379/2'
    """
    scheme, separator, rest = url.partition("?")[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if separator else "the URL"
