"""Messages and traces in this process."""

from __future__ import annotations

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError
from jazzmine_dspy.memory.messages.store import OWN_FIELDS
from jazzmine_dspy.models.messages import Message
from jazzmine_dspy.models.traces import TurnTrace


class InMemoryMessageStore:
    """A :class:`~jazzmine_dspy.memory.messages.MessageStore` over dictionaries; nothing is ever let go."""

    def __init__(self) -> None:
        self._messages: dict[str, Message] = {}
        self._by_conversation: dict[str, list[str]] = {}
        self._traces: dict[str, TurnTrace] = {}
        self._trace_of: dict[str, str] = {}

    async def store_message(self, message: Message) -> None:
        """Keep a message.

        Raises:
            ConflictError: the id belongs to another message.
        """
        kept = self._messages.get(message.id)
        if kept is not None:
            same = ("conversation_id", "role", "original_content")
            if any(getattr(kept, name) != getattr(message, name) for name in same):
                raise ConflictError(
                    "The id belongs to another message",
                    where=f"message {message.id!r}",
                    remedy="Give it a new id.",
                )
            await self.update_message(message)
            return
        self._messages[message.id] = message.model_copy(deep=True)
        self._by_conversation.setdefault(message.conversation_id, []).append(message.id)

    async def update_message(self, message: Message) -> None:
        """Write what was found out about a message.

        Raises:
            NotStoredError: there is no such message.
        """
        kept = self._kept(message.id)
        fresh = message.model_copy(deep=True)
        own = {name: getattr(kept, name) for name in OWN_FIELDS}
        self._messages[message.id] = fresh.model_copy(update=own)

    async def get_message(self, message_id: str) -> Message | None:
        """A message, or None."""
        kept = self._messages.get(message_id)
        return None if kept is None else kept.model_copy(deep=True)

    async def get_messages_by_conversation_id(
        self, conversation_id: str, *, limit: int = 100, offset: int = 0
    ) -> list[Message]:
        """Messages of a conversation, flagged ones among them, oldest first."""
        ids = self._by_conversation.get(conversation_id, [])[offset : offset + limit]
        return [self._messages[message_id].model_copy(deep=True) for message_id in ids]

    async def get_immediate_context(
        self, conversation_id: str, n: int, *, exclude: str | None = None
    ) -> list[Message]:
        """The last ``n`` messages not flagged, oldest first, without the one of id ``exclude``."""
        found: list[Message] = []
        for message_id in reversed(self._by_conversation.get(conversation_id, [])):
            if len(found) >= n:
                break
            message = self._messages[message_id]
            if not message.is_flagged and message_id != exclude:
                found.append(message.model_copy(deep=True))
        return found[::-1]

    async def flag_message(self, message_id: str, flagged: bool = True) -> None:
        """Keep a message out of every later context, or let it in again.

        Raises:
            NotStoredError: there is no such message.
        """
        self._kept(message_id).is_flagged = flagged

    async def store_turn_trace(self, trace: TurnTrace) -> None:
        """Keep a trace.

        Raises:
            ConflictError: its message already has another trace.
        """
        if self._trace_of.get(trace.message_id, trace.id) != trace.id:
            raise ConflictError(
                "The message already has a trace",
                where=f"message {trace.message_id!r}",
                remedy="Store the changed trace under its own id.",
            )
        self._traces[trace.id] = trace.model_copy(deep=True)
        self._trace_of[trace.message_id] = trace.id

    async def get_turn_trace(self, trace_id: str) -> TurnTrace | None:
        """A trace, or None."""
        kept = self._traces.get(trace_id)
        return None if kept is None else kept.model_copy(deep=True)

    async def get_turn_trace_by_message_id(self, message_id: str) -> TurnTrace | None:
        """The trace of the turn that a message belongs to, or None."""
        trace_id = self._trace_of.get(message_id)
        return None if trace_id is None else await self.get_turn_trace(trace_id)

    def _kept(self, message_id: str) -> Message:
        kept = self._messages.get(message_id)
        if kept is None:
            raise NotStoredError("No such message", where=f"message {message_id!r}", remedy="Store it first.")
        return kept
