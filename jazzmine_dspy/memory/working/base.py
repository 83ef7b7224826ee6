"""A store of working memories over any backend: turns, states, and what happens to unreadable records."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeVar

from jazzmine_dspy.memory.errors import NotStoredError, UnreadableRecordError
from jazzmine_dspy.memory.working.backend import Kept, Presence, RecordBackend, SetAside
from jazzmine_dspy.memory.working.codec import JsonCodec, at_version
from jazzmine_dspy.memory.working.ids import checked_id
from jazzmine_dspy.memory.working.lease import Lease
from jazzmine_dspy.memory.working.operations import Step
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.memory.working.turns import Turns
from jazzmine_dspy.models.errors import InputError

R = TypeVar("R")

logger = logging.getLogger(__name__)

_BEGAN_AFTER: dict[Presence, Literal["nothing", "expiry", "corruption"]] = {
    Presence.EXPIRED: "expiry",
    Presence.UNREADABLE: "corruption",
}


class RecordStore(WorkingMemoryStore):
    """Turns and states over a :class:`~jazzmine_dspy.memory.working.backend.RecordBackend`.

    It is used in one event loop at a time, by any number of tasks.

    Args:
        backend: Where records are kept.
        codec: Between states and records.
        wait: Seconds that a turn waits for the one before it, 15 by default.
        clock: Unix time in seconds, for what is written into states; nothing is decided by it.
        seed: Of the jitter between tries; None draws one.
    """

    def __init__(
        self,
        backend: RecordBackend,
        *,
        codec: JsonCodec | None = None,
        wait: float = 15.0,
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
    ) -> None:
        self.backend = backend
        self._codec = codec or JsonCodec()
        self._clock = clock
        self._turns = Turns(backend, wait=wait, seed=seed)

    # --- turns -------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def turn(self, conversation_id: str) -> AsyncIterator[int]:
        """Wait for this conversation's turn and hold it; gives the turn's fencing number, from 1.

        All that this task does with the conversation until the end belongs to the turn; so does a turn begun
        within it, which is the same one. What tasks begun in the turn read and write belongs to it as long as
        it lasts; a turn that such a task begins is another one, and waits for the end of this one.

        Raises:
            LockTimeoutError: on entering, if the waiting time is over.
            MemoryUnavailableError: the store does not answer.
            InputError: the id is none; or another event loop is at work with the conversation.
        """
        async with self._turns.entered(checked_id(conversation_id)) as lease:
            yield lease.fence

    @property
    def locks(self) -> int:
        """Conversations with a turn of this process under way or waited for."""
        return len(self._turns)

    # --- states ------------------------------------------------------------------------------------------

    async def get_or_create(self, conversation_id: str, user_id: str, agent_id: str = "") -> WorkingMemory:
        """The state of a conversation; a new one, already kept, where there is none.

        ``user_id`` and ``agent_id`` count for a new one only. Its ``began_after`` says what became of an
        earlier one.

        Raises:
            TurnLostError: there is none, and this turn may not make it: another one has begun.
        """
        async with self._at_work(conversation_id) as lease:
            while True:
                known = await self._read(conversation_id, lease)
                if known is not None:
                    return known
                now = self._clock()
                presence = await self.backend.presence(conversation_id)
                fresh = WorkingMemory(
                    conversation_id=conversation_id,
                    user_id=user_id,
                    agent_id=agent_id,
                    created_at=now,
                    last_updated=now,
                    began_after=_BEGAN_AFTER.get(presence, "nothing"),
                )
                data, twin = self._encoded(fresh)
                kept = await self.backend.create(conversation_id, data, fence=lease.fence if lease else None)
                if lease is not None:
                    lease.learn(kept)
                # Else another worker was first; what it made is read like any other.
                if kept.data == data:
                    return at_version(twin, kept.version)
                if lease is None:
                    known = await self._decoded(conversation_id, kept)
                    if known is not None:
                        return known

    async def get(self, conversation_id: str) -> WorkingMemory | None:
        """The state of a conversation, or None; :meth:`presence` tells why there is none.

        An unreadable record is moved aside, with its cause, and logged.
        """
        async with self._at_work(conversation_id) as lease:
            return await self._read(conversation_id, lease)

    async def save(self, state: WorkingMemory) -> WorkingMemory:
        """Keep a state, and return it at its new version; what is returned shares nothing with what was given.

        Raises:
            StaleStateError: another turn has written since ``state`` was read, or the conversation is gone.
            TurnLostError: this turn outlived its lease, and another one has begun.
            InputError: the state is too large, or holds what would not come back as it is.
        """
        async with self._in_turn(state.conversation_id) as (lease, own):
            _, twin = await self._write(state, lease, release=own)
            assert twin is not None
            return twin

    async def delete(self, conversation_id: str) -> bool:
        """Forget a conversation, records of it that were set aside among them; whether there was one.

        It does not wait for a turn: one under way finds out when it writes.
        """
        async with self._at_work(conversation_id, forget=True):
            return await self.backend.delete(conversation_id)

    async def presence(self, conversation_id: str) -> Presence:
        """Whether there is a state, and if not, whether one expired, was unreadable, or never was."""
        return await self.backend.presence(checked_id(conversation_id))

    async def operate(
        self, conversation_id: str, change: Callable[[WorkingMemory], R]
    ) -> tuple[WorkingMemory, R]:
        """Change a state in one step: in the turn that this task is in, else in a turn of its own."""
        step = change if isinstance(change, Step) else None
        async with self._in_turn(conversation_id) as (lease, own):
            state = await self._read(conversation_id, lease)
            if state is None:
                raise NotStoredError(
                    "No such conversation",
                    where=f"conversation {conversation_id!r}",
                    remedy="Begin it with get_or_create.",
                )
            result: R = change(state) if step is None else step(state, self._clock())
            written, twin = await self._write(
                state, lease, release=own, checked=step is not None and step.short
            )
            # Read back already, and nobody else's: the next operation of the turn need not do it again.
            lease.twin = twin
            return written, result

    async def close(self) -> None:
        """Let go of connections, once what runs in the background has ended."""
        await self._turns.settled()
        await self.backend.close()

    # --- inspection --------------------------------------------------------------------------------------

    async def conversations(self, *, limit: int = 100, after: str = "") -> list[str]:
        """Ids of conversations with a state or with a record set aside, in the order of their code points.

        Args:
            limit: At most so many, 1 or more.
            after: Only those behind this id, for the next page.
        """
        if limit < 1:
            raise InputError(
                "A page has at least one entry", where=f"limit {limit}", remedy="Ask for 1 or more."
            )
        return await self.backend.conversations(limit=limit, after=after)

    async def aside(self, conversation_id: str) -> list[SetAside]:
        """The records of a conversation that were set aside, oldest first."""
        return await self.backend.aside(checked_id(conversation_id))

    async def set_aside(self, conversation_id: str, *, cause: str) -> str | None:
        """Move a conversation's record aside, readable or not; its id there, None where there is none.

        Like :meth:`delete` it does not wait for a turn.
        """
        async with self._at_work(conversation_id, forget=True):
            return await self.backend.set_aside(conversation_id, cause=cause)

    async def restore(self, conversation_id: str, aside_id: str) -> None:
        """Put a record that was set aside back in its place, at a new version.

        Raises:
            NotStoredError: none was set aside under that id.
            StateError: the conversation has gone on, and its record is in that place.
        """
        async with self._at_work(conversation_id, forget=True):
            await self.backend.restore(conversation_id, aside_id)

    # --- records -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _at_work(self, conversation_id: str, *, forget: bool = False) -> AsyncIterator[Lease | None]:
        """The turn that this task is in, kept from its other tasks meanwhile; None where it is in none."""
        lease = self._turns.current(checked_id(conversation_id))
        if lease is None:
            yield None
            return
        async with lease.serial:
            if forget:
                lease.forget()
            yield lease

    @asynccontextmanager
    async def _in_turn(self, conversation_id: str) -> AsyncIterator[tuple[Lease, bool]]:
        """The turn that this task is in, else one of its own, and whether it is."""
        async with self._at_work(conversation_id) as lease:
            if lease is not None:
                yield lease, False
                return
        async with self._turns.own(conversation_id) as own:
            yield own, True

    async def _read(self, conversation_id: str, lease: Lease | None) -> WorkingMemory | None:
        """The state as it is now, as far as the turn knows; the caller's own."""
        if lease is None or not lease.known:
            kept = await self.backend.read(conversation_id)
            if lease is not None:
                lease.learn(kept)
        elif (twin := lease.taken()) is not None:
            return twin
        else:
            kept = lease.kept
        state = await self._decoded(conversation_id, kept) if kept else None
        if lease is not None and state is None:
            lease.learn(None)
        return state

    async def _write(
        self, state: WorkingMemory, lease: Lease, *, release: bool, checked: bool = False
    ) -> tuple[WorkingMemory, WorkingMemory | None]:
        """Write a state; it at its new version, and, unless it was checked, the same read back, which shares
        nothing with it."""
        written = state.model_copy(update={"last_updated": self._clock()})
        data, twin = (self._codec.encode(written), None) if checked else self._encoded(written)
        # Until it is known how the write ended, nothing is known of the record.
        lease.forget()
        version = await self.backend.write(
            lease.conversation_id,
            data,
            expected=state.version,
            fence=lease.fence,
            write_id=lease.write_id(),
            release=lease.token if release else "",
        )
        lease.learn(Kept(data, version))
        lease.released = release
        return at_version(written, version), at_version(twin, version) if twin is not None else None

    def _encoded(self, state: WorkingMemory) -> tuple[bytes, WorkingMemory]:
        """A state as bytes, and what they will be read as.

        A list within a state takes whatever is put into it; a record that cannot be read would be the end of
        the conversation.
        """
        data = self._codec.encode(state)
        try:
            twin = self._codec.read_back(data, version=state.version, conversation_id=state.conversation_id)
            cause = "" if twin == state else "it would not come back as it is"
        except UnreadableRecordError as error:
            cause = error.message
        if cause:
            raise InputError(
                f"The state cannot be stored: {cause}",
                where=f"conversation {state.conversation_id!r}",
                remedy="Keep JSON values only, and models where models belong.",
            )
        return data, twin

    async def _decoded(self, conversation_id: str, kept: Kept) -> WorkingMemory | None:
        """The state of a record; None where it is unreadable, and was moved aside."""
        try:
            return self._codec.decode(kept.data, version=kept.version, conversation_id=conversation_id)
        except UnreadableRecordError as error:
            logger.error("%s", error)
            await self.backend.set_aside(conversation_id, cause=error.message, found=kept)
            return None
