"""Turns of conversations: one at a time over all workers, numbered, held by a lease that is renewed."""

from __future__ import annotations

import asyncio
import math
import random
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from jazzmine_dspy.memory.errors import LockTimeoutError, StaleStateError, TurnLostError
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import JazzmineError, format_error
from jazzmine_dspy.models.text import checked_id

LONGEST_PAUSE = 0.08
"""Seconds between two tries for a turn at most."""


@dataclass(frozen=True, slots=True)
class Record:
    """A stored record: its bytes (None if they are no text at all) and its version, which grows for ever from 0."""

    data: bytes | None
    version: int


@dataclass(eq=False)
class Turn:
    """One turn of one conversation, and what it knows of the record.

    Args:
        conversation_id: Whose turn it is.
        token: Unique; identifies the turn to the store.
        fence: The turn's number, which grows with each turn of the conversation.
        record: As last read or written in this turn; it counts only while ``known``.
        serial: Serialises the tasks that work in this turn.
        single: It writes once, so that a store may end it in the step that writes, and then sets ``ended``.
    """

    conversation_id: str
    token: str
    fence: int
    record: Record | None
    known: bool = True
    open: bool = True
    single: bool = False
    ended: bool = False
    task: asyncio.Task[Any] | None = field(default_factory=asyncio.current_task)
    serial: asyncio.Lock = field(default_factory=asyncio.Lock)

    def learn(self, record: Record | None) -> None:
        """Note what the record is now."""
        self.record, self.known = record, True


_turns: ContextVar[Mapping[tuple[object, str], Turn]] = ContextVar("turns", default=MappingProxyType({}))
"""The turns that the running code is in, by store and conversation."""


class Gate(asyncio.Lock):
    """The lock of a conversation in an event loop, and how many tasks have it or wait for it."""

    users = 0


class TurnStore(ABC):
    """The turns of a store; used in one event loop, by any number of tasks.

    Args:
        wait: Seconds that a turn waits for the one before it.
        clock: Unix time in seconds, for what is written into states; nothing is decided by it.
    """

    lease: float = math.inf
    """Seconds after which a turn that is not renewed may be lost to another one."""

    def __init__(self, *, wait: float = 15.0, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._wait = wait
        # Of conversations with a turn under way or waited for, by event loop: those of other loops wait as other
        # processes do.
        self._gates: dict[tuple[asyncio.AbstractEventLoop, str], Gate] = {}
        self._background: set[asyncio.Task[None]] = set()
        # Stands for this store in the context of tasks, which may outlive it.
        self._name = object()

    @abstractmethod
    async def _begin(self, conversation_id: str, token: str) -> Turn | None:
        """Begin a turn with the next number and read the record; None while another token has the turn."""

    async def _renew(self, turn: Turn) -> bool:  # noqa: ARG002
        """Extend the turn by another lease; False if it is lost."""
        return True

    @abstractmethod
    async def _end(self, conversation_id: str, token: str) -> None:
        """End the turn of this token; that of another token stays."""

    @asynccontextmanager
    async def turn(self, conversation_id: str) -> AsyncIterator[int]:
        """Wait for this conversation's turn and hold it; yields the turn's number, from 1.

        Raises:
            LockTimeoutError: on entering, if the turn before does not end within the waiting time.
            MemoryUnavailableError: the store does not answer.
            InputError: the id is none.
        """
        outer = self._current(checked_id(conversation_id))
        if outer is not None and outer.task is asyncio.current_task():
            yield outer.fence
            return
        async with self._own_turn(conversation_id) as turn:
            _turns.set({**_turns.get(), (self._name, conversation_id): turn})
            try:
                yield turn.fence
            finally:
                # Not what stood before: turns need not end in the order in which they began.
                _turns.set({key: other for key, other in _turns.get().items() if other is not turn})

    @property
    def locks(self) -> int:
        """Conversations with a turn of this process under way or waited for, counted by event loop."""
        return len(self._gates)

    def _current(self, conversation_id: str) -> Turn | None:
        turn = _turns.get().get((self._name, conversation_id))
        return turn if turn is not None and turn.open else None

    @asynccontextmanager
    async def _own_turn(self, conversation_id: str) -> AsyncIterator[Turn]:
        """A turn of its own, which the code within is not in of itself."""
        deadline = asyncio.get_running_loop().time() + self._wait
        async with self._gate(conversation_id, deadline):
            turn = await self._begun(conversation_id, deadline)
            renewal = asyncio.create_task(self._renewing(turn))
            try:
                yield turn
            finally:
                turn.open = False
                renewal.cancel()
                if not turn.ended or turn.serial.locked():
                    # A second cancellation must not leave the turn behind.
                    await asyncio.shield(self._in_background(self._ended(turn)))

    @asynccontextmanager
    async def _gate(self, conversation_id: str, deadline: float) -> AsyncIterator[None]:
        """Let the tasks of this event loop in one at a time, in the order of asking."""
        key = asyncio.get_running_loop(), conversation_id
        gate = self._gates.setdefault(key, Gate())
        gate.users += 1
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    await gate.acquire()
            except TimeoutError as error:
                raise self._waited_too_long(conversation_id) from error
            try:
                yield
            finally:
                gate.release()
        finally:
            gate.users -= 1
            if not gate.users:
                del self._gates[key]

    async def _begun(self, conversation_id: str, deadline: float) -> Turn:
        """Try until the turn is granted. Only one task of this event loop tries at a time, the others queue."""
        token, pause = uuid.uuid4().hex, 0.01
        try:
            while (turn := await self._begin(conversation_id, token)) is None:
                if (left := deadline - asyncio.get_running_loop().time()) <= 0:
                    raise self._waited_too_long(conversation_id)
                await asyncio.sleep(min(left, random.uniform(0, pause)))
                pause = min(2 * pause, LONGEST_PAUSE)
        except BaseException:
            # It may have been granted with nobody left to hear it.
            self._in_background(self._released(conversation_id, token))
            raise
        return turn

    async def _renewing(self, turn: Turn) -> None:
        while math.isfinite(self.lease):
            await asyncio.sleep(self.lease / 3)
            try:
                if not await self._renew(turn):
                    log.warning("A turn of conversation %r was lost to another one", turn.conversation_id)
                    return
            except Exception as error:
                # Whatever it was, the turn is still under way, and the next try may succeed.
                cause = format_error(error)
                log.warning("A turn of conversation %r was not renewed: %s", turn.conversation_id, cause)

    async def _ended(self, turn: Turn) -> None:
        # Tasks of the turn that work with the record come to their end first.
        async with turn.serial:
            turn.known = False
            if not turn.ended:
                await self._released(turn.conversation_id, turn.token)

    async def _released(self, conversation_id: str, token: str) -> None:
        try:
            await self._end(conversation_id, token)
        except JazzmineError as error:
            log.warning("The turn of conversation %r ends with its lease: %s", conversation_id, error)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def _waited_too_long(self, conversation_id: str) -> LockTimeoutError:
        return LockTimeoutError(
            f"The turn before did not end within {self._wait:g} s",
            where=f"conversation {conversation_id!r}",
            remedy="Send the message again; if it lasts, look for a language model that stalls.",
        )


def stale_state(conversation_id: str, version: int | None, expected: int) -> StaleStateError:
    """The error for a write over another version than was read."""
    what = "is gone" if version is None else f"is at version {version}, not {expected}"
    return StaleStateError(
        f"The state {what}",
        where=f"conversation {conversation_id!r}",
        remedy="Read it again and repeat the turn.",
    )


def turn_lost(conversation_id: str) -> TurnLostError:
    """The error for a write by a turn after which another one has begun."""
    return TurnLostError(
        "The turn lasted longer than its lease, and another one has begun",
        where=f"conversation {conversation_id!r}",
        remedy="Repeat the turn; if it lasts, raise the lease or look for what blocks the event loop.",
    )
