"""How the suite gets at a store, and what it stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
import pytest_asyncio

from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.models.traces import TurnTrace

Kind = Literal["conversation", "message", "trace"]


class Harness(ABC):
    """Makes stores for the suite, and reaches behind them where it can.

    Only :meth:`make` has to be written. Tests that need one of the others skip where it raises
    ``NotImplementedError``, as it does here.
    """

    @abstractmethod
    async def make(self) -> MessageStore:
        """An empty store."""

    async def another(self, store: MessageStore) -> MessageStore:
        """A second store on the same data, over connections of its own; by default the same one."""
        return store

    async def corrupt(self, store: MessageStore, kind: Kind, record_id: str, raw: str) -> None:
        """Put JSON text in the place of a record's, whatever it says; its id and columns stay."""
        raise NotImplementedError("the harness cannot damage records")

    async def raw(self, store: MessageStore, kind: Kind, record_id: str) -> str:
        """The JSON text of a record as it is stored."""
        raise NotImplementedError("the harness cannot look at stored records")

    async def close(self, store: MessageStore) -> None:
        """The end of a test; by default closes the store."""
        await store.close()


class _Skipping(Harness):
    """Turns what a harness cannot do into a skip."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    async def make(self) -> MessageStore:
        return await self._harness.make()

    async def another(self, store: MessageStore) -> MessageStore:
        return await self._harness.another(store)

    async def corrupt(self, store: MessageStore, kind: Kind, record_id: str, raw: str) -> None:
        try:
            await self._harness.corrupt(store, kind, record_id, raw)
        except NotImplementedError as error:
            pytest.skip(str(error))

    async def raw(self, store: MessageStore, kind: Kind, record_id: str) -> str:
        try:
            return await self._harness.raw(store, kind, record_id)
        except NotImplementedError as error:
            pytest.skip(str(error))

    async def close(self, store: MessageStore) -> None:
        await self._harness.close(store)


@pytest.mark.asyncio
class Suite:
    """What the parts of the suite share: subclasses give the fixture ``harness``."""

    @pytest.fixture
    def harness(self) -> Harness:
        """The harness of the store under test."""
        raise NotImplementedError("give the fixture `harness` in the subclass")

    @pytest.fixture
    def behind(self, harness: Harness) -> Harness:
        """The harness, skipping what it cannot do."""
        return _Skipping(harness)

    @pytest_asyncio.fixture
    async def store(self, harness: Harness) -> AsyncIterator[MessageStore]:
        """An empty store."""
        store = await harness.make()
        yield store
        await harness.close(store)

    @pytest_asyncio.fixture
    async def second(self, harness: Harness, store: MessageStore) -> AsyncIterator[MessageStore]:
        """Another store on the same data."""
        second = await harness.another(store)
        yield second
        if second is not store:
            await second.close()


def conversation(conversation_id: str = "c1", **fields: Any) -> Conversation:
    """A conversation of user u1 with agent a1."""
    base: dict[str, Any] = {
        "id": conversation_id,
        "user_id": "u1",
        "agent_id": "a1",
        "created_at": 1,
        "last_updated_at": 1,
    }
    return Conversation(**(base | fields))


def message(number: int, conversation_id: str = "c1", **fields: Any) -> Message:
    """A message of user u1, id and text by its number; odd ones are the user's."""
    base: dict[str, Any] = {
        "id": f"{conversation_id}-m{number}",
        "conversation_id": conversation_id,
        "user_id": "u1",
        "role": "user" if number % 2 else "assistant",
        "original_content": f"text {number}",
        "timestamp": number,
    }
    return Message(**(base | fields))


def trace(trace_id: str = "t1", message_id: str = "c1-m1", **fields: Any) -> TurnTrace:
    """A trace in conversation c1 with agent a1."""
    base: dict[str, Any] = {
        "id": trace_id,
        "message_id": message_id,
        "conversation_id": "c1",
        "agent_id": "a1",
    }
    return TurnTrace(**(base | fields))
