"""The first call creates the tables, once, whichever process comes first."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.memory.messages.rows import MESSAGES, insert
from jazzmine_dspy_conformance.messages.harness import message

pytestmark = pytest.mark.row("M6")

PROCESSES = 3
WRITER = """
import asyncio, sys
from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.models.messages import Message

async def main():
    store = SqlMessageStore(sys.argv[1], deadline=60)
    number = int(sys.argv[2])
    fields = {"conversation_id": "c1", "user_id": "u1", "role": "user", "original_content": "x"}
    print("ready", flush=True)
    sys.stdin.readline()
    await store.store_message(Message(id=str(number), timestamp=number, **fields))
    await store.close()

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/m.db"
    postgres = request.getfixturevalue("postgres")
    address: str = postgres.url(postgres.new_database())
    return address


@pytest.mark.chaos
def test_processes_that_start_at_once_all_succeed(url: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", WRITER, url, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    store = SqlMessageStore(url, deadline=60)
    page = asyncio.run(store.get_messages_by_conversation_id("c1"))
    assert sorted(each.timestamp for each in page) == list(range(PROCESSES))
    asyncio.run(store.close())


async def test_first_calls_at_once_all_succeed(url: str) -> None:
    stores = [SqlMessageStore(url, deadline=60) for _ in range(3)]
    await asyncio.gather(*(stores[number % 3].store_message(message(number)) for number in range(12)))
    assert len(await stores[0].get_messages_by_conversation_id("c1")) == 12
    for store in stores:
        await store.close()


async def test_an_insert_reports_whether_the_key_was_free(url: str) -> None:
    store = SqlMessageStore(url, deadline=60)
    row = MESSAGES.row(message(1))
    for free in (True, False):
        assert free is await store._database.run(
            lambda connection: insert(connection, MESSAGES.table, row), write=True
        )
    await store.close()


async def test_other_tables_in_the_same_database_stay(url: str) -> None:
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE messages (x INTEGER)")
        connection.exec_driver_sql("INSERT INTO messages VALUES (7)")
    store = SqlMessageStore(url, deadline=60)
    await store.store_message(message(1))
    await store.close()
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT x FROM messages").scalar() == 7
    engine.dispose()


async def test_the_body_is_jsonb(postgres: Any) -> None:
    name = postgres.new_database()
    store = SqlMessageStore(postgres.url(name), deadline=60)
    await store.store_message(message(1, intent="track_order"))
    await store.close()
    query = 'SELECT id FROM jazzmine_messages WHERE body @> \'{"intent": "track_order"}\''
    assert postgres.execute(query, name) == [("c1-m1",)]


async def test_how_a_sqlite_file_is_opened(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    pragmas = ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")

    def read(connection: sa.Connection) -> list[Any]:
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas]

    assert await store._database.run(read) == ["wal", 1, 48_000, 2]
    await store.close()
    with sqlite3.connect(tmp_path / "m.db") as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
