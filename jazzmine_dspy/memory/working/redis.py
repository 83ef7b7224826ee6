"""Working memories in Redis, shared by any number of workers."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisClusterException, RedisError, ResponseError

from jazzmine_dspy.memory.working.redis_client import (
    QUOTED,
    Client,
    connect,
    retry,
    unavailable,
    without_secrets,
)
from jazzmine_dspy.memory.working.store import REMEMBER, Presence, QuarantineEntry, WorkingMemoryStore
from jazzmine_dspy.memory.working.turn_lock import Record, Turn, stale_state, turn_lost
from jazzmine_dspy.models.errors import InputError

TEN_YEARS = 10 * 366 * 86400.0

# What Redis does in one atomic step. Each script may be repeated if its answer was lost. The lock is a key that holds
# the token of the turn under way.

HOLD = """
local function hold(key, token, lease, take)
  if redis.pcall('GET', key) == token then return redis.call('PEXPIRE', key, lease) end
  if take and redis.call('SET', key, token, 'NX', 'PX', lease) then return 1 end
  -- A lock without an end, or with one far off since the clock jumped, would close the conversation for good.
  local left = redis.call('PTTL', key)
  if left == -1 or left > 4 * lease then redis.call('PEXPIRE', key, lease) end
  return 0
end
"""

LOCK = HOLD + "return hold(KEYS[1], ARGV[1], ARGV[2], ARGV[3] == 'take')"
"""Extend the lock of this token; or take a free one."""

UNLOCK = "return redis.pcall('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"

LIST = "return redis.call('LRANGE', KEYS[1], 0, -1)"

# The record is a text. Where other programs write it too, a second text lies beside it. A hash of counters outlives
# both: `f` the number of the newest turn and `t` its token, `v` the newest version and `w` the token that wrote it,
# `g` why the record is gone, and `s` the sum of the text that `v` counts, if others write it.
PRELUDE = """
local STATE, META, ASIDE, BESIDE, TTL = KEYS[1], KEYS[2], KEYS[3], KEYS[5], tonumber(ARGV[1])
local there = redis.call('EXISTS', STATE) == 1
local function meta(name)
  local value = redis.pcall('HGET', META, name)
  if type(value) == 'string' then return value end
  -- Counters that are no hash, as another program left them, start over.
  if value then redis.call('DEL', META) end
  return nil
end
local function mine(fence, token) return meta('f') == fence and meta('t') == token end
local function text(key)
  local content = key and redis.pcall('GET', key)
  return type(content) == 'string' and content
end
local function version()
  local v, sum = tonumber(meta('v')) or -1, BESIDE and there and redis.sha1hex(text(STATE) or '')
  if (there and v < 0) or (sum and sum ~= meta('s')) then
    v = v + 1
    redis.call('HSET', META, 'v', v, 's', sum or '')
    redis.call('HDEL', META, 'g')
  end
  return v
end
local function extend(key, ttl)
  local left = redis.call('PTTL', key)
  if left >= 0 and left < ttl then redis.call('PEXPIRE', key, ttl) end
end
local function record()
  redis.call('PEXPIRE', META, ARGV[2])
  if not there then return end
  extend(STATE, TTL)
  if BESIDE then extend(BESIDE, 2 * TTL) end
  return version(), text(STATE), text(BESIDE) or ''
end
local function put(data, beside, token)
  local v, left = version() + 1, redis.call('PTTL', STATE)
  redis.call('SET', STATE, data)
  if left ~= -1 then redis.call('PEXPIRE', STATE, math.max(left, TTL)) end
  if BESIDE then redis.call('SET', BESIDE, beside, 'PX', 2 * math.max(left, TTL)) end
  redis.call('HSET', META, 'v', v, 'w', token, 's', BESIDE and redis.sha1hex(data) or '')
  redis.call('HDEL', META, 'g')
  redis.call('PEXPIRE', META, ARGV[2])
  return v
end
"""

READ = "return {0, record()}"

BEGIN = (
    HOLD
    + """
if ARGV[4] ~= '' and hold(KEYS[4], ARGV[3], ARGV[4], true) == 0 then return false end
local fence = tonumber(meta('f')) or 0
if meta('t') ~= ARGV[3] then
  fence = fence + 1
  redis.call('HSET', META, 'f', fence, 't', ARGV[3])
end
return {fence, record()}
"""
)
"""Begin the turn of a token and read the record; with a lease, take the lock as well."""

CREATE = """
if ARGV[3] ~= '' and not mine(ARGV[3], ARGV[4]) then return {-1} end
if there then return {0, record()} end
return {0, put(ARGV[5], ARGV[6], ARGV[4]), ARGV[5], ARGV[6]}
"""

WRITE = """
local v, expected = version(), tonumber(ARGV[7])
if v == expected + 1 and meta('w') == ARGV[4] and text(STATE) == ARGV[5] then return {1, v} end
if not mine(ARGV[3], ARGV[4]) then return {-1} end
if not there or v ~= expected then return {0, there and v or -1} end
if ARGV[8] == 'end' and redis.pcall('GET', KEYS[4]) == ARGV[4] then redis.call('DEL', KEYS[4]) end
return {1, put(ARGV[5], ARGV[6], ARGV[4])}
"""
"""Write over the version expected, in the newest turn, which may end with it; a repetition is recognised by its token
and its data."""

PRESENCE = "return there and 'present' or meta('g') or (meta('v') and 'expired') or 'absent'"

REMOVE = """
local gone = there or redis.call('EXISTS', ASIDE) == 1
if ARGV[3] == 'absent' then
  redis.call('DEL', ASIDE)
else
  if not there or version() ~= tonumber(ARGV[4]) then return 0 end
  local now = redis.call('TIME')
  local data = text(STATE) or redis.call('DUMP', STATE)
  redis.call('RPUSH', ASIDE, string.format('%d.%06d', now[1], now[2]), ARGV[5], data, text(BESIDE) or '')
end
redis.call('DEL', STATE)
if BESIDE then redis.call('DEL', BESIDE) end
if gone or redis.call('EXISTS', META) == 1 then
  redis.call('HSET', META, 'g', ARGV[3])
  redis.call('PEXPIRE', META, ARGV[2])
end
return gone and 1 or 0
"""
"""Delete the record and those moved aside, or move the record aside."""


class RedisWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in Redis 6.2 or newer, or Valkey; workers that name the same server share them.

    Given a URL, a store serves any number of event loops, in several threads and in a forked child too. Redis measures
    all times; the clocks of workers decide nothing. The keys of a conversation are ``PREFIX:{ID}:PART``, with the id
    percent-encoded, in one slot of a cluster. The parts are ``state``, ``meta``, ``lock`` and ``aside``.

    Args:
        url_or_client: ``redis://``, ``rediss://`` or ``unix://``; ``redis+cluster://HOST:PORT`` or
            ``rediss+cluster://`` for a cluster; or a client of ``redis.asyncio`` that does not decode responses, such
            as the master that a sentinel names. Its owner closes a client.
        ttl: Seconds that a state lives without being read or written; 3600 by default.
        prefix: Prefix of all keys.
        lease: Seconds that a turn is held without being renewed; it is renewed three times in that span.
        timeout: Seconds after which a call of Redis has failed, with all its tries.
        remember: Seconds beyond ``ttl`` for which versions, numbers of turns, and why a state is gone are remembered.
        connections: Connections at most; further calls wait for one, within their time.
        options: The other arguments of :class:`~jazzmine_dspy.memory.working.store.WorkingMemoryStore`.

    Raises:
        InputError: an argument is out of range, or names no Redis server.

    Example:
        >>> store = RedisWorkingMemoryStore("redis://localhost:6379", ttl=1800)
        >>> store.key("order 7{", "state")
        'jazzmine:{order%207%7B}:state'
    """

    beside = False
    """Whether a second text lies beside the record, behind the last line break of what is encoded."""

    def __init__(
        self,
        url_or_client: str | Client = "redis://localhost:6379",
        *,
        ttl: float = 3600.0,
        prefix: str = "jazzmine",
        lease: float = 15.0,
        timeout: float = 2.0,
        remember: float = REMEMBER,
        connections: int = 64,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        for name, value, least in (
            ("ttl", ttl, 0.001),
            ("lease", lease, 0.001),
            ("timeout", timeout, 0.001),
            ("remember", remember, 0),
            ("connections", connections, 1),
        ):
            if not least <= value <= TEN_YEARS:
                raise InputError(
                    f"{value} is out of range", where=name, remedy=f"Give {least:g} or more, and no eternity."
                )
        if not prefix or set("{}") & set(prefix):
            raise InputError(
                f"{prefix!r} cannot be a prefix of keys",
                where="prefix",
                remedy="Name one without braces, which choose the slot in a cluster.",
            )
        self.lease, self.prefix, self._timeout = lease, prefix, timeout
        self._retry = retry(timeout)
        self._life = int(ttl * 1000), int((ttl + remember) * 1000)
        self._owned = isinstance(url_or_client, str)
        self._where = without_secrets(url_or_client) if isinstance(url_or_client, str) else "the client given"
        self._connect = partial(connect, url_or_client, self._where, timeout, connections)
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()
        client = self._connect()
        self._lock, self._unlock, self._list = map(client.register_script, (LOCK, UNLOCK, LIST))
        scripts = (BEGIN, READ, CREATE, WRITE, PRESENCE, REMOVE)
        self._beginning, self._reading, self._creating, self._writing, self._present, self._remove = (
            client.register_script(PRELUDE + script) for script in scripts
        )

    def key(self, conversation_id: str, part: str) -> str:
        """The key of one part of a conversation."""
        return f"{self.prefix}:{{{quote(conversation_id, safe='')}}}:{part}"

    @property
    def _client(self) -> Client:
        """The client of the running event loop. Connections work in the loop that made them only."""
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            client = self._clients[loop] = self._connect()
        return client

    async def _run(self, script: Any, keys: list[str], *args: str | bytes | int) -> Any:
        client = self._client

        async def attempt() -> Any:
            try:
                # A connection that stalls leaves time to try another one.
                async with asyncio.timeout(self._timeout / 2):
                    return await script(keys=keys, args=args, client=client)
            except ResponseError as error:
                for text, kind in QUOTED.items():
                    if text in str(error):
                        raise kind from error
                raise
            except AttributeError as error:
                # In redis-py, a cluster's client closes connections to a lost node under those who open them.
                raise RedisConnectionError from error

        async def reconnect(_: Exception) -> None:
            # Idle connections may lead to the former primary too; a new one looks up the address. A cluster's client
            # does this itself.
            if isinstance(client, Redis):
                await client.connection_pool.disconnect(inuse_connections=False)

        try:
            async with asyncio.timeout(self._timeout):
                return await self._retry.call_with_retry(attempt, reconnect)
        except RuntimeError as error:
            # asyncio's own text, for a connection that was made in another loop.
            if "loop" not in str(error):
                raise
            raise InputError(
                "The Redis client belongs to another event loop",
                where=self._where,
                remedy="Pass a URL, or create the client and the store in the loop that uses them.",
            ) from error
        except (RedisError, RedisClusterException, OSError) as error:
            raise unavailable(error, self._where) from error

    async def _call(self, script: Any, conversation_id: str, *args: str | bytes | int) -> Any:
        """Run a script over the record of a conversation."""
        # Where a second text lies beside, the lock may be in another slot of a cluster, and is left out.
        parts = ("state", "meta", "aside", *(("meta", "beside") if self.beside else ("lock",)))
        return await self._run(
            script, [self.key(conversation_id, part) for part in parts], *self._life, *args
        )

    def _texts(self, data: bytes) -> tuple[bytes, bytes]:
        text, _, beside = data.rpartition(b"\n") if self.beside else (data, b"", b"")
        return text, beside

    def _joined(self, text: bytes, beside: bytes) -> bytes:
        return text + b"\n" + beside if self.beside else text

    def _record(self, answer: list[Any]) -> Record | None:
        if len(answer) == 1:
            return None
        _, version, text, beside = answer
        return Record(None if text is None else self._joined(text, beside), version)

    async def _hold(self, conversation_id: str, token: str, how: str) -> bool:
        """Extend the lock of this token, or ``take`` it; whether it holds it now."""
        key = [self.key(conversation_id, "lock")]
        return bool(await self._run(self._lock, key, token, int(self.lease * 1000), how))

    async def _begin(self, conversation_id: str, token: str) -> Turn | None:
        if self.beside and not await self._hold(conversation_id, token, "take"):
            return None
        lease = "" if self.beside else int(self.lease * 1000)
        answer = await self._call(self._beginning, conversation_id, token, lease)
        return Turn(conversation_id, token, answer[0], self._record(answer)) if answer else None

    async def _renew(self, turn: Turn) -> bool:
        return await self._hold(turn.conversation_id, turn.token, "extend")

    async def _end(self, conversation_id: str, token: str) -> None:
        await self._run(self._unlock, [self.key(conversation_id, "lock")], token)

    async def _read(self, conversation_id: str) -> Record | None:
        return self._record(await self._call(self._reading, conversation_id))

    async def _create(self, conversation_id: str, data: bytes, turn: Turn | None) -> Record:
        whose = (turn.fence, turn.token) if turn else ("", "")
        answer = await self._call(self._creating, conversation_id, *whose, *self._texts(data))
        if (record := self._record(answer)) is None:
            raise turn_lost(conversation_id)
        return record

    async def _write(self, turn: Turn, data: bytes, expected: int) -> int:
        last = turn.single and not self.beside
        arguments = (turn.fence, turn.token, *self._texts(data), expected, "end" if last else "")
        written, *version = await self._call(self._writing, turn.conversation_id, *arguments)
        if written < 0:
            raise turn_lost(turn.conversation_id)
        if not written:
            raise stale_state(turn.conversation_id, version[0] if version[0] >= 0 else None, expected)
        turn.ended = last
        return int(version[0])

    async def _presence(self, conversation_id: str) -> Presence:
        return Presence((await self._call(self._present, conversation_id)).decode())

    async def _delete(self, conversation_id: str) -> bool:
        return bool(await self._call(self._remove, conversation_id, "absent"))

    async def _quarantine(self, conversation_id: str, record: Record, cause: str) -> None:
        why = ("unreadable", record.version, cause.encode(errors="replace"))
        await self._call(self._remove, conversation_id, *why)

    async def _quarantined(self, conversation_id: str) -> list[QuarantineEntry]:
        flat = await self._run(self._list, [self.key(conversation_id, "aside")])
        return [
            QuarantineEntry(self._joined(data, beside), cause.decode(), float(at))
            for at, cause, data, beside in zip(*(flat[first::4] for first in range(4)), strict=True)
        ]

    async def _close(self) -> None:
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if self._owned and client is not None:
            await client.aclose()
