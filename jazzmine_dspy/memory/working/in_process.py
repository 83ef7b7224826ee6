"""Working memories in this process: for tests, command lines and single-process assistants."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.memory.working._refusals import in_its_place, not_aside, stale, turn_lost
from jazzmine_dspy.memory.working.backend import Grant, Kept, Presence, SetAside
from jazzmine_dspy.memory.working.base import RecordStore


@dataclass(slots=True)
class _Conversation:
    """What is known of a conversation; ``data`` is gone once it expired, was deleted or set aside."""

    data: bytes | None = None
    version: int = -1
    expires: float = 0.0
    forgotten: float = 0.0
    fence: int = 0
    holder: str = ""
    loop: asyncio.AbstractEventLoop | None = None
    last_write: str = ""
    missing: Presence = Presence.ABSENT
    aside: dict[str, SetAside] | None = None
    aside_count: int = 0


class InProcessBackend:
    """A :class:`~jazzmine_dspy.memory.working.backend.RecordBackend` over a dictionary, for one event loop.

    A turn is not lost by taking long, unless :meth:`lapse` is called; it ends with its event loop.

    Args:
        ttl: Seconds that a record lives without being read or written; 3600 by default.
        remember: Seconds for which an expired one is told from one that never was, and for which the numbers of
            versions and turns grow on; 30 days by default.
        monotonic: Seconds from any origin; expiry goes by it.
        clock: Unix time in seconds, noted beside records that are set aside.
    """

    lease = math.inf

    def __init__(
        self,
        *,
        ttl: float = 3600.0,
        remember: float = 30 * 86400.0,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ttl = ttl
        self._remember = remember
        self._monotonic = monotonic
        self._clock = clock
        self._conversations: dict[str, _Conversation] = {}
        self._swept = monotonic()

    def __len__(self) -> int:
        """Conversations that something is known of, as long as nobody asked for those that are over."""
        return len(self._conversations)

    def _known(self, conversation_id: str) -> _Conversation:
        """The conversation as it is now: what has outlived its time is gone."""
        now = self._monotonic()
        if now - self._swept > self._ttl:
            self._sweep(now)
        known = self._conversations.get(conversation_id)
        if known is None:
            return _Conversation()
        self._age(known, now)
        return known

    def _age(self, known: _Conversation, now: float) -> None:
        if known.data is not None and now >= known.expires:
            known.data, known.missing = None, Presence.EXPIRED
        if now >= known.forgotten and known.data is None:
            known.missing = Presence.ABSENT

    def _sweep(self, now: float) -> None:
        """Let go of what is neither kept, remembered, held nor set aside, so that ids do not pile up."""
        self._swept = now
        for conversation_id, known in list(self._conversations.items()):
            self._age(known, now)
            gone = known.data is None and now >= known.forgotten
            if gone and not known.holder and not known.aside:
                del self._conversations[conversation_id]

    def _own(self, conversation_id: str) -> _Conversation:
        known = self._known(conversation_id)
        return self._conversations.setdefault(conversation_id, known)

    def _touch(self, known: _Conversation) -> None:
        now = self._monotonic()
        known.expires, known.forgotten = now + self._ttl, now + self._ttl + self._remember

    async def acquire(self, conversation_id: str, token: str) -> Grant | None:
        """Grant a turn, or None while another token has it."""
        known = self._own(conversation_id)
        if known.holder != token:
            # Nobody is left to end the turn of a loop that was closed.
            if known.holder and known.loop is not None and not known.loop.is_closed():
                return None
            known.holder, known.loop = token, asyncio.get_running_loop()
            known.fence += 1
        # Numbers of turns are remembered as long as an expired record is, even where there is no record.
        known.forgotten = max(known.forgotten, self._monotonic() + self._ttl + self._remember)
        return Grant(known.fence, await self.read(conversation_id))

    async def renew(self, conversation_id: str, token: str, fence: int) -> bool:
        """Whether the turn is still this token's, or could be again."""
        known = self._known(conversation_id)
        if not known.holder and known.fence == fence:
            known.holder, known.loop = token, asyncio.get_running_loop()
        return known.holder == token

    async def release(self, conversation_id: str, token: str) -> bool:
        """End a turn; False if the token does not have it."""
        known = self._known(conversation_id)
        if known.holder != token:
            return False
        known.holder, known.loop = "", None
        return True

    def lapse(self, conversation_id: str) -> bool:
        """Let the turn under way lose its lease, e.g. that of a task that hangs; whether there was one.

        The next turn need not wait for it then, and what it writes later is refused.
        """
        known = self._known(conversation_id)
        there = bool(known.holder)
        known.holder, known.loop = "", None
        return there

    async def read(self, conversation_id: str) -> Kept | None:
        """The record, or None."""
        known = self._known(conversation_id)
        if known.data is None:
            return None
        self._touch(known)
        return Kept(known.data, known.version)

    async def create(self, conversation_id: str, data: bytes, *, fence: int | None) -> Kept:
        """Keep a first record, or give the one that is there."""
        known = self._own(conversation_id)
        if fence is not None and fence != known.fence:
            raise turn_lost(conversation_id)
        if known.data is None:
            known.data, known.version, known.last_write = data, known.version + 1, ""
            self._touch(known)
        return Kept(known.data, known.version)

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
        known = self._known(conversation_id)
        if known.last_write != write_id or known.data is None:
            if fence != known.fence:
                raise turn_lost(conversation_id)
            if known.data is None or known.version != expected:
                raise stale(conversation_id, None if known.data is None else known.version, expected)
            known.data, known.version, known.last_write = data, known.version + 1, write_id
        self._touch(known)
        if release and known.holder == release:
            known.holder, known.loop = "", None
        return known.version

    async def presence(self, conversation_id: str) -> Presence:
        """Whether there is a record, and if not, why."""
        known = self._known(conversation_id)
        return Presence.PRESENT if known.data is not None else known.missing

    async def delete(self, conversation_id: str) -> bool:
        """Forget the record, and those of the conversation that were set aside; whether there was any."""
        known = self._known(conversation_id)
        there = known.data is not None or bool(known.aside)
        known.data, known.missing, known.aside = None, Presence.ABSENT, None
        return there

    async def set_aside(self, conversation_id: str, *, cause: str, found: Kept | None = None) -> str | None:
        """Move the record to a place of its own; its id there, None where there is none."""
        known = self._known(conversation_id)
        if known.data is None or found not in (None, Kept(known.data, known.version)):
            return None
        known.aside_count += 1
        aside_id = str(known.aside_count)
        known.aside = {
            **(known.aside or {}),
            aside_id: SetAside(aside_id, cause, self._clock(), known.data),
        }
        known.data, known.missing = None, Presence.UNREADABLE
        return aside_id

    async def restore(self, conversation_id: str, aside_id: str) -> None:
        """Put a record that was set aside back in its place, at a new version."""
        known = self._known(conversation_id)
        aside = dict(known.aside or {})
        if aside_id not in aside:
            raise not_aside(conversation_id, aside_id)
        if known.data is not None:
            raise in_its_place(conversation_id)
        known.data, known.version, known.last_write = aside.pop(aside_id).data, known.version + 1, ""
        known.aside = aside
        self._touch(known)

    async def aside(self, conversation_id: str) -> list[SetAside]:
        """The records of a conversation that were set aside, oldest first."""
        return list((self._known(conversation_id).aside or {}).values())

    async def conversations(self, *, limit: int, after: str = "") -> list[str]:
        """Ids of conversations with a record or with one set aside, in the order of the ids."""
        self._sweep(self._monotonic())
        found = (c for c, known in self._conversations.items() if known.data is not None or known.aside)
        return sorted(c for c in found if c > after)[:limit]

    async def close(self) -> None:
        """Nothing to let go of."""


class InMemoryWorkingMemoryStore(RecordStore):
    """Working memories over a dictionary, with all the promises of the other stores, for one event loop.

    Args:
        backend: Shared by several stores of one process; a new one where none is given.
        wait: Seconds that a turn waits for the one before it, 15 by default.
        ttl: Seconds that a state lives without being read or written, 3600 by default; of a new backend only.
        options: The other arguments of ``RecordStore``.
    """

    def __init__(
        self,
        *,
        backend: InProcessBackend | None = None,
        wait: float = 15.0,
        ttl: float = 3600.0,
        **options: Any,
    ) -> None:
        super().__init__(InProcessBackend(ttl=ttl) if backend is None else backend, wait=wait, **options)
