"""Stores of this process, whose time passes when a test says so."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore
from jazzmine_dspy.memory.working.in_process import InProcessBackend
from jazzmine_dspy.testing.working_memory import Harness


class InProcessHarness(Harness):
    """Stores over one dictionary."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.backend: InProcessBackend | None = None

    async def make(
        self, *, wait: float = 5.0, ttl: float = 3600.0, **options: Any
    ) -> InMemoryWorkingMemoryStore:
        remember = {"remember": options.pop("remember")} if "remember" in options else {}
        if self.backend is None:
            self.backend = InProcessBackend(ttl=ttl, monotonic=self.monotonic, **remember)
        return InMemoryWorkingMemoryStore(backend=self.backend, wait=wait, **options)

    def monotonic(self) -> float:
        return time.monotonic() + self.passed

    @property
    def data(self) -> Any:
        assert self.backend is not None, "make a store first"
        return self.backend._conversations

    async def put_raw(self, conversation_id: str, data: bytes) -> None:
        self.data[conversation_id].data = data

    async def raw(self, conversation_id: str) -> bytes | None:
        known = self.data.get(conversation_id)
        return known.data if known else None

    async def pass_time(self, seconds: float) -> None:
        self.passed += seconds

    async def lose_lease(self, conversation_id: str) -> None:
        assert self.backend is not None
        assert self.backend.lapse(conversation_id)

    async def close(self) -> None:
        if self.backend is not None:
            await self.backend.close()


@pytest.fixture
async def harness() -> AsyncIterator[InProcessHarness]:
    harness = InProcessHarness()
    yield harness
    await harness.close()
