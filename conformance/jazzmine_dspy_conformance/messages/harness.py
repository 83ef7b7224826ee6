"""How the suite makes a store, damages its rows, and what it stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
import pytest_asyncio

from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.models.messages import Conversation, Message, TurnTrace

Kind = Literal["conversation", "message", "trace"]


class Harness(ABC):
    """Makes stores for the suite. Only :meth:`make` is required."""

    @abstractmethod
    async def make(self) -> MessageStore:
        """Return an empty store."""

    async def another(self, store: MessageStore) -> MessageStore:
        """Return a second store on the same data, over its own connections; by default the same store."""
        return store

    async def corrupt(self, store: MessageStore, kind: Kind, record_id: str, raw: str) -> None:
        """Replace the JSON text of a stored record, whose id and columns stay; by default skips the test.

        Args:
            store: The store under test.
            kind: The kind of record.
            record_id: Its id.
            raw: Any JSON.
        """
        pytest.skip("the harness cannot damage rows")

    async def close(self, store: MessageStore) -> None:
        """End a test; by default closes the store."""
        await store.close()


@pytest.mark.asyncio
class Suite:
    """The fixtures of all parts of the suite. Subclasses override ``harness``."""

    @pytest.fixture
    def harness(self) -> Harness:
        """Return the harness of the store under test."""
        raise NotImplementedError("override the fixture `harness` in the subclass")

    @pytest_asyncio.fixture
    async def store(self, harness: Harness) -> AsyncIterator[MessageStore]:
        """Return an empty store."""
        store = await harness.make()
        yield store
        await harness.close(store)

    @pytest_asyncio.fixture
    async def second(self, harness: Harness, store: MessageStore) -> AsyncIterator[MessageStore]:
        """Return another store on the same data."""
        second = await harness.another(store)
        yield second
        if second is not store:
            await second.close()


def conversation(conversation_id: str = "c1", **fields: Any) -> Conversation:
    """Return a conversation of user u1 with agent a1."""
    base = {"id": conversation_id, "user_id": "u1", "agent_id": "a1", "created_at": 1, "last_updated_at": 1}
    return Conversation.model_validate(base | fields)


def message(number: int, conversation_id: str = "c1", **fields: Any) -> Message:
    """Return a message of user u1, with id and text by its number; odd ones are the user's."""
    base = {
        "id": f"{conversation_id}-m{number}",
        "conversation_id": conversation_id,
        "user_id": "u1",
        "role": "user" if number % 2 else "assistant",
        "original_content": f"text {number}",
        "timestamp": number,
    }
    return Message.model_validate(base | fields)


def trace(trace_id: str = "t1", message_id: str = "c1-m1", **fields: Any) -> TurnTrace:
    """Return a trace in conversation c1 with agent a1."""
    base = {"id": trace_id, "message_id": message_id, "conversation_id": "c1", "agent_id": "a1"}
    return TurnTrace.model_validate(base | fields)
