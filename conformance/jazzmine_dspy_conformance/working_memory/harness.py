"""What a store has to provide so that the suites can run on it, and what the suites share."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working.flow import ActiveFlowState
from jazzmine_dspy.memory.working.records import SlotState
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import WorkingMemoryStore

R = TypeVar("R")

LONGEST = 20.0


class Harness(ABC):
    """One set of data, and any number of stores over it, as several workers would have.

    Only :meth:`make` and :meth:`close` are required: tests that need another method are skipped.
    """

    @abstractmethod
    async def make(self, *, wait: float = 5.0, ttl: float = 3600.0, **options: Any) -> WorkingMemoryStore:
        """A further store over the same data.

        Args:
            wait: Seconds that a turn waits for the one before it.
            ttl: Seconds that a record lives without use. All stores that a test makes have the same one.
            options: ``remember``, the seconds for which an expired record is told from one that never was, the
                same for all stores of a test; ``clock``, which gives Unix time in seconds.
        """

    async def put_raw(self, conversation_id: str, data: bytes) -> None:
        """Overwrite a record's bytes in place, as damage or another program would; its version stays."""
        pytest.skip("the harness cannot overwrite a record")

    async def raw(self, conversation_id: str) -> bytes | None:
        """A record's bytes as they are kept, or None."""
        pytest.skip("the harness cannot read a record's bytes")

    async def pass_time(self, seconds: float) -> None:
        """Let records, and what is remembered of them, grow older by so much, without sleeping.

        Turns under way are not touched: their holders go on renewing them.
        """
        pytest.skip("the harness cannot let time pass")

    async def lose_lease(self, conversation_id: str) -> None:
        """Let the turn under way lose its lease, as if its holder had been paused for longer than that."""
        pytest.skip("the harness cannot take a lease away")

    @abstractmethod
    async def close(self) -> None:
        """Close all stores that were made, and drop the data."""


class Suite:
    """Base of the suites. A test gets a store of its own as ``store``, over the data of ``harness``."""

    # For projects that do not run pytest-asyncio in its automatic mode.
    pytestmark = pytest.mark.asyncio

    @pytest_asyncio.fixture
    async def store(self, harness: Harness) -> WorkingMemoryStore:
        """A store over the data of the harness."""
        return await harness.make()

    @pytest_asyncio.fixture
    async def other(self, harness: Harness) -> WorkingMemoryStore:
        """A second store over the same data."""
        return await harness.make()

    @pytest_asyncio.fixture
    async def workers(self, harness: Harness) -> list[WorkingMemoryStore]:
        """Three stores over the same data, whose turns wait for each other."""
        return [await harness.make(wait=15.0) for _ in range(3)]


async def with_timeout(work: Awaitable[R]) -> R:
    """The result of something that must not hang."""
    return await asyncio.wait_for(work, LONGEST)


async def yield_to_tasks(store: WorkingMemoryStore) -> None:
    """Give other tasks time to get as far as they can: some turns of the loop, some trips to the store."""
    for _ in range(5):
        await asyncio.sleep(0)
        await store.presence("elsewhere")


async def reply(store: WorkingMemoryStore, text: str, conversation_id: str = "c1") -> WorkingMemory:
    """Read a state, or make one, and write it with another last response."""
    state = await store.get_or_create(conversation_id, "u1")
    state.last_agent_response = text
    return await store.save(state)


async def count(store: WorkingMemoryStore, conversation_id: str = "c1") -> int:
    """One turn that reads a number from the state and writes the next one; what it wrote."""
    async with store.turn(conversation_id):
        state = await store.get_or_create(conversation_id, "u1")
        number = int(state.last_agent_response or 0) + 1
        await yield_to_tasks(store)
        state.last_agent_response = str(number)
        await store.save(state)
        return number


async def stored_state(store: WorkingMemoryStore, conversation_id: str = "c1") -> WorkingMemory:
    """The state, which has to be there."""
    state = await store.get(conversation_id)
    assert state is not None
    return state


async def stored_flow(store: WorkingMemoryStore) -> ActiveFlowState:
    """The flow under way, which has to be there."""
    active = (await stored_state(store)).active_flow
    assert active is not None
    return active


async def save_flow(store: WorkingMemoryStore, **slots: Any) -> WorkingMemory:
    """Begin a conversation, and write it with a flow under way."""
    state = await store.get_or_create("c1", "u1")
    state.active_flow = flow(**slots)
    return await store.save(state)


def flow(name: str = "order", **slots: Any) -> ActiveFlowState:
    """A flow under way with these values."""
    return ActiveFlowState(flow_name=name, slots={k: SlotState(name=k, value=v) for k, v in slots.items()})


class BackgroundTurn:
    """A turn in a task of its own that lasts until it is ended."""

    def __init__(self, store: WorkingMemoryStore, conversation_id: str = "c1") -> None:
        self.entered, self.leave = asyncio.Event(), asyncio.Event()
        self.fence = 0
        self.task = asyncio.create_task(self._stay(store, conversation_id))

    async def _stay(self, store: WorkingMemoryStore, conversation_id: str) -> None:
        async with store.turn(conversation_id) as self.fence:
            self.entered.set()
            await self.leave.wait()

    async def end(self) -> None:
        """End the turn, which has to begin soon if it has not."""
        self.leave.set()
        await with_timeout(self.task)


@contextlib.asynccontextmanager
async def background_turn(
    store: WorkingMemoryStore, conversation_id: str = "c1"
) -> AsyncIterator[BackgroundTurn]:
    """A turn in a task of its own, which has to begin soon and lasts as long as the block."""
    turn = BackgroundTurn(store, conversation_id)
    await with_timeout(turn.entered.wait())
    yield turn
    await turn.end()


async def take_turn(store: WorkingMemoryStore, conversation_id: str = "c1") -> None:
    """Take a whole turn, which has to begin soon."""
    await BackgroundTurn(store, conversation_id).end()


async def wait_in_vain(store: WorkingMemoryStore) -> LockTimeoutError:
    """Wait for a turn that another store holds until the time is up; the error."""
    with pytest.raises(LockTimeoutError) as caught:
        async with store.turn("c1"):
            pytest.fail("two turns at once")
    return caught.value
