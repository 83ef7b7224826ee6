"""What a store of messages and traces promises."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jazzmine_dspy.models.messages import Message
from jazzmine_dspy.models.traces import TurnTrace

OWN_FIELDS = frozenset(
    {"id", "conversation_id", "user_id", "role", "original_content", "timestamp", "is_flagged"}
)
"""Fields that an update leaves alone: what was said, by whom and when, and the flag (E17)."""


@runtime_checkable
class MessageStore(Protocol):
    """Keeps messages, in the order in which they were first stored, and turn traces.

    Duties:
        - Storing a message again, with the same conversation, role and content, updates it: a turn may be
          repeated.
        - A flagged message is never given as context, and no update takes the flag away.
        - A trace stored again under its id replaces the one before; a message has one trace at most. A trace
          that moves on from the user's message to the reply is found by either.

    Invariants: what is handed out and what is kept share no object; a failed call has changed nothing.

    Errors: ``MemoryUnavailableError`` where the store does not answer; ``ConflictError`` for an id that
    something else has; ``NotStoredError`` where there is nothing to change.
    """

    async def store_message(self, message: Message) -> None:
        """Keep a message.

        Raises:
            ConflictError: the id belongs to another message.
        """
        ...

    async def update_message(self, message: Message) -> None:
        """Write what was found out about a message; what it says, and its flag, stay as they are kept.

        Raises:
            NotStoredError: there is no such message.
        """
        ...

    async def get_message(self, message_id: str) -> Message | None:
        """A message, or None."""
        ...

    async def get_messages_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> list[Message]:
        """Messages of a conversation, flagged ones among them, oldest first."""
        ...

    async def get_immediate_context(
        self, conversation_id: str, n: int, *, exclude: str | None = None
    ) -> list[Message]:
        """The last ``n`` messages not flagged, oldest first, without the one of id ``exclude``."""
        ...

    async def flag_message(self, message_id: str, flagged: bool = True) -> None:
        """Keep a message out of every later context, or let it in again.

        Raises:
            NotStoredError: there is no such message.
        """
        ...

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
