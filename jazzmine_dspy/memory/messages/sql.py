"""The message store in SQLite and PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import sqlalchemy as sa

from jazzmine_dspy.memory.errors import ConflictError
from jazzmine_dspy.memory.messages.database import Database
from jazzmine_dspy.memory.messages.rows import (
    CONVERSATIONS,
    MESSAGES,
    TRACE_LINKS,
    TRACES,
    R,
    RecordTable,
    insert,
)
from jazzmine_dspy.memory.messages.store import CONVERSATION_FIELDS, ENHANCED_FIELDS, Page
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Conversation, Message, TurnTrace

MAX_ID = 512
"""Characters of an id."""

MAX_PAGE = 10_000
"""Records in a page or a call."""

_UNFIT = re.compile("[\0\ud800-\udfff]")


class SqlMessageStore:
    """A :class:`~jazzmine_dspy.memory.messages.MessageStore` in SQLite (embedded) or PostgreSQL (JSONB).

    The first call creates the tables. No call blocks the event loop, except that a database in memory answers in the
    caller's thread. Every call may be cancelled; its work may still be done then. One store serves any number of
    event loops and threads of the process that made it.

    Args:
        url: ``sqlite:///file.db``, ``sqlite://`` (in memory) or ``postgresql://user:password@host/database``. Options
            of libpq may follow, and ``prepare_threshold``: no statement is prepared without it, as poolers require.
        deadline: Seconds within which every call ends, with ``MemoryUnavailableError`` if need be.
        pool_size: Connections at most; calls beyond that wait for one.

    Raises:
        InputError: an argument cannot be used.
        MissingExtraError: the URL is PostgreSQL's and psycopg is not installed.
        MemoryUnavailableError: raised by every method where the database is down, locked, full, or too slow.

    Example:
        >>> import asyncio
        >>> async def main() -> str:
        ...     store = SqlMessageStore("sqlite://")
        ...     message = Message(id="m1", conversation_id="c1", user_id="u1", role="user",
        ...                       original_content="hi", timestamp=1)
        ...     await store.store_message(message)
        ...     [stored] = await store.get_immediate_context("c1", 10)
        ...     await store.close()
        ...     return stored.original_content
        >>> asyncio.run(main())
        'hi'
    """

    def __init__(self, url: str, *, deadline: float = 5.0, pool_size: int = 5) -> None:
        self._database = Database(url, deadline=deadline, pool_size=pool_size)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._database.address}>"

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self._database.close()

    # --- conversations -----------------------------------------------------------------------------------

    async def store_conversation(self, conversation: Conversation) -> None:
        """Store a conversation; :class:`MessageStore` says what each method promises and raises."""
        _check_record(CONVERSATIONS, conversation)
        await self._database.run(lambda c: CONVERSATIONS.add(c, conversation), write=True)

    async def ensure_conversation(self, conversation: Conversation) -> Conversation:
        """Store a conversation, or move the stored one's ``last_updated_at`` forward; return the stored one."""
        _check_record(CONVERSATIONS, conversation)

        def work(connection: sa.Connection) -> Conversation:
            stored = None
            while stored is None:  # another process may delete it in between
                CONVERSATIONS.add(connection, conversation)
                stored = CONVERSATIONS.get(connection, CONVERSATIONS.c.id == conversation.id, lock=True)
            if conversation.last_updated_at > stored.last_updated_at:
                return CONVERSATIONS.update(connection, conversation, ["last_updated_at"])
            return stored

        return await self._database.run(work, write=True)

    async def get_conversation(self, conversation_id: str) -> Conversation | None:
        """Return a conversation."""
        return await self._get(CONVERSATIONS, conversation_id)

    async def get_conversations_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Return conversations of a user."""
        return await self._page(CONVERSATIONS, "user_id", user_id, limit, offset)

    async def get_conversations_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Return conversations with an agent."""
        return await self._page(CONVERSATIONS, "agent_id", agent_id, limit, offset)

    async def update_conversation(
        self, conversation: Conversation, *, fields: Collection[str] = CONVERSATION_FIELDS
    ) -> None:
        """Write the named fields of a stored conversation, and no others."""
        chosen = CONVERSATIONS.writable(fields)
        _check_record(CONVERSATIONS, conversation)
        await self._database.run(lambda c: CONVERSATIONS.update(c, conversation, chosen), write=True)

    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation with its messages and traces; return whether there was anything."""
        _check_ids(conversation_id=conversation_id)
        of_it = sa.select(MESSAGES.c.id).where(MESSAGES.c.conversation_id == conversation_id)
        linked = sa.select(TRACE_LINKS.c.trace_id).where(TRACE_LINKS.c.message_id.in_(of_it))
        statements = (
            sa.delete(TRACES.table).where(
                (TRACES.c.conversation_id == conversation_id) | TRACES.c.id.in_(linked)
            ),
            sa.delete(MESSAGES.table).where(MESSAGES.c.conversation_id == conversation_id),
            sa.delete(CONVERSATIONS.table).where(CONVERSATIONS.c.id == conversation_id),
        )

        def work(connection: sa.Connection) -> bool:
            return sum(connection.execute(statement).rowcount for statement in statements) > 0

        return await self._database.run(work, write=True)

    # --- messages ----------------------------------------------------------------------------------------

    async def store_message(self, message: Message) -> None:
        """Store a message."""
        await self.store_messages([message])

    async def store_messages(self, messages: Sequence[Message]) -> None:
        """Store messages in this order, all or none."""
        _check_range(len(messages), name="the number of messages")
        for message in messages:
            _check_record(MESSAGES, message)

        def work(connection: sa.Connection) -> None:
            for message in messages:
                MESSAGES.add(connection, message)

        await self._database.run(work, write=True)

    async def update_message(self, message: Message, *, fields: Collection[str] = ENHANCED_FIELDS) -> None:
        """Write the named fields of a stored message, and no others."""
        chosen = MESSAGES.writable(fields)
        _check_record(MESSAGES, message)
        await self._database.run(lambda c: MESSAGES.update(c, message, chosen), write=True)

    async def get_message(self, message_id: str) -> Message | None:
        """Return a message."""
        return await self._get(MESSAGES, message_id)

    async def get_messages_by_ids(self, message_ids: Sequence[str]) -> Page[Message]:
        """Return the stored messages among these ids, in this order, each once."""
        _check_range(len(message_ids), name="the number of ids")
        for message_id in message_ids:
            _check_ids(message_id=message_id)
        order = {message_id: place for place, message_id in reversed([*enumerate(message_ids)])}
        page = await self._database.run(
            lambda c: MESSAGES.page(c, MESSAGES.c.id.in_(order), limit=len(order))
        )
        page.sort(key=lambda message: order[message.id])
        return page

    async def get_messages_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Return messages of a conversation, flagged ones too."""
        return await self._page(MESSAGES, "conversation_id", conversation_id, limit, offset)

    async def get_messages_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Return messages in all conversations of a user, flagged ones too."""
        return await self._page(MESSAGES, "user_id", user_id, limit, offset)

    async def get_immediate_context(
        self, conversation_id: str, n: int, *, exclude: str | None = None
    ) -> Page[Message]:
        """Return the last ``n`` readable messages without a flag, oldest first, except that of id ``exclude``."""
        _check_ids(conversation_id=conversation_id, **({} if exclude is None else {"exclude": exclude}))
        _check_range(n, name="n")
        where = [MESSAGES.c.conversation_id == conversation_id, ~MESSAGES.c.flagged]
        if exclude is not None:
            where.append(MESSAGES.c.id != exclude)
        return await self._database.run(lambda c: MESSAGES.newest(c, *where, n=n))

    async def flag_message(self, message_id: str, flagged: bool = True) -> None:
        """Leave a message out of every later context, or let it in again."""
        _check_ids(message_id=message_id)
        statement = sa.update(MESSAGES.table).where(MESSAGES.c.id == message_id).values(flagged=flagged)
        if not await self._database.run(lambda c: c.execute(statement).rowcount, write=True):
            raise MESSAGES.not_stored(message_id)

    async def delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace; return whether there was such a message."""
        _check_ids(message_id=message_id)
        linked = sa.select(TRACE_LINKS.c.trace_id).where(TRACE_LINKS.c.message_id == message_id)

        def work(connection: sa.Connection) -> bool:
            connection.execute(sa.delete(TRACES.table).where(TRACES.c.id.in_(linked)))
            return bool(
                connection.execute(sa.delete(MESSAGES.table).where(MESSAGES.c.id == message_id)).rowcount
            )

        return await self._database.run(work, write=True)

    # --- traces ------------------------------------------------------------------------------------------

    async def store_turn_trace(self, trace: TurnTrace) -> None:
        """Store a trace, or replace the stored one of its id."""
        _check_record(TRACES, trace)
        _check_ids(message_id=trace.message_id)
        link = {"message_id": trace.message_id, "trace_id": trace.id}
        linked = sa.select(TRACE_LINKS.c.trace_id).where(TRACE_LINKS.c.message_id == trace.message_id)

        def work(connection: sa.Connection) -> None:
            TRACES.replace(connection, trace)
            if not insert(connection, TRACE_LINKS, link) and connection.scalar(linked) != trace.id:
                raise ConflictError(
                    "The message already has a trace",
                    where=f"message {trace.message_id!r}",
                    remedy="Store the changed trace under its own id.",
                )

        await self._database.run(work, write=True)

    async def get_turn_trace(self, trace_id: str) -> TurnTrace | None:
        """Return a trace."""
        return await self._get(TRACES, trace_id)

    async def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """Return the trace of the turn that a message belongs to."""
        _check_ids(message_id=message_id)
        linked = sa.select(TRACE_LINKS.c.trace_id).where(TRACE_LINKS.c.message_id == message_id)
        return await self._database.run(lambda c: TRACES.get(c, TRACES.c.id.in_(linked)))

    async def get_turn_traces_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Return traces of a conversation."""
        return await self._page(TRACES, "conversation_id", conversation_id, limit, offset)

    async def get_turn_traces_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Return traces of an agent."""
        return await self._page(TRACES, "agent_id", agent_id, limit, offset)

    # --- within ------------------------------------------------------------------------------------------

    async def _get(self, table: RecordTable[R], record_id: str) -> R | None:
        _check_ids(id=record_id)
        return await self._database.run(lambda c: table.get(c, table.c.id == record_id))

    async def _page(self, table: RecordTable[R], column: str, value: str, limit: int, offset: int) -> Page[R]:
        _check_ids(**{column: value})
        _check_range(limit, offset)
        return await self._database.run(
            lambda c: table.page(c, table.c[column] == value, limit=limit, offset=offset)
        )


class InMemoryMessageStore(SqlMessageStore):
    """A :class:`~jazzmine_dspy.memory.messages.MessageStore` in this process, over SQLite in memory.

    Nothing is removed except what is deleted; :meth:`close` keeps the content.

    Example:
        >>> import asyncio
        >>> store = InMemoryMessageStore()
        >>> message = Message(id="m1", conversation_id="c1", user_id="u1", role="user",
        ...                   original_content="hi", timestamp=1)
        >>> asyncio.run(store.store_message(message))
        >>> [each.original_content for each in asyncio.run(store.get_immediate_context("c1", 10))]
        ['hi']
    """

    def __init__(self) -> None:
        super().__init__("sqlite://")


def _check_record(table: RecordTable[R], record: R) -> None:
    _check_ids(**{name: getattr(record, name) for name in ("id", *table.columns)})


def _check_ids(**ids: str) -> None:
    """Refuse ids that a database cannot index.

    Raises:
        InputError: an id is not a text, is too long, or holds NUL or half a surrogate pair.
    """
    for name, value in ids.items():
        if isinstance(value, str) and len(value) <= MAX_ID and not _UNFIT.search(value):
            continue
        raise InputError(
            f"The {name} cannot be used",
            where=f"{name} {value!r}"[:80],
            remedy=f"Use a text of {MAX_ID} characters at most, without NUL and half surrogate pairs.",
        )


def _check_range(limit: int, offset: int = 0, *, name: str = "limit") -> None:
    """Refuse pages that no store can return.

    Raises:
        InputError: one number is negative, or the page too large.
    """
    if not (0 <= limit <= MAX_PAGE and 0 <= offset < 2**63):
        raise InputError(
            f"{name} is {limit}, offset {offset}",
            where=name,
            remedy=f"Ask for 0 to {MAX_PAGE:,} records, from offset 0 or later.",
        )
