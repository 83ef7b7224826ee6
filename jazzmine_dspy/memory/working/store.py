"""What a store of working memories promises."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from jazzmine_dspy.memory.working.backend import Presence, SetAside
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store_operations import WorkingMemoryOperations


@runtime_checkable
class WorkingMemoryStore(WorkingMemoryOperations, Protocol):
    """Keeps one :class:`WorkingMemory` for each conversation.

    Duties:
        - :meth:`turn` lets one turn of a conversation in at a time, over all workers; turns of other
          conversations do not wait. Within one process turns come in the order of asking.
        - A turn that a task begins within its own turn is the same one. What tasks begun in a turn read and
          write is part of it while it lasts; turns that they begin are turns like any other, and wait.
        - :meth:`save` is a compare-and-set: it takes a state only over the version that the state was read
          at, and only from the newest turn, so that a turn that has lost its place can lose work, never
          overwrite.
        - Outside a turn :meth:`save` and each operation has a turn of its own. Reading, making and deleting
          need none, and do not wait for one.
        - An operation is one step of the state machine in :mod:`jazzmine_dspy.memory.working.operations`, which
          says what it does and when it refuses; here it is read, done and written as a whole, or not at all.
          It gives the state as it is kept afterwards.

    Invariants:
        - What is handed out and what is kept share no object: changing a state changes nothing until it is
          saved.
        - What was taken can be read again and comes back equal; what could not is refused when it is saved.
        - A failed call has changed nothing. Of one that was cancelled, or whose answer was lost, the next
          read tells.
        - Versions and fencing numbers of a conversation grow, past its deletion and its expiry, for as long
          as the store remembers that it was.
        - A record that was moved aside is kept until the conversation is deleted.

    Errors:
        - ``MemoryUnavailableError``: the store does not answer in its time, which is bounded.
        - ``LockTimeoutError`` (a ``TimeoutError`` too): the turn before did not end within the store's
          waiting time.
        - ``StaleStateError``: another turn has written since the state was read, or the conversation is gone.
          ``TurnLostError``, one of its kind: this turn lasted too long, and another one has begun.
        - ``NotStoredError``: an operation on a conversation that has not begun.
        - ``StateError``: the state does not allow the operation.
        - ``InputError``: an id that is none (texts of 1 to 1,000 characters are ids), a state over the limit
          of size, a value that JSON has not.
        - A record that cannot be read is no error of the caller's: the store moves it aside with its cause,
          says so in its log, and the conversation starts over. Fields that are unknown and schemas that are
          newer are read, and written back as they were.
    """

    # --- turns and states --------------------------------------------------------------------------------

    def turn(self, conversation_id: str) -> AbstractAsyncContextManager[int]:
        """Wait for this conversation's turn and hold it; gives the turn's fencing number, from 1.

        Raises:
            LockTimeoutError: on entering, if the waiting time is over.
        """
        ...

    async def get_or_create(self, conversation_id: str, user_id: str, agent_id: str = "") -> WorkingMemory:
        """The state of a conversation; a new one, already kept, where there is none.

        ``user_id`` and ``agent_id`` count for a new one only. Its ``began_after`` says whether there was one
        before, and what became of it.
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
        """Forget a conversation, records set aside among it; whether there was one."""
        ...

    async def presence(self, conversation_id: str) -> Presence:
        """Whether there is a state, and if not, whether one expired, was unreadable, or never was."""
        ...

    async def close(self) -> None:
        """Let go of connections; nothing else is called afterwards."""
        ...

    # --- inspection --------------------------------------------------------------------------------------

    async def conversations(self, *, limit: int = 100, after: str = "") -> list[str]:
        """Ids of conversations with a state or with a record set aside, in the order of their code points.

        Args:
            limit: At most so many.
            after: Only those behind this id, for the next page.
        """
        ...

    async def aside(self, conversation_id: str) -> list[SetAside]:
        """The records of a conversation that were set aside, oldest first."""
        ...

    async def set_aside(self, conversation_id: str, *, cause: str) -> str | None:
        """Move a conversation's record aside; its id there, None where there is none."""
        ...

    async def restore(self, conversation_id: str, aside_id: str) -> None:
        """Put a record that was set aside back in its place.

        Raises:
            NotStoredError: none was set aside under that id.
            StateError: the conversation has gone on.
        """
        ...
