"""A store in memory that counts its primitives, fails on request, and can be held up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, Presence
from jazzmine_dspy.memory.working.in_memory import StoredConversation
from jazzmine_dspy.memory.working.turn_lock import Record, Turn


class Trying(InMemoryWorkingMemoryStore):
    """A store that counts its primitives, and fails or is held up before or after doing one."""

    def __init__(self, *, lease: float = float("inf"), wait: float = 2.0, **options: Any) -> None:
        self.conversations: dict[str, StoredConversation] = {}
        super().__init__(conversations=self.conversations, wait=wait, **options)
        self.lease = lease
        self.calls: Counter[str] = Counter()
        self.before: dict[str, list[Exception]] = {}
        self.after: dict[str, list[Exception]] = {}
        self.held_before: dict[str, asyncio.Event] = {}
        self.held_after: dict[str, asyncio.Event] = {}
        self.reached: dict[str, asyncio.Event] = {}

    async def _around(self, name: str, work: Callable[[], Any]) -> Any:
        self.calls[name] += 1
        if self.before.get(name):
            raise self.before[name].pop(0)
        if name in self.held_before:
            self.reached[name].set()
            await self.held_before[name].wait()
        result = await work()
        if name in self.reached:
            self.reached[name].set()
        if name in self.held_after:
            await self.held_after[name].wait()
        if self.after.get(name):
            raise self.after[name].pop(0)
        return result

    def hold(self, name: str, *, before: bool = False) -> tuple[asyncio.Event, asyncio.Event]:
        """Hold calls up; gives what says that one was reached, and what lets them go."""
        self.reached[name] = asyncio.Event()
        where = self.held_before if before else self.held_after
        where[name] = asyncio.Event()
        return self.reached[name], where[name]

    async def _begin(self, conversation_id: str, token: str) -> Turn | None:
        work = super()._begin
        turn: Turn | None = await self._around("begin", lambda: work(conversation_id, token))
        return turn

    async def _renew(self, turn: Turn) -> bool:
        async def work() -> bool:
            return self.conversations[turn.conversation_id].token == turn.token

        return bool(await self._around("renew", work))

    async def _end(self, conversation_id: str, token: str) -> None:
        work = super()._end
        await self._around("end", lambda: work(conversation_id, token))

    async def _write(self, turn: Turn, data: bytes, expected: int) -> int:
        work = super()._write
        return int(await self._around("write", lambda: work(turn, data, expected)))

    async def _create(self, conversation_id: str, data: bytes, turn: Turn | None) -> Record:
        work = super()._create
        record: Record = await self._around("create", lambda: work(conversation_id, data, turn))
        return record

    async def _read(self, conversation_id: str) -> Record | None:
        work = super()._read
        record: Record | None = await self._around("read", lambda: work(conversation_id))
        return record

    async def _presence(self, conversation_id: str) -> Presence:
        self.calls["presence"] += 1
        return await super()._presence(conversation_id)

    async def free(self) -> bool:
        """Whether another store gets the turn at once."""
        other = InMemoryWorkingMemoryStore(conversations=self.conversations, wait=0.0)
        try:
            async with other.turn("c1"):
                return True
        except LockTimeoutError:
            return False
