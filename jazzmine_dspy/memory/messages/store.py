"""The protocol of message stores, and the pages that they return."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from jazzmine_dspy.models.messages import Conversation, Message, TurnTrace

T = TypeVar("T")

IMMUTABLE_FIELDS = frozenset(
    {
        "id",
        "conversation_id",
        "user_id",
        "role",
        "original_content",
        "timestamp",
        "created_at",
        "is_flagged",
    }
)
"""Fields of a stored message or conversation that no update changes. Only :meth:`MessageStore.flag_message` changes
``is_flagged``."""

ENHANCED_FIELDS = frozenset(
    {
        "enhanced_message",
        "episode_id",
        "sentiment_score",
        "intent",
        "entities",
        "is_cancellation",
        "is_continuation",
        "decision",
        "confidences",
        "program_fingerprint",
        "state",
    }
)
"""Fields that :meth:`MessageStore.update_message` writes by default: what the program understood of a message."""

CONVERSATION_FIELDS = frozenset({"title", "agent_id", "last_updated_at"})
"""Fields that :meth:`MessageStore.update_conversation` writes by default."""


class DamagedRow(NamedTuple):
    """A row that a list leaves out because it cannot be read."""

    id: str
    cause: str


class Page(list[T]):
    """A list of records that also names the rows that it leaves out.

    Attributes:
        damaged: Rows in the requested range that cannot be read. They count towards ``limit`` and ``offset``, so that
            pages neither overlap nor shift, and a page may therefore be shorter than ``limit``.
        next_offset: Where the next page begins; None at the end, and for lists that have no pages.

    Example:
        >>> page = Page(["a", "b"], damaged=[DamagedRow("m3", "no JSON")], next_offset=3)
        >>> page == ["a", "b"], [row.id for row in page.damaged], page.next_offset
        (True, ['m3'], 3)
    """

    def __init__(
        self, items: Iterable[T] = (), *, damaged: Iterable[DamagedRow] = (), next_offset: int | None = None
    ) -> None:
        super().__init__(items)
        self.damaged = tuple(damaged)
        self.next_offset = next_offset


@runtime_checkable
class MessageStore(Protocol):
    """Stores conversations, messages and turn traces, in the order in which they were first stored.

    Duties:
        - Order: every list is in the order of first storing, whatever the timestamps are; updates move nothing. Pages
          of one conversation are stable while nothing is deleted.
        - Storing a message or a conversation again under its id changes nothing, so that a turn can be repeated. It is
          a ``ConflictError`` if conversation, role or content of the message differ, or the conversation's user.
        - Updates are partial and atomic: a flag or another field that another process changes meanwhile survives.
        - A flagged message is never part of a context.
        - A message has one trace at most. A trace stored again under its id replaces the stored one; a trace that
          moves from the user's message to the reply is returned for either.
        - Rows that cannot be read: lists leave them out, log a warning and name them in :attr:`Page.damaged`; by id
          they are a ``DamagedRecordError``.
        - Messages and traces need no conversation record, and traces no message.

    Invariants: what a store returns and what it stores share no object; what is stored comes back equal, except that
    NUL characters are dropped, JSON object keys may come in another order, and PostgreSQL returns a whole float of an
    untyped field as an integer. A call that raises has changed nothing, except that one which ended in
    ``MemoryUnavailableError`` or was cancelled may still do its work. Repeating the call is safe.

    Limits: ids of 512 characters at most, without NUL; 1,000,000 bytes of JSON for a message or a conversation and
    10,000,000 for a trace; 10,000 records in a page or a call.

    Errors: ``InputError`` for input outside these limits and for text with half a surrogate pair; ``ConflictError``
    for an id that something else has; ``NotStoredError`` where there is nothing to change; ``DamagedRecordError``
    for a record that cannot be read; ``MemoryUnavailableError`` where the store does not answer in time. Reading
    what does not exist returns None or an empty list.
    """

    async def store_conversation(self, conversation: Conversation) -> None:
        """Store a conversation."""

    async def ensure_conversation(self, conversation: Conversation) -> Conversation:
        """Store a conversation, or move the stored one's ``last_updated_at`` forward; return the stored one."""

    async def get_conversation(self, conversation_id: str) -> Conversation | None:
        """Return a conversation."""

    async def get_conversations_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Return conversations of a user."""

    async def get_conversations_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Return conversations with an agent."""

    async def update_conversation(
        self, conversation: Conversation, *, fields: Collection[str] = CONVERSATION_FIELDS
    ) -> None:
        """Write the named fields of a stored conversation, and no others."""

    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation with its messages and traces; return whether there was anything."""

    async def store_message(self, message: Message) -> None:
        """Store a message."""

    async def store_messages(self, messages: Sequence[Message]) -> None:
        """Store messages in this order, all or none."""

    async def update_message(self, message: Message, *, fields: Collection[str] = ENHANCED_FIELDS) -> None:
        """Write the named fields of a stored message, and no others; none of :data:`IMMUTABLE_FIELDS`."""

    async def get_message(self, message_id: str) -> Message | None:
        """Return a message."""

    async def get_messages_by_ids(self, message_ids: Sequence[str]) -> Page[Message]:
        """Return the stored messages among these ids, in this order, each once."""

    async def get_messages_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Return messages of a conversation, flagged ones too."""

    async def get_messages_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Return messages in all conversations of a user, flagged ones too."""

    async def get_immediate_context(
        self, conversation_id: str, n: int, *, exclude: str | None = None
    ) -> Page[Message]:
        """Return the last ``n`` readable messages without a flag, oldest first, except that of id ``exclude``."""

    async def flag_message(self, message_id: str, flagged: bool = True) -> None:
        """Leave a message out of every later context, or let it in again."""

    async def delete_message(self, message_id: str) -> bool:
        """Delete a message, readable or not, and its trace; return whether there was such a message."""

    async def store_turn_trace(self, trace: TurnTrace) -> None:
        """Store a trace, or replace the stored one of its id."""

    async def get_turn_trace(self, trace_id: str) -> TurnTrace | None:
        """Return a trace."""

    async def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """Return the trace of the turn that a message belongs to."""

    async def get_turn_traces_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Return traces of a conversation."""

    async def get_turn_traces_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Return traces of an agent."""

    async def close(self) -> None:
        """Close the connections; a later call opens new ones. Closing twice is fine."""
