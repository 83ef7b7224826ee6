"""Stores of this process, whose time passes when a test says so."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.memory.working.in_memory import StoredConversation
from jazzmine_dspy.memory.working.turn_lock import Record
from jazzmine_dspy_conformance.working_memory import Harness


class InMemoryHarness(Harness):
    """Stores over one dictionary."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.conversations: dict[str, StoredConversation] = {}

    async def make(
        self, *, wait: float = 5.0, ttl: float = 3600.0, **options: Any
    ) -> InMemoryWorkingMemoryStore:
        shared = {"conversations": self.conversations, "monotonic": self.monotonic}
        return InMemoryWorkingMemoryStore(wait=wait, ttl=ttl, **shared, **options)

    def monotonic(self) -> float:
        return time.monotonic() + self.passed

    async def put_raw(self, conversation_id: str, data: bytes) -> None:
        stored = self.conversations[conversation_id]
        stored.record = Record(data, stored.version)

    async def raw(self, conversation_id: str) -> bytes | None:
        stored = self.conversations.get(conversation_id)
        return stored.record.data if stored and stored.record else None

    async def pass_time(self, seconds: float) -> None:
        self.passed += seconds

    async def lose_lease(self, conversation_id: str) -> None:
        assert self.conversations[conversation_id].token
        self.conversations[conversation_id].token = ""

    async def close(self) -> None:
        self.conversations.clear()


@pytest.fixture
async def harness() -> AsyncIterator[InMemoryHarness]:
    harness = InMemoryHarness()
    yield harness
    await harness.close()
