"""The messages of one store as the enhancer needs them: of ours, or of another with jazzmine's methods."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, get_args

from jazzmine_dspy.models.messages import Conversation, Entity, Message
from jazzmine_dspy.runtime.delivery import ensure_conversation

MAX_READ = 10_000
"""Messages that are read at once at most, which is what stores give."""

_READ_AT_ONCE = 24


class MessageAccess:
    """Reads and writes messages of a store.

    Args:
        store: A ``MessageStore``, or an object with jazzmine's ``get_message_by_id``, ``get_immediate_context``,
            ``store_message``, ``update_message``, ``get_conversation_by_id`` and ``store_conversation``.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._get = getattr(store, "get_message", None) or getattr(store, "get_message_by_id", None)
        self._partial = "fields" in _parameters(getattr(store, "update_message", None))

    async def get(self, message_id: str) -> Any | None:
        """The stored message, or None."""
        return None if self._get is None else await self._get(message_id)

    async def add(self, message: Any, agent_id: str) -> None:
        """Store a message, and its conversation where there is none.

        Raises:
            ConflictError: the conversation belongs to another user, or the message's id to another message.
        """
        conversation = Conversation(
            id=message.conversation_id,
            user_id=message.user_id,
            agent_id=agent_id,
            created_at=message.timestamp,
            last_updated_at=message.timestamp,
        )
        if hasattr(self._store, "ensure_conversation"):
            await ensure_conversation(conversation, self._store)
        elif await self._store.get_conversation_by_id(conversation.id) is None:
            await self._store.store_conversation(conversation)
        await self._store.store_message(message)

    async def before(self, message: Any, user_turns: int, *, listed: bool) -> list[Any]:
        """The messages before one, oldest first, as far back as some turns of the user reach, and a few more.

        Args:
            listed: Whether the message itself is among those that the store lists: what comes after it is left out.
        """
        read = max(_READ_AT_ONCE, 4 * user_turns)
        while True:
            read = min(read, MAX_READ)
            messages = list(await self._store.get_immediate_context(message.conversation_id, read))
            place = next((at for at, each in enumerate(messages) if each.id == message.id), None)
            earlier = [each for each in messages[:place] if not getattr(each, "is_flagged", False)]
            turns = sum(each.role.value == "user" for each in earlier)
            enough = turns >= user_turns and (place is not None or not listed)
            if enough or len(messages) < read or read == MAX_READ:
                return earlier
            read *= 4

    async def update(self, message: Any, fields: Mapping[str, Any]) -> None:
        """Write some fields of a message that is stored, and no others as far as the store can.

        A store that writes whole messages gets the stored one with these fields changed.

        Raises:
            NotStoredError: there is no such message any more.
        """
        if self._partial:
            await self._store.update_message(message, fields=frozenset(fields))
            return
        stored = await self.get(message.id)
        if stored is not None:
            set_fields(stored, fields)
        await self._store.update_message(message if stored is None else stored)


def set_fields(message: Any, fields: Mapping[str, Any]) -> None:
    """Set fields of a message; entities become those of the message's own model, and what it does not have is left."""
    known = getattr(type(message), "model_fields", None)
    for name, value in fields.items():
        if known is not None and name not in known:
            continue
        if name == "entities" and known is not None and not isinstance(message, Message):
            [kind] = get_args(known[name].annotation) or (Entity,)
            value = [kind(name=entity.name, attributes=list(entity.attributes)) for entity in value]
        setattr(message, name, value)


def _parameters(method: Any) -> Collection[str]:
    try:
        return inspect.signature(method).parameters
    except (TypeError, ValueError):
        return ()
