"""Working memories in Redis, shared by any number of workers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jazzmine_dspy.memory.working.base import RecordStore
from jazzmine_dspy.memory.working.redis.backend import RedisBackend
from jazzmine_dspy.memory.working.redis.connect import Client
from jazzmine_dspy.models.errors import InputError

REMEMBER = 30 * 86400.0

SHARED = {
    "jazzmine": ("jazzmine_dspy.integrations.jazzmine.working_memory", "SharedBackend", "JazzmineCodec")
}
"""Records shared with other packages: the module that knows them, its backend and its codec. They stand here by name
alone, since what others keep is no part of a store."""


class RedisWorkingMemoryStore(RecordStore):
    """Working memories in Redis 6.2 or newer, or Valkey; workers that name the same server share them.

    One store serves one event loop at a time; given a URL, it connects anew in each loop. Connections are made
    by the first call.

    Args:
        url_or_client: ``redis://``, ``rediss://``, ``unix://``, ``redis+cluster://HOST:PORT,…``,
            ``redis+sentinel://HOST:PORT,…/SERVICE[/DB]``, or a client of ``redis.asyncio``, which stays its
            owner's to close.
        ttl: Seconds that a state lives without being read or written; 3600 by default.
        prefix: First part of all keys.
        lease: Seconds that a turn is kept without being renewed; it is renewed three times in that span.
        wait: Seconds that a turn waits for the one before it.
        timeout: Seconds after which a call of Redis has failed, with all its tries.
        remember: Seconds beyond ``ttl`` for which an expired conversation is told from one that never was.
        records: ``"own"``, the records of this package, or ``"jazzmine"``, those of the package of that name,
            with its keys: ``prefix`` is then of what we keep beside them.
        connections: Connections at most, for each event loop.
        options: The other arguments of ``RecordStore``.

    Raises:
        InputError: an argument is out of range, or names no Redis server.

    Example:
        >>> RedisWorkingMemoryStore("redis://localhost:6379", ttl=1800).backend.lease
        15.0
    """

    def __init__(
        self,
        url_or_client: str | Client = "redis://localhost:6379",
        *,
        ttl: float = 3600.0,
        prefix: str = "jazzmine",
        lease: float = 15.0,
        wait: float = 15.0,
        timeout: float = 2.0,
        remember: float = REMEMBER,
        records: str = "own",
        connections: int = 64,
        **options: Any,
    ) -> None:
        kind: type[RedisBackend] = RedisBackend
        if records in SHARED:
            module, backend_name, codec_name = SHARED[records]
            shared = import_module(module)
            kind = getattr(shared, backend_name)
            options.setdefault("codec", getattr(shared, codec_name)())
        elif records != "own":
            raise InputError(
                f"Nobody knows records of kind {records!r}",
                where="records",
                remedy='Give "own" or "jazzmine".',
            )
        backend = kind(
            url_or_client,
            ttl=ttl,
            remember=remember,
            prefix=prefix,
            lease=lease,
            timeout=timeout,
            connections=connections,
        )
        super().__init__(backend, wait=wait, **options)
