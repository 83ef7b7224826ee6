"""What a store of conversations, messages and traces promises."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from jazzmine_dspy.memory.messages.page import Page
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.models.traces import TurnTrace

OWN_FIELDS = frozenset(
    {"id", "conversation_id", "user_id", "role", "original_content", "timestamp", "is_flagged"}
)
"""Fields of a message that nothing but :meth:`MessageStore.flag_message` changes once it is stored: what was
said, by whom and when, and the flag."""

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
"""Fields that :meth:`MessageStore.update_message` writes unless told others: what understanding a message found."""


CONVERSATION_OWN_FIELDS = frozenset({"id", "user_id", "created_at"})
"""Fields of a conversation that nothing changes once it is stored."""

CONVERSATION_FIELDS = frozenset({"title", "agent_id", "last_updated_at"})
"""Fields that :meth:`MessageStore.update_conversation` writes."""


@runtime_checkable
class MessageStore(Protocol):
    """Keeps conversations, messages and turn traces, in the order in which they were first stored.

    Duties:
        - Order: every list is in the order of first storing, whatever the timestamps say; storing again, or
          updating, moves nothing. Pages of one conversation are stable while nothing
          is deleted; those of a user or an agent may miss or repeat what others store meanwhile.
        - Storing again under the same id is no error where it is the same thing (a turn may be repeated): it
          writes what the record given was explicitly given, and leaves the rest as it is kept. For a message,
          the same thing is the same conversation, role and content; for a conversation, the same user.
        - Updates are partial and atomic: a flag, or an edit of another field, that someone else makes meanwhile
          survives, over connections and processes too.
        - A flagged message is never given as context, and only ``flag_message`` changes a flag.
        - A message has one trace at most. A trace stored again under its id replaces the one before; one that moves
          on from the user's message to the reply is found by either.
        - Records that cannot be read: in lists they are left out, logged as a warning and named in
          :attr:`Page.damaged`; by id they are a ``DamagedRecordError``.
        - Fields that this version does not know, written by a newer one, are ignored when read and kept when the
          record is updated.
        - Messages and traces need no conversation record, and traces no message.

    Invariants: what is handed out and what is kept share no object; what is stored comes back equal (JSON object
    keys may come in another order); a call that raises has changed nothing, except that of a call which ended in
    ``MemoryUnavailableError`` or was cancelled while it was committing, the change may have been made. Repeating
    the call is safe.

    Limits: ids of 512 characters, without NUL; 1,000,000 bytes of JSON for a message or a conversation and 10,000,000
    for a trace; 100 levels of nesting; 10,000 records in a page or a call. NUL in other text is kept; half a
    surrogate pair is refused.

    Errors: ``InputError`` for what is outside these limits; ``ConflictError`` for an id that something else has;
    ``NotStoredError`` where there is nothing to change; ``DamagedRecordError`` where what is to be changed or
    read by id cannot be read; ``MemoryUnavailableError`` where the store does not answer, or not in time.
    Reading what is not there is no error: None, or an empty list.
    """

    # --- conversations -----------------------------------------------------------------------------------

    async def store_conversation(self, conversation: Conversation) -> None:
        """Keep a conversation.

        Raises:
            ConflictError: the id belongs to another user's conversation.
        """
        ...

    async def ensure_conversation(self, conversation: Conversation) -> Conversation:
        """Keep a conversation unless it is kept already; then move its ``last_updated_at`` on, never back.

        Everything else stays as it is kept. Atomic: of many calls at once, one stores.

        Returns:
            The conversation as it is now kept.

        Raises:
            ConflictError: the id belongs to another user's conversation.
        """
        ...

    async def get_conversation(self, conversation_id: str) -> Conversation | None:
        """A conversation, or None."""
        ...

    async def get_conversations_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Conversations of a user, the first stored first."""
        ...

    async def get_conversations_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Conversation]:
        """Conversations with an agent, the first stored first."""
        ...

    async def update_conversation(self, conversation: Conversation) -> None:
        """Write a conversation's title, agent and ``last_updated_at``; user, ``created_at`` and summaries stay.

        Raises:
            NotStoredError: there is no such conversation.
        """
        ...

    async def delete_conversation(self, conversation_id: str) -> bool:
        """Delete a conversation with its messages and traces, readable or not; whether there was anything."""
        ...

    # --- messages ----------------------------------------------------------------------------------------

    async def store_message(self, message: Message) -> None:
        """Keep a message.

        Raises:
            ConflictError: the id belongs to another message.
        """
        ...

    async def store_messages(self, messages: Sequence[Message]) -> None:
        """Keep messages in the order given, all or none.

        Raises:
            ConflictError: an id belongs to another message.
        """
        ...

    async def update_message(self, message: Message, *, fields: Collection[str] = ENHANCED_FIELDS) -> None:
        """Write some fields of a message that is kept, and no others.

        Args:
            message: Holds the new values.
            fields: Names of the fields to write; those of :data:`OWN_FIELDS` cannot be.

        Raises:
            InputError: ``fields`` names one that does not exist or cannot be written.
            NotStoredError: there is no such message.
        """
        ...

    async def get_message(self, message_id: str) -> Message | None:
        """A message, or None."""
        ...

    async def get_messages_by_ids(self, message_ids: Sequence[str]) -> Page[Message]:
        """The messages of these ids, in the order asked for and each once; unknown ids are left out."""
        ...

    async def get_messages_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Messages of a conversation, flagged ones among them, the first stored first."""
        ...

    async def get_messages_by_user_id(
        self, user_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[Message]:
        """Messages in all of a user's conversations, flagged ones among them, the first stored first."""
        ...

    async def get_immediate_context(
        self, conversation_id: str, n: int, *, exclude: str | None = None
    ) -> Page[Message]:
        """The last ``n`` messages that are not flagged and can be read, oldest first, without that of id ``exclude``.

        ``damaged`` names those met on the way.
        """
        ...

    async def flag_message(self, message_id: str, flagged: bool = True) -> None:
        """Keep a message out of every later context, or let it in again.

        Raises:
            NotStoredError: there is no such message.
        """
        ...

    async def delete_message(self, message_id: str) -> bool:
        """Delete a message, readable or not, and its trace; whether there was such a message."""
        ...

    # --- traces ------------------------------------------------------------------------------------------

    async def store_turn_trace(self, trace: TurnTrace) -> None:
        """Keep a trace.

        Raises:
            ConflictError: its message already has another trace.
        """
        ...

    async def get_turn_trace(self, trace_id: str) -> TurnTrace | None:
        """A trace, or None."""
        ...

    async def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """The trace of the turn that a message belongs to, or None."""
        ...

    async def get_turn_traces_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Traces that name this conversation, the first stored first."""
        ...

    async def get_turn_traces_by_agent_id(
        self, agent_id: str, *, limit: int = 100, offset: int = 0
    ) -> Page[TurnTrace]:
        """Traces that name this agent, the first stored first."""
        ...

    # --- the end -----------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Let go of connections. Closing twice is fine; what happens to calls under way is not defined."""
        ...
