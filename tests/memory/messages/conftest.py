"""The backends that the suite runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import postgres_server
from jazzmine_dspy.memory.messages import SqlMessageStore, rows
from jazzmine_dspy_conformance.messages import Harness
from jazzmine_dspy_conformance.messages.harness import Kind

TABLES = {"conversation": rows.CONVERSATIONS, "message": rows.MESSAGES, "trace": rows.TRACES}


class Sql(Harness):
    def __init__(self, url: str, *, shared: bool = True) -> None:
        self.url = url
        self.shared = shared

    async def make(self) -> SqlMessageStore:
        return SqlMessageStore(self.url, deadline=60)

    async def another(self, store: Any) -> SqlMessageStore:
        return SqlMessageStore(self.url, deadline=60) if self.shared else store

    async def corrupt(self, store: Any, kind: Kind, record_id: str, raw: str) -> None:
        table = TABLES[kind].table
        statement = sa.update(table).where(table.c.id == record_id).values(body=raw)
        changed = await store._database.run(
            lambda connection: connection.execute(statement).rowcount, write=True
        )
        assert changed == 1


class InPostgres(Sql):
    """One database for all tests, emptied before each."""

    def __init__(self, url: str, empty: Any) -> None:
        super().__init__(url)
        self._empty = empty

    async def make(self) -> SqlMessageStore:
        self._empty()
        return await super().make()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A running PostgreSQL server."""
    server = postgres_server.Postgres()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def postgres_database(postgres: Any) -> str:
    """A database that tests share; see `InPostgres`."""
    name: str = postgres.new_database()
    return name


@pytest.fixture(params=["sqlite file", "sqlite memory", "postgresql"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    if request.param == "sqlite file":
        return Sql(f"sqlite:///{tmp_path}/messages.db")
    if request.param == "sqlite memory":
        return Sql("sqlite://", shared=False)
    server = request.getfixturevalue("postgres")
    name = request.getfixturevalue("postgres_database")

    def empty() -> None:
        found = server.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'jazzmine_%'", name)
        names = [table for (table,) in found]
        if names:
            server.execute(f"TRUNCATE {', '.join(names)} CASCADE", name)

    return InPostgres(server.url(name), empty)
