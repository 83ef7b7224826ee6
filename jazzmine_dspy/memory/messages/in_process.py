"""Conversations, messages and traces in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from jazzmine_dspy.memory.messages._checks import (
    check_conversation,
    check_fields,
    check_ids,
    check_message,
    check_range,
    check_same,
    check_trace,
    left_out,
    not_stored,
    second_trace,
)
from jazzmine_dspy.memory.messages._records import R, UnreadableError, pack
from jazzmine_dspy.memory.messages._table import Table
from jazzmine_dspy.memory.messages.page import Damaged, Page
from jazzmine_dspy.memory.messages.store import (
    CONVERSATION_FIELDS,
    CONVERSATION_OWN_FIELDS,
    ENHANCED_FIELDS,
    OWN_FIELDS,
)
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.models.traces import TurnTrace


class InMemoryMessageStore:
    """A :class:`~jazzmine_dspy.memory.messages.MessageStore` over dictionaries, for one event loop.

    Nothing is let go but what is deleted. Records are held as JSON text, as databases hold them.

    Example:
        >>> import asyncio
        >>> store = InMemoryMessageStore()
        >>> said = Message(id="m1", conversation_id="c1", user_id="u1", role="user", original_content="hi", timestamp=1)
        >>> asyncio.run(store.store_message(said))
        >>> [one.original_content for one in asyncio.run(store.get_immediate_context("c1", 10))]
        ['hi']
    """

    def __init__(self) -> None:
        self._conversations = Table(Conversation, "user_id", "agent_id")
        self._messages = Table(Message, "conversation_id", "user_id")
        self._traces = Table(TurnTrace, "conversation_id", "agent_id")
        self._flags: dict[str, bool] = {}
        self._trace_of: dict[str, str] = {}
        self._messages_of: dict[str, set[str]] = {}

    # --- conversations -----------------------------------------------------------------------------------

    async def store_conversation(self, conversation: Conversation) -> None:
        """Keep a conversation; see :class:`MessageStore` for what each method promises and raises."""
        check_conversation(conversation)
        self._conversations.add(conversation, conversation.id, CONVERSATION_OWN_FIELDS)

    async def ensure_conversation(self, conversation: Conversation) -> Conversation:
        """Keep a conversation unless it is kept; then move its ``last_updated_at`` on."""
        check_conversation(conversation)
        kept = self._conversations.get(conversation.id)
        if kept is None:
            await self.store_conversation(conversation)
        else:
            check_same(kept, conversation, conversation.id)
            if conversation.last_updated_at > kept.last_updated_at:
                self._conversations.change(
                    conversation.id, pack(conversation, conversation.id), ["last_updated_at"]
                )
        return self._conversations.kept(conversation.id)

    async def get_conversation(self, conversation_id: str) -> Conversation | None:
        """A conversation, or None."""
        return self._conversations.get(conversation_id)

    async def get_conversations_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Conversations of a user, the first stored first."""
        return self._page(self._conversations, "user_id", user_id, limit, offset)

    async def get_conversations_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Conversations with an agent, the first stored first."""
        return self._page(self._conversations, "agent_id", agent_id, limit, offset)

    async def update_conversation(self, conversation: Conversation) -> None:
        """Write a conversation's title, agent and ``last_updated_at``."""
        check_conversation(conversation)
        data = pack(conversation, conversation.id)
        self._conversations.change(conversation.id, data, CONVERSATION_FIELDS)

    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation with its messages and traces; whether there was anything."""
        check_ids(conversation_id=conversation_id)
        messages = list(self._messages.ids("conversation_id", conversation_id))
        for message_id in messages:
            await self.delete_message(message_id)
        traces = list(self._traces.ids("conversation_id", conversation_id))
        for trace_id in traces:
            self._drop_trace(trace_id)
        return self._conversations.drop(conversation_id) or bool(messages or traces)

    # --- messages ----------------------------------------------------------------------------------------

    async def store_message(self, message: Message) -> None:
        """Keep a message."""
        await self.store_messages([message])

    async def store_messages(self, messages: Sequence[Message]) -> None:
        """Keep messages in the order given, all or none."""
        check_range(len(messages), name="the number of messages")
        for message in messages:
            check_message(message)
        self._messages.add_all([(message.id, message) for message in messages], OWN_FIELDS)
        for message in messages:
            # A flag given with a new message counts; that of a message kept is left alone.
            if message.is_flagged and message.id not in self._flags:
                self._flags[message.id] = True
            self._flags.setdefault(message.id, False)

    async def update_message(self, message: Message, *, fields: Collection[str] = ENHANCED_FIELDS) -> None:
        """Write some fields of a message that is kept, and no others."""
        chosen = check_fields(fields)
        check_message(message)
        self._messages.change(message.id, pack(message, message.id), chosen)

    async def get_message(self, message_id: str) -> Message | None:
        """A message, or None."""
        message = self._messages.get(message_id)
        return None if message is None else self._with_flag(message)

    async def get_messages_by_ids(self, message_ids: Sequence[str]) -> Page[Message]:
        """The messages of these ids, in the order asked for and each once."""
        check_range(len(message_ids), name="the number of ids")
        for message_id in message_ids:
            check_ids(message_id=message_id)
        known = [
            message_id for message_id in dict.fromkeys(message_ids) if message_id in self._messages.texts
        ]
        return self._read(self._messages, known)

    async def get_messages_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Messages of a conversation, flagged ones among them, the first stored first."""
        return self._page(self._messages, "conversation_id", conversation_id, limit, offset)

    async def get_messages_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Messages in all of a user's conversations, the first stored first."""
        return self._page(self._messages, "user_id", user_id, limit, offset)

    async def get_immediate_context(
        self, conversation_id: str, n: int, *, exclude: str | None = None
    ) -> Page[Message]:
        """The last ``n`` messages that are not flagged and can be read, oldest first."""
        check_ids(conversation_id=conversation_id, exclude=exclude)
        check_range(n, name="n")
        found: list[Message] = []
        lost: list[Damaged] = []
        for message_id in reversed(self._messages.ids("conversation_id", conversation_id)):
            if len(found) >= n:
                break
            if self._flags[message_id] or message_id == exclude:
                continue
            try:
                found.append(self._messages.read(message_id))
            except UnreadableError as error:
                lost.append(left_out(Message, message_id, str(error)))
        return Page(found[::-1], damaged=lost[::-1])

    async def flag_message(self, message_id: str, flagged: bool = True) -> None:
        """Keep a message out of every later context, or let it in again."""
        check_ids(message_id=message_id)
        if message_id not in self._flags:
            raise not_stored(Message, message_id)
        self._flags[message_id] = flagged

    async def delete_message(self, message_id: str) -> bool:
        """Delete a message and its trace; whether there was such a message."""
        check_ids(message_id=message_id)
        if message_id in self._trace_of:
            self._drop_trace(self._trace_of[message_id])
        self._flags.pop(message_id, None)
        return self._messages.drop(message_id)

    # --- traces ------------------------------------------------------------------------------------------

    async def store_turn_trace(self, trace: TurnTrace) -> None:
        """Keep a trace."""
        check_trace(trace)
        if self._trace_of.get(trace.message_id, trace.id) != trace.id:
            raise second_trace(trace.message_id)
        self._traces.replace(trace, trace.id)
        self._trace_of[trace.message_id] = trace.id
        self._messages_of.setdefault(trace.id, set()).add(trace.message_id)

    async def get_turn_trace(self, trace_id: str) -> TurnTrace | None:
        """A trace, or None."""
        return self._traces.get(trace_id)

    async def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """The trace of the turn that a message belongs to, or None."""
        check_ids(message_id=message_id)
        trace_id = self._trace_of.get(message_id)
        return None if trace_id is None else self._traces.get(trace_id)

    async def get_turn_traces_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Traces that name this conversation, the first stored first."""
        return self._page(self._traces, "conversation_id", conversation_id, limit, offset)

    async def get_turn_traces_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Traces that name this agent, the first stored first."""
        return self._page(self._traces, "agent_id", agent_id, limit, offset)

    async def close(self) -> None:
        """Nothing is open here; what is kept stays."""

    # --- within ------------------------------------------------------------------------------------------

    def _page(self, table: Table[R], column: str, value: str, limit: int, offset: int) -> Page[R]:
        check_ids(**{column: value})
        check_range(limit, offset)
        ids = table.ids(column, value)
        page = self._read(table, islice(ids, offset, offset + limit))
        page.next_offset = offset + limit if offset + limit < len(ids) else None
        return page

    def _read(self, table: Table[R], ids: Iterable[str]) -> Page[R]:
        found: list[R] = []
        lost: list[Damaged] = []
        for record_id in ids:
            try:
                record = table.read(record_id)
            except UnreadableError as error:
                lost.append(left_out(table.kind, record_id, str(error)))
            else:
                found.append(self._with_flag(record))
        return Page(found, damaged=lost)

    def _with_flag(self, record: R) -> R:
        if isinstance(record, Message) and self._flags[record.id]:
            record.is_flagged = True
        return record

    def _drop_trace(self, trace_id: str) -> None:
        self._traces.drop(trace_id)
        for message_id in self._messages_of.pop(trace_id):
            del self._trace_of[message_id]
