"""A store of working memories over any backend: turns, states, and what happens to unreadable records."""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

from jazzmine_dspy.memory.errors import LockTimeoutError, NotStoredError, UnreadableRecordError
from jazzmine_dspy.memory.working.backend import Grant, Kept, Presence, RecordBackend
from jazzmine_dspy.memory.working.codec import JsonCodec
from jazzmine_dspy.memory.working.lease import Gate, Lease, held
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.errors import InputError, JazzmineError

R = TypeVar("R")

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.1

_BEGAN_AFTER: dict[Presence, Literal["nothing", "expiry", "corruption"]] = {
    Presence.EXPIRED: "expiry",
    Presence.UNREADABLE: "corruption",
}


class RecordStore:
    """Turns and states over a :class:`~jazzmine_dspy.memory.working.backend.RecordBackend`.

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
        self._wait = wait
        self._clock = clock
        self._random = random.Random(seed)
        self._gates: dict[str, Gate] = {}
        self._background: set[asyncio.Task[None]] = set()

    # --- turns -------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def turn(self, conversation_id: str) -> AsyncIterator[int]:
        """Wait for this conversation's turn and hold it; gives the turn's fencing number, from 1.

        All that this task does with the conversation until the end belongs to the turn; so does a turn
        begun within it, which is the same one.

        Raises:
            LockTimeoutError: on entering, if the waiting time is over.
            MemoryUnavailableError: the store does not answer.
        """
        outer = self._lease(conversation_id)
        if outer is not None and outer.task is asyncio.current_task():
            yield outer.fence
            return
        async with self._own_turn(conversation_id) as lease:
            before = held.get()
            held.set({**before, (id(self), conversation_id): lease})
            try:
                yield lease.fence
            finally:
                held.set(before)

    @property
    def locks(self) -> int:
        """Conversations with a turn of this process under way or waited for."""
        return len(self._gates)

    def _lease(self, conversation_id: str) -> Lease | None:
        lease = held.get().get((id(self), conversation_id))
        return lease if lease is not None and lease.open else None

    @asynccontextmanager
    async def _own_turn(self, conversation_id: str) -> AsyncIterator[Lease]:
        if not conversation_id:
            raise InputError(
                "The conversation has no id", where="conversation_id", remedy="Name the conversation."
            )
        deadline = asyncio.get_running_loop().time() + self._wait
        gate = self._gates.setdefault(conversation_id, Gate())
        gate.users += 1
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    await gate.lock.acquire()
            except TimeoutError as error:
                raise self._waited_too_long(conversation_id) from error
            try:
                lease = await self._acquired(conversation_id, deadline)
                renewal = self._keep_alive(lease)
                try:
                    yield lease
                finally:
                    lease.open = False
                    renewal()
                    await self._released(lease)
            finally:
                gate.lock.release()
        finally:
            gate.users -= 1
            if not gate.users:
                del self._gates[conversation_id]

    async def _acquired(self, conversation_id: str, deadline: float) -> Lease:
        """Try until the turn is granted. Only one task of this process tries at a time, the others queue."""
        loop = asyncio.get_running_loop()
        token, pause = uuid.uuid4().hex, FIRST_PAUSE
        grant: Grant | None = None
        try:
            while (grant := await self.backend.acquire(conversation_id, token)) is None:
                left = deadline - loop.time()
                if left <= 0:
                    raise self._waited_too_long(conversation_id)
                await asyncio.sleep(min(left, pause * self._random.uniform(0.5, 1.5)))
                pause = min(pause * 1.6, LONGEST_PAUSE)
        finally:
            if grant is None:
                # Its answer may have been lost, or nobody is left to hear it. Nobody waits for this either.
                self._release_soon(conversation_id, token)
        return Lease(conversation_id, grant.fence, grant.kept, token=token)

    def _keep_alive(self, lease: Lease) -> Callable[[], None]:
        """Renew a lease three times in its span while it is open; gives what stops it."""
        span = self.backend.lease / 3
        if span == float("inf"):
            return lambda: None
        loop = asyncio.get_running_loop()

        handles: list[asyncio.TimerHandle] = []

        def later() -> None:
            handles[:] = [loop.call_later(span, start)]

        def start() -> None:
            self._in_background(renew())

        async def renew() -> None:
            try:
                kept = await self.backend.renew(lease.conversation_id, lease.token, lease.fence)
            except JazzmineError as error:
                logger.warning("A turn of conversation %r was not renewed: %s", lease.conversation_id, error)
                kept = True
            if kept and lease.open:
                later()

        later()
        return lambda: handles[0].cancel()

    async def _released(self, lease: Lease) -> None:
        if not lease.released:
            # A second cancellation must not leave the lock behind.
            await asyncio.shield(self._release_soon(lease.conversation_id, lease.token))

    def _release_soon(self, conversation_id: str, token: str) -> asyncio.Task[None]:
        return self._in_background(self._try_release(conversation_id, token))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _try_release(self, conversation_id: str, token: str) -> None:
        try:
            await self.backend.release(conversation_id, token)
        except JazzmineError as error:
            logger.warning("The turn of conversation %r ends with its lease: %s", conversation_id, error)

    def _waited_too_long(self, conversation_id: str) -> LockTimeoutError:
        return LockTimeoutError(
            f"The turn before did not end within {self._wait:g} s",
            where=f"conversation {conversation_id!r}",
            remedy="Send the message again; if it lasts, look for a language model that stalls.",
        )

    # --- states ------------------------------------------------------------------------------------------

    async def get_or_create(self, conversation_id: str, user_id: str, agent_id: str = "") -> WorkingMemory:
        """The state of a conversation; a new one, already kept, where there is none.

        ``user_id`` and ``agent_id`` count for a new one only. Its ``began_after`` says what became of an
        earlier one.
        """
        known = await self.get(conversation_id)
        if known is not None:
            return known
        now = self._clock()
        fresh = WorkingMemory(
            conversation_id=conversation_id,
            user_id=user_id,
            agent_id=agent_id,
            created_at=now,
            last_updated=now,
            began_after=_BEGAN_AFTER.get(await self.backend.presence(conversation_id), "nothing"),
        )
        lease = self._lease(conversation_id)
        data = self._codec.encode(fresh)
        kept = await self.backend.create(conversation_id, data, fence=lease.fence if lease else None)
        if lease is not None:
            lease.kept = kept
        if kept.data == data:
            return fresh.model_copy(update={"version": kept.version})
        # Another worker was first.
        return await self._decoded(conversation_id, kept) or await self.get_or_create(
            conversation_id, user_id, agent_id
        )

    async def get(self, conversation_id: str) -> WorkingMemory | None:
        """The state of a conversation, or None; :meth:`presence` tells why there is none.

        An unreadable record is moved aside, with its cause, and logged.
        """
        lease = self._lease(conversation_id)
        kept = lease.kept if lease and lease.kept else await self.backend.read(conversation_id)
        if kept is None:
            return None
        state = await self._decoded(conversation_id, kept)
        if lease is not None:
            lease.kept = kept if state is not None else None
        return state

    async def save(self, state: WorkingMemory) -> WorkingMemory:
        """Keep a state, and return it at its new version.

        Raises:
            StaleStateError: another turn has written since ``state`` was read, or the conversation is gone.
            TurnLostError: this turn outlived its lease, and another one has begun.
            InputError: the state is too large, or holds what cannot be stored.
        """
        async with self._in_turn(state.conversation_id) as (lease, own):
            return await self._write(state, lease, release=own)

    async def delete(self, conversation_id: str) -> bool:
        """Forget a conversation, records of it that were set aside among them; whether there was one.

        It does not wait for a turn: one under way finds out when it writes.
        """
        lease = self._lease(conversation_id)
        if lease is not None:
            lease.kept = None
        return await self.backend.delete(conversation_id)

    async def presence(self, conversation_id: str) -> Presence:
        """Whether there is a state, and if not, whether one expired, was unreadable, or never was."""
        return await self.backend.presence(conversation_id)

    async def close(self) -> None:
        """Let go of connections, once what runs in the background has ended."""
        if self._background:
            await asyncio.gather(*self._background, return_exceptions=True)
        await self.backend.close()

    async def operate(
        self, conversation_id: str, change: Callable[[WorkingMemory], R]
    ) -> tuple[WorkingMemory, R]:
        """Change a state in one step: in the turn that this task is in, else in a turn of its own.

        Args:
            change: Changes the state it is given. What it raises is passed on, and nothing is changed.

        Returns:
            The state as it is kept now, and what ``change`` gave.

        Raises:
            NotStoredError: there is no such conversation.
        """
        async with self._in_turn(conversation_id) as (lease, own):
            kept = lease.kept or await self.backend.read(conversation_id)
            state = await self._decoded(conversation_id, kept) if kept else None
            if state is None:
                raise NotStoredError(
                    "No such conversation",
                    where=f"conversation {conversation_id!r}",
                    remedy="Begin it with get_or_create.",
                )
            result = change(state)
            return await self._write(state, lease, release=own), result

    @asynccontextmanager
    async def _in_turn(self, conversation_id: str) -> AsyncIterator[tuple[Lease, bool]]:
        """The turn that this task is in, else one of its own, and whether it is."""
        lease = self._lease(conversation_id)
        if lease is not None:
            async with lease.serial:
                yield lease, False
            return
        async with self._own_turn(conversation_id) as own:
            yield own, True

    async def _write(self, state: WorkingMemory, lease: Lease, *, release: bool) -> WorkingMemory:
        written = state.model_copy(update={"last_updated": self._clock()})
        data = self._codec.encode(written)
        # Until it is known how the write ended, nothing is known of the record.
        lease.kept = None
        version = await self.backend.write(
            lease.conversation_id,
            data,
            expected=state.version,
            fence=lease.fence,
            write_id=lease.write_id(),
            release=lease.token if release else "",
        )
        lease.kept, lease.released = Kept(data, version), release
        return written.model_copy(update={"version": version})

    async def _decoded(self, conversation_id: str, kept: Kept) -> WorkingMemory | None:
        """The state of a record; None where it is unreadable, and was moved aside."""
        try:
            return self._codec.decode(kept.data, version=kept.version, conversation_id=conversation_id)
        except UnreadableRecordError as error:
            logger.error("%s", error)
            await self.backend.set_aside(conversation_id, cause=error.message, found=kept)
            return None
