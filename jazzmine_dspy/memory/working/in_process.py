"""Working memories in this process: for tests, command lines and single-process assistants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from jazzmine_dspy.memory.errors import LockTimeoutError, StaleStateError
from jazzmine_dspy.memory.working.state import WorkingMemory


@dataclass
class _Gate:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class InMemoryWorkingMemoryStore:
    """A :class:`~jazzmine_dspy.memory.working.store.WorkingMemoryStore` over a dictionary, for one event
    loop.

    A lock lives only while some turn holds it or waits for it, so that locks do not outgrow the turns under
    way. States are kept until they are deleted.

    Args:
        wait: Seconds that a turn waits for the one before it.
    """

    def __init__(self, *, wait: float = 60.0) -> None:
        self._wait = wait
        self._states: dict[str, WorkingMemory] = {}
        self._gates: dict[str, _Gate] = {}
        self._fence = 0

    async def get_or_create(self, conversation_id: str, user_id: str, agent_id: str = "") -> WorkingMemory:
        """The state of a conversation; a new one where there is none."""
        if conversation_id not in self._states:
            self._states[conversation_id] = WorkingMemory(
                conversation_id=conversation_id, user_id=user_id, agent_id=agent_id
            )
        return self._states[conversation_id].model_copy(deep=True)

    async def get(self, conversation_id: str) -> WorkingMemory | None:
        """The state of a conversation, or None."""
        state = self._states.get(conversation_id)
        return None if state is None else state.model_copy(deep=True)

    async def save(self, state: WorkingMemory) -> WorkingMemory:
        """Keep a state, and return it at its new version.

        Raises:
            StaleStateError: another turn has written since ``state`` was read, or the conversation was
                deleted.
        """
        kept = self._states.get(state.conversation_id)
        if (kept.version if kept else None) != state.version:
            found = "was deleted" if kept is None else f"is at version {kept.version}, not {state.version}"
            raise StaleStateError(
                f"The state {found}",
                where=f"conversation {state.conversation_id!r}",
                remedy="Read it again and repeat the turn.",
            )
        written = state.model_copy(deep=True, update={"version": state.version + 1})
        self._states[state.conversation_id] = written
        return written.model_copy(deep=True)

    async def delete(self, conversation_id: str) -> bool:
        """Forget a conversation; whether there was one."""
        return self._states.pop(conversation_id, None) is not None

    @asynccontextmanager
    async def turn(self, conversation_id: str) -> AsyncIterator[int]:
        """Wait for this conversation's turn and hold it; gives the turn's fencing number.

        Raises:
            LockTimeoutError: the turn before did not end in time.
        """
        gate = self._gates.setdefault(conversation_id, _Gate())
        gate.users += 1
        try:
            try:
                async with asyncio.timeout(self._wait):
                    await gate.lock.acquire()
            except TimeoutError as error:
                raise LockTimeoutError(
                    f"The turn before did not end within {self._wait:g} s",
                    where=f"conversation {conversation_id!r}",
                    remedy="Send the message again; if it lasts, look for a language model that stalls.",
                ) from error
            try:
                self._fence += 1
                yield self._fence
            finally:
                gate.lock.release()
        finally:
            gate.users -= 1
            if not gate.users:
                del self._gates[conversation_id]

    @property
    def locks(self) -> int:
        """Conversations with a turn under way."""
        return len(self._gates)
