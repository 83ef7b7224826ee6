"""What the parts of the suite have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, ClassVar, TypeVar

import pytest
import pytest_asyncio

from jazzmine_dspy.memory.working.flow import ActiveFlowState
from jazzmine_dspy.memory.working.records import HeldSlot
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.testing.working_memory.harness import CAPABILITIES, Harness

R = TypeVar("R")

LONGEST = 20.0


class Promises:
    """Base of the parts. A test gets a store of its own as ``store``, over the data of ``harness``.

    Attributes:
        capabilities: What the harness can do, all by default. Tests that need more are not collected.
    """

    capabilities: ClassVar[frozenset[str]] = CAPABILITIES

    # For projects that do not run pytest-asyncio in its automatic mode.
    pytestmark = pytest.mark.asyncio

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in dir(cls):
            if getattr(getattr(cls, name), "needs", frozenset()) - cls.capabilities:
                setattr(cls, name, None)

    @pytest_asyncio.fixture
    async def store(self, harness: Harness) -> WorkingMemoryStore:
        """A store over the data of the harness."""
        return await harness.make()

    @pytest.fixture(autouse=True)
    def _able(self, harness: Harness, request: pytest.FixtureRequest) -> None:
        lacking: frozenset[str] = getattr(request.function, "needs", frozenset()) - harness.capabilities
        if lacking:
            pytest.skip(f"the harness cannot do: {', '.join(sorted(lacking))}")


async def soon(work: Awaitable[R]) -> R:
    """The result of something that must not hang."""
    return await asyncio.wait_for(work, LONGEST)


async def settle(store: WorkingMemoryStore) -> None:
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
        await settle(store)
        state.last_agent_response = str(number)
        await store.save(state)
        return number


async def kept(store: WorkingMemoryStore, conversation_id: str = "c1") -> WorkingMemory:
    """The state, which has to be there."""
    state = await store.get(conversation_id)
    assert state is not None
    return state


def flow(name: str = "order", **slots: Any) -> ActiveFlowState:
    """A flow under way with these values."""
    return ActiveFlowState(flow_name=name, slots={k: HeldSlot(name=k, value=v) for k, v in slots.items()})
