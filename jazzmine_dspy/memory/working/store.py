"""What a store of working memories promises."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from jazzmine_dspy.memory.working.state import WorkingMemory


@runtime_checkable
class WorkingMemoryStore(Protocol):
    """Keeps one :class:`WorkingMemory` for each conversation.

    Duties:
        - :meth:`turn` lets one turn of a conversation in at a time, in the order of asking; turns of other
          conversations do not wait. It is not re-entrant: a turn within a turn of the same conversation waits
          for itself, and ends in ``LockTimeoutError``.
        - :meth:`save` is a compare-and-set: it takes a state only over the version that the state was read
          at, so that a turn that has lost its place can lose work, never overwrite.
        - The other methods neither open nor need a turn.

    Invariants:
        - What is handed out and what is kept share no object: changing a state changes nothing until it is
          saved.
        - A failed call has changed nothing.
        - Versions and fencing numbers of a conversation grow; the versions start over only after
          :meth:`delete`.

    Errors:
        - ``MemoryUnavailableError``: the store does not answer.
        - ``LockTimeoutError`` (a ``TimeoutError`` too): the turn before did not end within the store's
          waiting time.
        - ``StaleStateError``: another turn has written since.
        - A record that cannot be read is no error of the caller's: the store moves it aside, and says so in
          its log.
    """

    async def get_or_create(self, conversation_id: str, user_id: str, agent_id: str = "") -> WorkingMemory:
        """The state of a conversation; a new one, already kept at version 0, where there is none.

        ``user_id`` and ``agent_id`` count for a new one only.
        """
        ...

    async def get(self, conversation_id: str) -> WorkingMemory | None:
        """The state of a conversation, or None."""
        ...

    async def save(self, state: WorkingMemory) -> WorkingMemory:
        """Keep a state, and return it at its new version.

        Raises:
            StaleStateError: the version kept is not that of ``state``, or the conversation was deleted
                meanwhile.
        """
        ...

    async def delete(self, conversation_id: str) -> bool:
        """Forget a conversation; whether there was one."""
        ...

    def turn(self, conversation_id: str) -> AbstractAsyncContextManager[int]:
        """Wait for this conversation's turn and hold it; gives the turn's fencing number, from 1.

        Raises:
            LockTimeoutError: on entering, if the waiting time is over.
        """
        ...
