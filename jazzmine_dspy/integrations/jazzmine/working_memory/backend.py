"""Records in Redis that jazzmine reads and writes, too."""

from __future__ import annotations

from typing import Any

from redis.asyncio import RedisCluster

from jazzmine_dspy.integrations.jazzmine.working_memory.keys import SharedKeys
from jazzmine_dspy.integrations.jazzmine.working_memory.scripts import DROP_LOCK, SHARED, TAKE_LOCK
from jazzmine_dspy.memory.working import _refusals as refusals
from jazzmine_dspy.memory.working.backend import Grant
from jazzmine_dspy.memory.working.redis.backend import RedisBackend
from jazzmine_dspy.memory.working.redis.scripts import Script

_WITH_A_RECORD = ("create", "write")


class SharedBackend(RedisBackend):
    """A :class:`RedisBackend` whose record and lock are jazzmine's: its methods and our turns exclude each other.

    A record that jazzmine has written since it was read has another version, so that a write of ours over it
    is refused as stale. So is one after jazzmine has taken the lock of a turn that lost it.

    Reading and writing never shorten the time that jazzmine gave a record to live. The part beside it is kept
    for twice our time to live, and for as long again whenever we touch it.

    In a Redis Cluster the lock lies in another slot than the record, where no script reaches both: there the
    lock is renewed before a write, in a step of its own, and a worker that stops for a whole lease between
    the two may have its turn overwritten by jazzmine, though never by another worker of ours.
    """

    keys_type = SharedKeys

    async def _run(
        self, script: Script, conversation_id: str, *args: str | bytes | int, aside_id: str = ""
    ) -> Any:
        shared = SHARED[script.name]
        if script.name in _WITH_A_RECORD and isinstance(args[0], bytes):
            main, line, rest = args[0].rpartition(b"\n")
            args = (main, rest, *args[1:]) if line else (rest, b"", *args[1:])
        apart = self._lock_is_apart()
        keys = [
            self.keys.part(conversation_id, part.format(id=aside_id))
            for part in shared.parts
            if not (apart and part == "lock")
        ]
        return await self.calls.run(shared, keys, *args)

    def _lock_is_apart(self) -> bool:
        return isinstance(self.calls.connections.here().client, RedisCluster)

    async def _take(self, conversation_id: str, token: str) -> bool:
        """Take or hold the lock; True where that is left to the script that needs it."""
        if not self._lock_is_apart():
            return True
        lock = [self.keys.part(conversation_id, "lock")]
        return bool(await self.calls.run(TAKE_LOCK, lock, token, self._lease))

    async def _drop(self, conversation_id: str, token: str) -> bool:
        if not self._lock_is_apart():
            return True
        return bool(await self.calls.run(DROP_LOCK, [self.keys.part(conversation_id, "lock")], token))

    async def acquire(self, conversation_id: str, token: str) -> Grant | None:
        """Grant a turn, or None while another token, or jazzmine, has it."""
        if not await self._take(conversation_id, token):
            return None
        return await super().acquire(conversation_id, token)

    async def renew(self, conversation_id: str, token: str, fence: int) -> bool:
        """Hold a turn for another lease; a lease that ran out is taken again where no other turn has begun."""
        if not await super().renew(conversation_id, token, fence):
            return False
        return await self._take(conversation_id, token)

    async def release(self, conversation_id: str, token: str) -> bool:
        """End a turn; False if the token does not have it."""
        released = await super().release(conversation_id, token)
        return await self._drop(conversation_id, token) and released

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
        """Replace the record of version ``expected``; the new version, one more."""
        turn = write_id.rpartition(":")[0]
        if turn and not await self._take(conversation_id, turn):
            raise refusals.turn_lost(conversation_id)
        version = await super().write(
            conversation_id, data, expected=expected, fence=fence, write_id=write_id, release=release
        )
        if release:
            await self._drop(conversation_id, release)
        return version
