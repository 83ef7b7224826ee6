"""The example of a store over SQLite keeps every guarantee of the suites."""

from __future__ import annotations

import runpy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.memory.working import WorkingMemoryStore
from jazzmine_dspy_conformance.working_memory import Harness, WorkingMemoryConformance

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "sqlite_store.py"
SqliteStore = runpy.run_path(str(EXAMPLE))["SqliteStore"]


class SqliteHarness(Harness):
    """Stores over one file, each with a connection of its own."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.made: list[Any] = []

    async def make(
        self, *, wait: float = 5.0, ttl: float = 3600.0, remember: float = 1e6, **options: Any
    ) -> WorkingMemoryStore:
        self.made.append(SqliteStore(self.path, ttl=ttl, remember=remember, wait=wait, **options))
        made: WorkingMemoryStore = self.made[-1]
        return made

    def _sql(self, statement: str, *values: Any) -> Any:
        return self.made[0].db.execute(statement, values).fetchone()

    async def put_raw(self, conversation_id: str, data: bytes) -> None:
        self._sql("update record set data = ? where id = ?", data, conversation_id)

    async def raw(self, conversation_id: str) -> bytes | None:
        found = self._sql("select data from record where id = ?", conversation_id)
        return found[0] if found else None

    async def pass_time(self, seconds: float) -> None:
        self._sql("update record set expires = expires - ?, forgotten = forgotten - ?", seconds, seconds)

    async def lose_lease(self, conversation_id: str) -> None:
        self._sql("update record set held = 0 where id = ?", conversation_id)

    async def close(self) -> None:
        for store in self.made:
            await store.close()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SqliteHarness]:
    harness = SqliteHarness(tmp_path / "talks.db")
    yield harness
    await harness.close()


@pytest.mark.row("W21")
class TestOverSqlite(WorkingMemoryConformance):
    """A store of a hundred and fifty lines."""
