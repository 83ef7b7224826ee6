"""Working memories in this process: for tests, command lines and single-process assistants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jazzmine_dspy.memory.working.store import REMEMBER, Presence, QuarantineEntry, WorkingMemoryStore
from jazzmine_dspy.memory.working.turn_lock import Record, Turn, stale_state, turn_lost

# Of all stores, as several may share their conversations; event loops of several threads use them.
_one_at_a_time = threading.Lock()


@dataclass(slots=True)
class StoredConversation:
    """What a store in memory knows of a conversation; ``record`` is None once it expired, was deleted or moved aside.

    ``token`` is that of the turn under way, or empty. Times are those of the store's ``monotonic``.
    """

    record: Record | None = None
    version: int = -1
    expires: float = 0.0
    forgotten: float = 0.0
    fence: int = 0
    token: str = ""
    missing: Presence = Presence.ABSENT
    quarantined: list[QuarantineEntry] = field(default_factory=list)


class InMemoryWorkingMemoryStore(WorkingMemoryStore):
    """Working memories in a dictionary, with the guarantees of the other stores, also between threads.

    Args:
        ttl: Seconds that a state lives without being read or written, 3600 by default.
        remember: Seconds beyond ``ttl`` for which versions, numbers of turns, and why a state is gone are remembered.
        conversations: Shared by several stores of one process; a new dictionary by default.
        monotonic: Seconds from any origin; expiry goes by it.
        options: The other arguments of :class:`~jazzmine_dspy.memory.working.store.WorkingMemoryStore`.
    """

    def __init__(
        self,
        *,
        ttl: float = 3600.0,
        remember: float = REMEMBER,
        conversations: dict[str, StoredConversation] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._ttl, self._remember, self._monotonic = ttl, remember, monotonic
        self._conversations = {} if conversations is None else conversations
        self._swept = monotonic()

    @contextmanager
    def _known(self, conversation_id: str) -> Iterator[StoredConversation]:
        """The conversation as it is now: what has outlived its time is gone. Others wait until this one is done."""
        with _one_at_a_time:
            self._sweep()
            yield self._aged(self._conversations.setdefault(conversation_id, StoredConversation()))

    def _aged(self, known: StoredConversation) -> StoredConversation:
        now = self._monotonic()
        if known.record is not None and now >= known.expires:
            known.record, known.missing = None, Presence.EXPIRED
        if known.record is None and now >= known.forgotten:
            known.missing = Presence.ABSENT
        return known

    def _sweep(self) -> None:
        """Once in a time to live, forget conversations of which nothing need be remembered."""
        now = self._monotonic()
        if now - self._swept <= self._ttl:
            return
        self._swept = now
        for conversation_id, known in list(self._conversations.items()):
            gone = self._aged(known).record is None and now >= known.forgotten
            if gone and not known.token and not known.quarantined:
                del self._conversations[conversation_id]

    def _touched(self, known: StoredConversation) -> Record | None:
        known.forgotten = self._monotonic() + self._ttl + self._remember
        known.expires = self._monotonic() + self._ttl
        return known.record

    def _put(self, known: StoredConversation, data: bytes) -> Record:
        known.version += 1
        known.record = Record(data, known.version)
        self._touched(known)
        return known.record

    async def _begin(self, conversation_id: str, token: str) -> Turn | None:
        with self._known(conversation_id) as known:
            if known.token not in ("", token):
                return None
            known.token, known.fence = token, known.fence + 1
            return Turn(conversation_id, token, known.fence, self._touched(known))

    async def _end(self, conversation_id: str, token: str) -> None:
        with self._known(conversation_id) as known:
            if known.token == token:
                known.token = ""

    async def _read(self, conversation_id: str) -> Record | None:
        with self._known(conversation_id) as known:
            return self._touched(known) if known.record else None

    async def _create(self, conversation_id: str, data: bytes, turn: Turn | None) -> Record:
        with self._known(conversation_id) as known:
            if turn is not None and turn.fence != known.fence:
                raise turn_lost(conversation_id)
            return self._touched(known) or self._put(known, data)

    async def _write(self, turn: Turn, data: bytes, expected: int) -> int:
        with self._known(turn.conversation_id) as known:
            if turn.fence != known.fence:
                raise turn_lost(turn.conversation_id)
            if known.record is None or known.version != expected:
                raise stale_state(turn.conversation_id, known.version if known.record else None, expected)
            return self._put(known, data).version

    async def _presence(self, conversation_id: str) -> Presence:
        with self._known(conversation_id) as known:
            return Presence.PRESENT if known.record else known.missing

    async def _delete(self, conversation_id: str) -> bool:
        with self._known(conversation_id) as known:
            there = known.record is not None or bool(known.quarantined)
            known.record, known.missing, known.quarantined = None, Presence.ABSENT, []
            return there

    async def _quarantine(self, conversation_id: str, record: Record, cause: str) -> None:
        with self._known(conversation_id) as known:
            if known.record is not None and known.version == record.version:
                known.quarantined.append(QuarantineEntry(known.record.data or b"", cause, self.clock()))
                known.record, known.missing = None, Presence.UNREADABLE

    async def _quarantined(self, conversation_id: str) -> list[QuarantineEntry]:
        with self._known(conversation_id) as known:
            return list(known.quarantined)
