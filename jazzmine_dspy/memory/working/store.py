"""A store of working memories: turns, states and operations over the primitives that each store implements."""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import update_wrapper
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from pydantic import ValidationError

from jazzmine_dspy.memory.errors import NotStoredError, UnreadableRecordError
from jazzmine_dspy.memory.working import operations
from jazzmine_dspy.memory.working.records import QueuedMessage
from jazzmine_dspy.memory.working.state import WorkingMemory, read_state
from jazzmine_dspy.memory.working.turn_lock import Record, Turn, TurnStore
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.models.text import checked_id

P = ParamSpec("P")
R = TypeVar("R")

REMEMBER = 30 * 86400.0
"""Seconds for which a conversation is remembered after its record has expired."""
MAX_BYTES = 4 * 1024 * 1024
"""A record may have this many bytes; a state that needs more holds what belongs elsewhere."""


class Presence(StrEnum):
    """Whether there is a state, and if not, why.

    A store remembers ``EXPIRED`` and ``UNREADABLE`` for some time only, then the conversation is ``ABSENT``; so is one
    that was deleted.
    """

    PRESENT = "present"
    EXPIRED = "expired"
    UNREADABLE = "unreadable"
    ABSENT = "absent"


_BEGAN_AFTER: dict[Presence, Literal["nothing", "expiry", "corruption"]] = {
    Presence.EXPIRED: "expiry",
    Presence.UNREADABLE: "corruption",
}


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """An unreadable record that was moved aside, and why. ``at`` is Unix time in seconds."""

    data: bytes
    cause: str
    at: float


def _operation(
    change: Callable[Concatenate[WorkingMemory, P], None],
) -> Callable[Concatenate[WorkingMemoryStore, str, P], Coroutine[Any, Any, WorkingMemory]]:
    """The method of a store that does an operation and returns the stored state."""
    timed = "now" in inspect.signature(change).parameters

    async def method(
        store: WorkingMemoryStore, conversation_id: str, /, *args: P.args, **kwargs: P.kwargs
    ) -> WorkingMemory:
        if timed:
            kwargs.setdefault("now", store.clock())
        state, _ = await store.operate(conversation_id, lambda state: change(state, *args, **kwargs))
        return state

    return update_wrapper(method, change)


class WorkingMemoryStore(TurnStore):
    """Stores one :class:`WorkingMemory` for each conversation; used by any number of tasks and event loops.

    A store of your own implements the primitives whose names begin with an underscore, and ``lease`` if a turn can be
    lost. Each primitive is one atomic step; it raises ``MemoryUnavailableError`` if the place of storage does not
    answer in bounded time, and may be repeated if its answer was lost.

    Guarantees:
        - Turns of one conversation run one at a time, over all workers; those of one event loop in the order of asking.
          A turn that a task begins within its own turn is the same one. Tasks begun in a turn read and write in it
          while it lasts; a turn that they begin is another one, and waits.
        - :meth:`save` compares and sets: it writes only over the version that was read, and only from the newest turn.
        - Outside a turn, :meth:`save` and each operation open a turn of their own. Reading, creating and deleting
          need none.
        - The caller and the store share no object. What was saved can be read again and comes back equal; a failed
          call changes nothing.
        - Versions and numbers of turns grow, past deletion and expiry, as long as the store remembers the conversation.

    Args:
        wait: Seconds that a turn waits for the one before it.
        clock: Unix time in seconds, for what is written into states; nothing is decided by it.

    Example:
        >>> import asyncio
        >>> from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, ToolCallRecord, TurnCache
        >>> async def talk() -> list[str]:
        ...     store = InMemoryWorkingMemoryStore()
        ...     await store.get_or_create("c1", "u1")
        ...     await store.begin_turn("c1", TurnCache(message_id="m1", enhanced_query="Is the lamp in stock?"))
        ...     await store.record_tool_call("c1", ToolCallRecord(tool_name="stock", result_summary="5 left"))
        ...     memory = await store.end_turn("c1", "There are five left.", "stock")
        ...     return [call.result_summary for call in memory.current_turn.tool_calls]
        >>> asyncio.run(talk())
        ['5 left']
    """

    # --- primitives --------------------------------------------------------------------------------------

    @abstractmethod
    async def _read(self, conversation_id: str) -> Record | None:
        """The record, or None. Reading lets it live for another time to live, as writing does."""

    @abstractmethod
    async def _create(self, conversation_id: str, data: bytes, turn: Turn | None) -> Record:
        """Store a first record and return it, or return the one that is there.

        Raises:
            TurnLostError: ``turn`` is given and another one has begun since.
        """

    @abstractmethod
    async def _write(self, turn: Turn, data: bytes, expected: int) -> int:
        """Replace the record of version ``expected``; returns the new version, one more.

        Raises:
            TurnLostError: another turn has begun since.
            StaleStateError: the record has another version, or is gone.
        """

    @abstractmethod
    async def _presence(self, conversation_id: str) -> Presence:
        """Whether there is a record, and if not, why."""

    @abstractmethod
    async def _delete(self, conversation_id: str) -> bool:
        """Delete the record and the quarantined ones; whether there was any. A turn keeps its lock."""

    @abstractmethod
    async def _quarantine(self, conversation_id: str, record: Record, cause: str) -> None:
        """Move the record aside with its cause, if it still has this version."""

    @abstractmethod
    async def _quarantined(self, conversation_id: str) -> list[QuarantineEntry]:
        """The records moved aside, oldest first."""

    async def _close(self) -> None:
        """Close connections."""

    # --- states ------------------------------------------------------------------------------------------

    async def get_or_create(self, conversation_id: str, user_id: str, agent_id: str = "") -> WorkingMemory:
        """The state of a conversation; a new one, already stored, where there is none.

        Args:
            conversation_id: Any text of 1 to 1,000 characters.
            user_id: Of a new conversation.
            agent_id: Of a new conversation.

        Returns:
            The state; ``began_after`` of a new one tells why there was none.

        Raises:
            TurnLostError: there is none, and another turn has begun since this one.
        """
        async with self._at_work(conversation_id) as turn:
            while (state := await self._state(conversation_id, turn)) is None:
                now, presence = self.clock(), await self._presence(conversation_id)
                state = WorkingMemory(
                    conversation_id=conversation_id,
                    user_id=user_id,
                    agent_id=agent_id,
                    created_at=now,
                    last_updated=now,
                    began_after=_BEGAN_AFTER.get(presence, "nothing"),
                )
                record = await self._create(conversation_id, self._encoded(state)[0], turn)
                if turn is not None:
                    turn.learn(record)
            return state

    async def get(self, conversation_id: str) -> WorkingMemory | None:
        """The state of a conversation, or None; :meth:`presence` tells why there is none.

        An unreadable record is moved aside with its cause, and logged.
        """
        async with self._at_work(conversation_id) as turn:
            return await self._state(conversation_id, turn)

    async def save(self, state: WorkingMemory) -> WorkingMemory:
        """Store a state, and return it at its new version; the result shares nothing with the argument.

        Raises:
            StaleStateError: another turn has written since the state was read, or the conversation is gone.
            TurnLostError: this turn outlived its lease, and another one has begun.
            InputError: the state is too large, or holds what would not come back as it is.
        """
        async with self._in_turn(state.conversation_id) as turn:
            return await self._stored(state, turn)

    async def operate(
        self, conversation_id: str, change: Callable[[WorkingMemory], R]
    ) -> tuple[WorkingMemory, R]:
        """Change a state in one step: in the turn that this task is in, else in a turn of its own.

        Args:
            conversation_id: Whose state to change.
            change: Changes the state in place. If it raises, nothing is stored.

        Returns:
            The state as it is stored now, and the result of ``change``.

        Raises:
            NotStoredError: there is no such conversation.
        """
        async with self._in_turn(conversation_id) as turn:
            if (state := await self._state(conversation_id, turn)) is None:
                raise NotStoredError(
                    "No such conversation",
                    where=f"conversation {conversation_id!r}",
                    remedy="Begin it with get_or_create.",
                )
            result = change(state)
            return await self._stored(state, turn), result

    async def delete(self, conversation_id: str) -> bool:
        """Delete a conversation and its quarantined records; whether there was one.

        It does not wait for a turn: the write of one under way is refused.
        """
        async with self._at_work(conversation_id) as turn:
            if turn is not None:
                turn.known = False
            return await self._delete(conversation_id)

    async def presence(self, conversation_id: str) -> Presence:
        """Whether there is a state, and if not, whether one expired, was unreadable, or never was."""
        return await self._presence(checked_id(conversation_id))

    async def quarantined(self, conversation_id: str) -> list[QuarantineEntry]:
        """The unreadable records of a conversation, oldest first. They stay until it is deleted."""
        return await self._quarantined(checked_id(conversation_id))

    async def close(self) -> None:
        """Close connections, once what runs in the background has ended."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(t for t in [*self._background] if t.get_loop() is loop), return_exceptions=True
        )
        await self._close()

    @asynccontextmanager
    async def _at_work(self, conversation_id: str) -> AsyncIterator[Turn | None]:
        """The turn that this task is in, locked against its other tasks; None where it is in none."""
        if (turn := self._current(checked_id(conversation_id))) is None:
            yield None
            return
        async with turn.serial:
            yield turn

    @asynccontextmanager
    async def _in_turn(self, conversation_id: str) -> AsyncIterator[Turn]:
        """The turn that this task is in, else one of its own."""
        async with self._at_work(conversation_id) as turn:
            if turn is not None:
                yield turn
                return
        async with self._own_turn(conversation_id) as own:
            own.single = True
            yield own

    async def _state(self, conversation_id: str, turn: Turn | None) -> WorkingMemory | None:
        """The state as the turn knows it, else as it is stored; the caller's own."""
        record = turn.record if turn and turn.known else await self._read(conversation_id)
        state = None
        if record is not None:
            try:
                state = _at_version(self.decode(record.data, conversation_id), record.version)
            except UnreadableRecordError as error:
                log.error("%s", error)
                await self._quarantine(conversation_id, record, error.message)
        if turn is not None:
            turn.learn(record if state is not None else None)
        return state

    async def _stored(self, state: WorkingMemory, turn: Turn) -> WorkingMemory:
        data, twin = self._encoded(state.model_copy(update={"last_updated": self.clock()}))
        # Until it is known how the write ended, nothing is known of the record.
        turn.known = False
        version = await self._write(turn, data, state.version)
        turn.learn(Record(data, version))
        return _at_version(twin, version)

    # --- bytes -------------------------------------------------------------------------------------------

    def _encoded(self, state: WorkingMemory) -> tuple[bytes, WorkingMemory]:
        """A state as bytes, and as they are read again: a list within a state takes whatever is put into it."""
        where, cause = f"conversation {state.conversation_id!r}", "it would not come back as it is"
        try:
            data = self.encode(state)
            if len(data) > MAX_BYTES:
                raise InputError(
                    f"The state has {len(data):,} bytes, of {MAX_BYTES:,} at most",
                    where=where,
                    remedy="Keep large tool results elsewhere, and a reference to them here.",
                )
            twin = _at_version(self.decode(data, state.conversation_id), state.version)
            if twin == state:
                return data, twin
        except (ValueError, RecursionError) as error:
            cause = format_error(error)
        except UnreadableRecordError as error:
            cause = error.message
        raise InputError(
            f"The state cannot be stored: {cause}",
            where=where,
            remedy="Keep JSON values only, and models where models belong.",
        )

    def encode(self, state: WorkingMemory) -> bytes:
        """A state as bytes; the version is the store's and not in them."""
        return state.model_dump_json(exclude={"version"}, warnings="none").encode()

    def decode(self, data: bytes | None, conversation_id: str) -> WorkingMemory:
        """A state from bytes. Unknown fields and those of newer schemas are carried along.

        Raises:
            UnreadableRecordError: the bytes are no state of this conversation.
        """
        try:
            state = self._loaded(data or b"")
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            # The first name only: those below it may be names that users gave.
            where = str(first["loc"][0]) if first["loc"] else "the record"
            raise _unreadable(conversation_id, f"{where}: {first['type']}") from error
        except (ValueError, RecursionError) as error:
            raise _unreadable(conversation_id, f"it is not JSON ({type(error).__name__})") from error
        if state.conversation_id != conversation_id:
            raise _unreadable(conversation_id, "it is of another conversation")
        return state

    def _loaded(self, data: bytes) -> WorkingMemory:
        return read_state(data)

    # --- operations: what each does, and when it is refused, is documented in .operations ------------------

    begin_turn = _operation(operations.begin_turn)
    end_turn = _operation(operations.end_turn)
    start_flow = _operation(operations.start_flow)
    pause_flow = _operation(operations.pause_flow)
    resume_flow = _operation(operations.resume_flow)
    complete_flow = _operation(operations.complete_flow)
    cancel_flow = _operation(operations.cancel_flow)
    fail_flow = _operation(operations.fail_flow)
    advance_sequential_step = _operation(operations.advance_sequential_step)
    record_branch_result = _operation(operations.record_branch_result)
    set_condition_branch = _operation(operations.set_condition_branch)
    record_tool_call = _operation(operations.record_tool_call)
    register_slots = _operation(operations.register_slots)
    collect_slot = _operation(operations.collect_slot)
    correct_slot = _operation(operations.correct_slot)
    clear_slot = _operation(operations.clear_slot)
    request_confirmation = _operation(operations.request_confirmation)
    deny_action = _operation(operations.deny_action)
    begin_action = _operation(operations.begin_action)
    finish_action = _operation(operations.finish_action)
    enqueue = _operation(operations.enqueue)

    async def confirm_action(self, conversation_id: str) -> dict[str, Any] | None:
        """The answer was yes: the payload of the confirmation, once; None where none is open."""
        return (await self.operate(conversation_id, operations.confirm_action))[1]

    async def dequeue(self, conversation_id: str) -> QueuedMessage | None:
        """The message that has waited longest, removed from the queue; None where none may be taken."""
        return (await self.operate(conversation_id, operations.dequeue))[1]


def _unreadable(conversation_id: str, cause: str) -> UnreadableRecordError:
    return UnreadableRecordError(
        f"The record cannot be read: {cause}",
        where=f"conversation {conversation_id!r}",
        remedy="It is moved aside; see `jazzmine-dspy memory show ID --quarantined`.",
    )


def _at_version(state: WorkingMemory, version: int) -> WorkingMemory:
    # Not by assignment, which would validate the whole state again.
    state.__dict__["version"] = version
    return state
