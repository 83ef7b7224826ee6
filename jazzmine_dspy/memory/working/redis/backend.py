"""Records in Redis, and turns granted by it."""

from __future__ import annotations

import hashlib
import math
import uuid
from heapq import nsmallest
from typing import Any

from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working import _refusals as refusals
from jazzmine_dspy.memory.working.backend import Grant, Kept, Presence, SetAside
from jazzmine_dspy.memory.working.redis import scripts
from jazzmine_dspy.memory.working.redis.calls import Calls
from jazzmine_dspy.memory.working.redis.connect import Client, Connections
from jazzmine_dspy.memory.working.redis.keys import Keys
from jazzmine_dspy.memory.working.redis.scripts import Script
from jazzmine_dspy.models.errors import InputError

TEN_YEARS = 10 * 366 * 86400.0


class RedisBackend:
    """A :class:`~jazzmine_dspy.memory.working.backend.RecordBackend` over Redis 6.2 or newer, or Valkey.

    Every duty is one script, and one round trip. Times are measured by Redis; the clocks of workers decide
    nothing.

    Args:
        source: A URL, or a client of ``redis.asyncio``.
        ttl: Seconds that a record lives without being read or written.
        remember: Seconds beyond that for which versions, fencing numbers, and why the record is gone are kept.
        prefix: First part of all keys.
        lease: Seconds that a turn is kept without being renewed.
        timeout: Seconds that a call may take.
        connections: Connections at most; further calls wait for one, within their time.

    Raises:
        InputError: an argument is out of range, or ``source`` is no address of a Redis server.
    """

    keys_type: type[Keys] = Keys

    def __init__(
        self,
        source: str | Client,
        *,
        ttl: float,
        remember: float,
        prefix: str,
        lease: float,
        timeout: float,
        connections: int = 64,
    ) -> None:
        self._ttl = _milliseconds("ttl", ttl)
        self._remember = self._ttl + _milliseconds("remember", remember, least=0)
        self._lease = _milliseconds("lease", lease)
        _milliseconds("timeout", timeout)
        if connections < 1:
            raise InputError(
                f"{connections} connections are too few", where="connections", remedy="Give 1 or more."
            )
        self.lease = lease
        self.keys = self.keys_type(prefix)
        self.calls = Calls(Connections(source, connections, timeout), timeout)

    async def _run(
        self, script: Script, conversation_id: str, *args: str | bytes | int, aside_id: str = ""
    ) -> Any:
        """Run a script on the keys of a conversation."""
        parts = (part.format(id=aside_id) for part in script.parts)
        keys = [self.keys.part(conversation_id, part) for part in parts]
        return await self.calls.run(script, keys, *args)

    async def acquire(self, conversation_id: str, token: str) -> Grant | None:
        """Grant a turn, or None while another token has it."""
        times = (self._lease, self._ttl, self._remember)
        found = await self._run(scripts.ACQUIRE, conversation_id, token, *times)
        if found is None:
            return None
        fence, *record = found
        return Grant(int(fence), _kept(record) if record else None)

    async def renew(self, conversation_id: str, token: str, fence: int) -> bool:
        """Hold a turn for another lease; a lease that ran out is taken again where no other turn has begun."""
        times = (self._lease, self._ttl, self._remember)
        return bool(await self._run(scripts.RENEW, conversation_id, token, fence, *times))

    async def release(self, conversation_id: str, token: str) -> bool:
        """End a turn; False if the token does not have it."""
        return bool(await self._run(scripts.RELEASE, conversation_id, token))

    async def read(self, conversation_id: str) -> Kept | None:
        """The record, or None."""
        found = await self._run(scripts.READ, conversation_id, self._ttl, self._remember)
        return None if found is None else _kept(found)

    async def create(self, conversation_id: str, data: bytes, *, fence: int | None) -> Kept:
        """Keep a first record, or give the one that is there."""
        own = "" if fence is None else fence
        found = await self._run(scripts.CREATE, conversation_id, data, own, self._ttl, self._remember)
        if found[0] < 0:
            raise refusals.turn_lost(conversation_id)
        return Kept(data, int(found[0])) if len(found) == 1 else _kept(found)

    async def write(
        self,
        conversation_id: str,
        data: bytes,
        *,
        expected: int,
        fence: int,
        write_id: str,
        release: str = "",
    ) -> int:
        """Replace the record of version ``expected``; the new version, one more.

        What stands in ``write_id`` before its last colon is the token of the turn. After a failover two turns
        may have the same number, and the token tells them apart.
        """
        turn = write_id.rpartition(":")[0]
        times = (self._ttl, self._remember)
        told = (data, expected, fence, write_id, turn, release, *times)
        code, *found = await self._run(scripts.WRITE, conversation_id, *told)
        if code == -1:
            raise refusals.turn_lost(conversation_id)
        if code == -2:
            raise refusals.stale(conversation_id, int(found[0]) if found[0] >= 0 else None, expected)
        return int(found[0])

    async def presence(self, conversation_id: str) -> Presence:
        """Whether there is a record, and if not, why."""
        return Presence((await self._run(scripts.PRESENCE, conversation_id)).decode())

    async def delete(self, conversation_id: str) -> bool:
        """Forget the record, and those of the conversation that were set aside; whether there was any."""
        there, asides = await self._run(scripts.DELETE, conversation_id, uuid.uuid4().hex, self._remember)
        for aside in asides:
            aside_id = aside.decode()
            await self._run(scripts.DROP_ASIDE, conversation_id, aside_id, aside_id=aside_id)
        return bool(there)

    async def set_aside(self, conversation_id: str, *, cause: str, found: Kept | None = None) -> str | None:
        """Move the record to a place of its own, whatever it is; its id there, None where there is none."""
        aside_id = uuid.uuid4().hex[:12]
        wanted = "" if found is None else found.version
        data = None if found is None else found.data
        sha = "" if data is None else hashlib.sha1(data, usedforsecurity=False).hexdigest()
        told = (aside_id, cause.encode(errors="replace"), wanted, sha, self._remember)
        moved = await self._run(scripts.SET_ASIDE, conversation_id, *told, aside_id=aside_id)
        return None if moved is None else aside_id

    async def restore(self, conversation_id: str, aside_id: str) -> None:
        """Put a record that was set aside back in its place, at a new version."""
        told = (aside_id, self._ttl, self._remember)
        code = await self._run(scripts.RESTORE, conversation_id, *told, aside_id=aside_id)
        if code == -1:
            raise refusals.not_aside(conversation_id, aside_id)
        if code == -2:
            raise refusals.in_its_place(conversation_id)
        if code == -3:
            raise StateError(
                f"What was set aside under {aside_id!r} is no record",
                where=f"conversation {conversation_id!r}",
                remedy="Put a mended one in its place.",
            )

    async def aside(self, conversation_id: str) -> list[SetAside]:
        """The records of a conversation that were set aside, oldest first."""
        flat = await self._run(scripts.ASIDES, conversation_id)
        found = []
        for name, entry in zip(flat[::2], flat[1::2], strict=True):
            number, at, cause = entry.decode(errors="replace").split(" ", 2)
            found.append((int(number), name.decode(), float(at), cause))
        return [
            SetAside(aside_id, cause, at, await self._one_aside(conversation_id, aside_id))
            for _, aside_id, at, cause in sorted(found)
        ]

    async def _one_aside(self, conversation_id: str, aside_id: str) -> bytes | None:
        found: bytes | None = await self._run(scripts.ONE_ASIDE, conversation_id, aside_id=aside_id)
        return found

    async def conversations(self, *, limit: int, after: str = "") -> list[str]:
        """Ids of conversations with a record or with one set aside, in the order of the ids.

        It goes through all keys of the database, so it is for operators and not for turns.
        """
        found: set[str] = set()
        for part in self.keys.listed:
            for key in await self.calls.keys(self.keys.pattern(part)):
                conversation_id = self.keys.conversation_of(key, part)
                if conversation_id is not None and conversation_id > after:
                    found.add(conversation_id)
        return nsmallest(limit, found)

    async def close(self) -> None:
        """Close the connections; a client that was handed in stays open."""
        await self.calls.connections.close()


def _kept(found: list[Any]) -> Kept:
    version, data = found
    return Kept(data, int(version))


def _milliseconds(name: str, seconds: float, *, least: float = 0.001) -> int:
    if not least <= seconds <= TEN_YEARS or math.isnan(seconds):
        raise InputError(
            f"{seconds} s is out of range", where=name, remedy=f"Give {least:g} seconds to ten years."
        )
    return max(int(seconds * 1000), 1 if least else 0)
