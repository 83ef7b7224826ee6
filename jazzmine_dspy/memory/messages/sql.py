"""Conversations, messages and traces in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.util import find_spec

import sqlalchemy as sa

from jazzmine_dspy.memory.messages import _tables as tables
from jazzmine_dspy.memory.messages._checks import (
    check_conversation,
    check_fields,
    check_ids,
    check_message,
    check_range,
    check_same,
    check_trace,
    not_stored,
    second_trace,
)
from jazzmine_dspy.memory.messages._database import Database
from jazzmine_dspy.memory.messages._extra import missing_sql
from jazzmine_dspy.memory.messages._records import R, pack
from jazzmine_dspy.memory.messages._rows import Rows, insert
from jazzmine_dspy.memory.messages.page import Page
from jazzmine_dspy.memory.messages.store import (
    CONVERSATION_FIELDS,
    CONVERSATION_OWN_FIELDS,
    ENHANCED_FIELDS,
    OWN_FIELDS,
)
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.models.traces import TurnTrace

_CONVERSATIONS = Rows(Conversation, tables.conversations, "user_id", "agent_id")
_MESSAGES = Rows(Message, tables.messages, "conversation_id", "user_id")
_TRACES = Rows(TurnTrace, tables.traces, "conversation_id", "agent_id")


class SqlMessageStore:
    """A :class:`~jazzmine_dspy.memory.messages.MessageStore` in SQLite (embedded) or PostgreSQL (JSONB).

    Nothing is opened before the first call, which also brings the tables up to date; processes that start at once do
    so one after another. No call blocks the event loop, and every call may be cancelled. Each event loop has
    connections of its own; a database in memory belongs to the one loop that first used it. What a call has stored
    survives a crash of the process and of the machine.

    Args:
        url: ``sqlite:///file.db``, ``sqlite://`` (in memory) or ``postgresql://user:password@host/database``. On
            Windows, PostgreSQL needs a selector event loop, as psycopg does.
        deadline: Seconds within which every call ends, with ``MemoryUnavailableError`` if need be.
        pool_size: Connections held open at most, in each event loop; calls beyond that wait for one.

    Raises:
        InputError: an argument cannot be used.
        MissingExtraError: the database's driver is not installed.
        MemoryUnavailableError: raised by every method where the database is down, locked, full, or too slow.
        SchemaVersionError: raised by every method where a newer version of this package made the tables.

    Example:
        >>> import asyncio
        >>> async def main() -> str:
        ...     store = SqlMessageStore("sqlite://")
        ...     said = Message(id="m1", conversation_id="c1", user_id="u1", role="user",
        ...                    original_content="hi", timestamp=1)
        ...     await store.store_message(said)
        ...     [kept] = await store.get_immediate_context("c1", 10)
        ...     await store.close()
        ...     return kept.original_content
        >>> asyncio.run(main())
        'hi'
    """

    def __init__(self, url: str, *, deadline: float = 5.0, pool_size: int = 5) -> None:
        try:
            self._database = Database(url, deadline=deadline, pool_size=pool_size)
        except ImportError as error:
            raise missing_sql(error) from error
        if not find_spec("greenlet"):
            raise missing_sql(ModuleNotFoundError("No module named 'greenlet'", name="greenlet"))

    def __repr__(self) -> str:
        return f"<SqlMessageStore {self._database.place}>"

    async def migrate(self, *, deadline: float = 600.0) -> None:
        """Bring the tables up to date now, with more time for it than the first call would have.

        Raises:
            MemoryUnavailableError: the database failed, or it took longer than ``deadline`` seconds.
            SchemaVersionError: a newer version of this package made the tables.
        """
        await self._database.migrate(deadline=deadline)

    async def close(self) -> None:
        """Close the running event loop's connections; a later call opens new ones."""
        await self._database.close()

    # --- conversations -----------------------------------------------------------------------------------

    async def store_conversation(self, conversation: Conversation) -> None:
        """Keep a conversation; see :class:`MessageStore` for what each method promises and raises."""
        check_conversation(conversation)
        key, data = conversation.id, pack(conversation, conversation.id)

        def work(connection: sa.Connection) -> None:
            _CONVERSATIONS.add(connection, conversation, key, data, CONVERSATION_OWN_FIELDS)

        await self._database.run(work, write=True)

    async def ensure_conversation(self, conversation: Conversation) -> Conversation:
        """Keep a conversation unless it is kept; then move its ``last_updated_at`` on."""
        check_conversation(conversation)
        key, data = conversation.id, pack(conversation, conversation.id)

        def work(connection: sa.Connection) -> Conversation | None:
            row = _CONVERSATIONS.insert_or_lock(connection, conversation, key, data)
            if row is not None:
                kept = _CONVERSATIONS.readable(row, key)
                check_same(kept, conversation, key)
                if conversation.last_updated_at > kept.last_updated_at:
                    _CONVERSATIONS.lay_over(connection, row, data, ["last_updated_at"])
            return _CONVERSATIONS.get(connection, key)

        kept = await self._database.run(work, write=True)
        assert kept is not None
        return kept

    async def get_conversation(self, conversation_id: str) -> Conversation | None:
        """A conversation, or None."""
        return await self._get(_CONVERSATIONS, conversation_id)

    async def get_conversations_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Conversations of a user, the first stored first."""
        return await self._page(_CONVERSATIONS, "user_id", user_id, limit, offset)

    async def get_conversations_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Conversations with an agent, the first stored first."""
        return await self._page(_CONVERSATIONS, "agent_id", agent_id, limit, offset)

    async def update_conversation(self, conversation: Conversation) -> None:
        """Write a conversation's title, agent and ``last_updated_at``."""
        check_conversation(conversation)
        key, data = conversation.id, pack(conversation, conversation.id)

        def work(connection: sa.Connection) -> None:
            _CONVERSATIONS.change(connection, key, data, CONVERSATION_FIELDS)

        await self._database.run(work, write=True)

    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation with its messages and traces; whether there was anything."""
        check_ids(conversation_id=conversation_id)
        messages, traces, links = tables.messages, tables.traces, tables.trace_messages

        def work(connection: sa.Connection) -> bool:
            of_it = sa.select(messages.c.id).where(messages.c.conversation_id == conversation_id)
            linked = sa.select(links.c.trace_id).where(links.c.message_id.in_(of_it))
            its_traces = (traces.c.conversation_id == conversation_id) | traces.c.id.in_(linked)
            deleted = [
                connection.execute(sa.delete(traces).where(its_traces)),
                connection.execute(sa.delete(messages).where(messages.c.conversation_id == conversation_id)),
                connection.execute(
                    sa.delete(tables.conversations).where(tables.conversations.c.id == conversation_id)
                ),
            ]
            return any(result.rowcount for result in deleted)

        return await self._database.run(work, write=True)

    # --- messages ----------------------------------------------------------------------------------------

    async def store_message(self, message: Message) -> None:
        """Keep a message."""
        await self.store_messages([message])

    async def store_messages(self, messages: Sequence[Message]) -> None:
        """Keep messages in the order given, all or none."""
        check_range(len(messages), name="the number of messages")
        for message in messages:
            check_message(message)
        packed = [(message, message.id, pack(message, message.id)) for message in messages]

        def work(connection: sa.Connection) -> None:
            if len(packed) > 1:
                _MESSAGES.lock_all(connection, [key for _, key, _ in packed])
            for message, key, data in packed:
                _MESSAGES.add(connection, message, key, data, OWN_FIELDS)

        if packed:
            await self._database.run(work, write=True)

    async def update_message(self, message: Message, *, fields: Collection[str] = ENHANCED_FIELDS) -> None:
        """Write some fields of a message that is kept, and no others."""
        chosen = check_fields(fields)
        check_message(message)
        key, data = message.id, pack(message, message.id)
        await self._database.run(
            lambda connection: _MESSAGES.change(connection, key, data, chosen), write=True
        )

    async def get_message(self, message_id: str) -> Message | None:
        """A message, or None."""
        return await self._get(_MESSAGES, message_id)

    async def get_messages_by_ids(self, message_ids: Sequence[str]) -> Page[Message]:
        """The messages of these ids, in the order asked for and each once."""
        check_range(len(message_ids), name="the number of ids")
        for message_id in message_ids:
            check_ids(message_id=message_id)
        ids = list(dict.fromkeys(message_ids))
        return await self._database.run(lambda connection: _MESSAGES.by_ids(connection, ids))

    async def get_messages_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Messages of a conversation, flagged ones among them, the first stored first."""
        return await self._page(_MESSAGES, "conversation_id", conversation_id, limit, offset)

    async def get_messages_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Messages in all of a user's conversations, the first stored first."""
        return await self._page(_MESSAGES, "user_id", user_id, limit, offset)

    async def get_immediate_context(
        self, conversation_id: str, n: int, *, exclude: str | None = None
    ) -> Page[Message]:
        """The last ``n`` messages that are not flagged and can be read, oldest first."""
        check_ids(conversation_id=conversation_id, exclude=exclude)
        check_range(n, name="n")
        column = tables.messages.c
        conditions = [column.conversation_id == conversation_id, ~column.flagged]
        if exclude is not None:
            conditions.append(column.id != exclude)
        return await self._database.run(lambda connection: _MESSAGES.newest(connection, conditions, n))

    async def flag_message(self, message_id: str, flagged: bool = True) -> None:
        """Keep a message out of every later context, or let it in again."""
        check_ids(message_id=message_id)
        one = tables.messages.c.id == message_id

        def work(connection: sa.Connection) -> None:
            if not connection.execute(sa.update(tables.messages).where(one).values(flagged=flagged)).rowcount:
                raise not_stored(Message, message_id)

        await self._database.run(work, write=True)

    async def delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace; whether there was such a message."""
        check_ids(message_id=message_id)
        messages, traces, links = tables.messages, tables.traces, tables.trace_messages
        linked = sa.select(links.c.trace_id).where(links.c.message_id == message_id)

        def work(connection: sa.Connection) -> bool:
            connection.execute(sa.delete(traces).where(traces.c.id.in_(linked)))
            return connection.execute(sa.delete(messages).where(messages.c.id == message_id)).rowcount > 0

        return await self._database.run(work, write=True)

    # --- traces ------------------------------------------------------------------------------------------

    async def store_turn_trace(self, trace: TurnTrace) -> None:
        """Keep a trace."""
        check_trace(trace)
        key, message_id, data = trace.id, trace.message_id, pack(trace, trace.id)
        links = tables.trace_messages
        its_trace = sa.select(links.c.trace_id).where(links.c.message_id == message_id)

        def work(connection: sa.Connection) -> None:
            _TRACES.replace(connection, trace, key, data)
            link = {"message_id": message_id, "trace_id": key}
            if not insert(connection, links, link) and connection.scalar(its_trace) != key:
                raise second_trace(message_id)

        await self._database.run(work, write=True)

    async def get_turn_trace(self, trace_id: str) -> TurnTrace | None:
        """A trace, or None."""
        return await self._get(_TRACES, trace_id)

    async def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """The trace of the turn that a message belongs to, or None."""
        check_ids(message_id=message_id)
        links = tables.trace_messages
        its_trace = sa.select(links.c.trace_id).where(links.c.message_id == message_id)

        def work(connection: sa.Connection) -> TurnTrace | None:
            trace_id = connection.scalar(its_trace)
            return None if trace_id is None else _TRACES.get(connection, trace_id)

        return await self._database.run(work)

    async def get_turn_traces_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Traces that name this conversation, the first stored first."""
        return await self._page(_TRACES, "conversation_id", conversation_id, limit, offset)

    async def get_turn_traces_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Traces that name this agent, the first stored first."""
        return await self._page(_TRACES, "agent_id", agent_id, limit, offset)

    # --- within ------------------------------------------------------------------------------------------

    async def _get(self, rows: Rows[R], record_id: str) -> R | None:
        check_ids(id=record_id)
        return await self._database.run(lambda connection: rows.get(connection, record_id))

    async def _page(self, rows: Rows[R], column: str, value: str, limit: int, offset: int) -> Page[R]:
        check_ids(**{column: value})
        check_range(limit, offset)
        return await self._database.run(
            lambda connection: rows.page(connection, column, value, limit, offset)
        )
