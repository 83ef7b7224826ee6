"""The tables are made on first use, once, by whoever comes first; a newer version's are left alone."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jazzmine_dspy.memory.errors import SchemaVersionError
from jazzmine_dspy.memory.messages import SqlMessageStore, _schema
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.testing.messages.harness import message

pytestmark = pytest.mark.row("M6")

MADE_BY_ALEMBIC = """
CREATE TABLE jazzmine_conversations ( seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,
user_id TEXT NOT NULL, agent_id TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (id) );
CREATE TABLE jazzmine_messages ( seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,
conversation_id TEXT NOT NULL, user_id TEXT NOT NULL, flagged BOOLEAN NOT NULL, body TEXT NOT NULL, UNIQUE
(id) );
CREATE TABLE jazzmine_schema ( version_num VARCHAR(32) NOT NULL, CONSTRAINT jazzmine_schema_pkc PRIMARY KEY
(version_num) );
CREATE TABLE jazzmine_turn_traces ( seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,
conversation_id TEXT NOT NULL, agent_id TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (id) );
CREATE TABLE jazzmine_trace_messages ( message_id TEXT NOT NULL, trace_id TEXT NOT NULL, PRIMARY KEY
(message_id), FOREIGN KEY(trace_id) REFERENCES jazzmine_turn_traces (id) ON DELETE CASCADE );
CREATE INDEX ix_jazzmine_trace_messages_trace_id ON jazzmine_trace_messages (trace_id);
CREATE INDEX jazzmine_conversations_by_agent_id ON jazzmine_conversations (agent_id, seq);
CREATE INDEX jazzmine_conversations_by_user_id ON jazzmine_conversations (user_id, seq);
CREATE INDEX jazzmine_messages_by_conversation_id ON jazzmine_messages (conversation_id, seq);
CREATE INDEX jazzmine_messages_by_user_id ON jazzmine_messages (user_id, seq);
CREATE INDEX jazzmine_turn_traces_by_agent_id ON jazzmine_turn_traces (agent_id, seq);
CREATE INDEX jazzmine_turn_traces_by_conversation_id ON jazzmine_turn_traces (conversation_id, seq);
INSERT INTO jazzmine_schema VALUES ('0001');
"""

PROCESSES = 3
STARTER = """
import asyncio, sys
from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.models.messages import Message

async def main():
    store = SqlMessageStore(sys.argv[1], deadline=60)
    number = int(sys.argv[2])
    said = {"conversation_id": "c1", "user_id": "u1", "role": "user", "original_content": "x"}
    print("ready", flush=True)
    sys.stdin.readline()
    await store.store_message(Message(id=str(number), timestamp=number, **said))
    await store.close()

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/m.db"
    postgres = request.getfixturevalue("postgres")
    made: str = postgres.url(postgres.new_database())
    return made


def _sql(url: str, *statements: str) -> list[Any]:
    """Statements by a connection that knows nothing of migrations."""
    import sqlalchemy as sa

    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    found: list[Any] = []
    with engine.begin() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
            found = list(result) if result.returns_rows else found
    engine.dispose()
    return found


@pytest.mark.chaos
def test_processes_that_start_at_once_all_succeed(url: str) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", STARTER, url, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    store = SqlMessageStore(url, deadline=60)
    kept = asyncio.run(store.get_messages_by_conversation_id("c1"))
    assert sorted(one.timestamp for one in kept) == list(range(PROCESSES))
    assert _sql(url, "SELECT version_num FROM jazzmine_schema") == [(_schema.REVISION,)]


async def test_a_migration_waits_for_that_of_another_process(postgres: Any) -> None:
    url = postgres.url(postgres.new_database())
    store = SqlMessageStore(url, deadline=60)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(f"SELECT pg_advisory_lock({_schema.LOCK})")
        migrating = asyncio.create_task(store.migrate())
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        async with asyncio.timeout(60):
            while not migrating.done() and other.execute(waiting).fetchone() == (0,):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert other.execute("SELECT to_regclass('jazzmine_messages')").fetchone() == (None,)
        other.execute(f"SELECT pg_advisory_unlock({_schema.LOCK})")
        await migrating
    await store.store_message(message(1))
    await store.close()


async def test_tables_that_an_earlier_build_made_are_taken_as_they_are(tmp_path: Path) -> None:
    """Alembic made them then; these are the statements that it left in the catalogue."""
    with sqlite3.connect(tmp_path / "m.db") as other:
        other.executescript(MADE_BY_ALEMBIC)
        body = json.dumps(message(1).model_dump(mode="json", exclude={"is_flagged"}))
        other.execute("INSERT INTO jazzmine_messages VALUES (1, 'c1-m1', 'c1', 'u1', 0, ?)", (body,))
    other.close()
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    assert await store.get_message("c1-m1") == message(1)
    await store.store_message(message(2))
    await store.close()
    fresh = SqlMessageStore(f"sqlite:///{tmp_path}/fresh.db", deadline=60)
    await fresh.migrate()
    await fresh.close()
    listed = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
    found = [
        [
            " ".join(str(part).split())
            for row in _sql(f"sqlite:///{tmp_path}/{name}.db", listed)
            for part in row
        ]
        for name in ("m", "fresh")
    ]
    assert found[0] == found[1]


async def test_calls_that_come_first_at_once_all_succeed(url: str) -> None:
    stores = [SqlMessageStore(url, deadline=60) for _ in range(3)]
    await asyncio.gather(
        *(stores[number % 3].store_message(message(number)) for number in range(12)),
        stores[0].migrate(),
    )
    assert len(await stores[0].get_messages_by_conversation_id("c1")) == 12
    for store in stores:
        await store.close()


async def test_a_newer_version_is_refused(url: str) -> None:
    store = SqlMessageStore(url, deadline=60)
    await store.store_message(message(1))
    await store.close()
    _sql(url, "UPDATE jazzmine_schema SET version_num = '9999'")
    for call in (store.get_message("c1-m1"), store.store_message(message(2)), store.migrate()):
        with pytest.raises(SchemaVersionError, match=r"9999.*newer version"):
            await call
    assert _sql(url, "SELECT id FROM jazzmine_messages") == [("c1-m1",)]
    # Nothing of the refusal is remembered.
    _sql(url, f"UPDATE jazzmine_schema SET version_num = '{_schema.REVISION}'")
    assert await store.get_message("c1-m1") == message(1)
    await store.close()


async def test_a_migration_that_fails_leaves_nothing(url: str) -> None:
    # The last table to be made is there already, and is something else.
    _sql(url, "CREATE TABLE jazzmine_trace_messages (x INTEGER)")
    store = SqlMessageStore(url, deadline=60)
    with pytest.raises(MemoryUnavailableError, match="The message store failed"):
        await store.migrate()
    catalogue = "sqlite_master" if url.startswith("sqlite") else "pg_tables"
    name = "name" if url.startswith("sqlite") else "tablename"
    found = _sql(url, f"SELECT {name} FROM {catalogue} WHERE {name} LIKE 'jazzmine%%'")
    assert found == [("jazzmine_trace_messages",)]
    _sql(url, "DROP TABLE jazzmine_trace_messages")
    await store.store_message(message(1))
    await store.close()


async def test_tables_of_others_in_the_same_database_stay(url: str) -> None:
    _sql(url, "CREATE TABLE messages (x INTEGER)", "CREATE TABLE alembic_version (version_num TEXT)")
    _sql(url, "INSERT INTO alembic_version VALUES ('theirs')")
    store = SqlMessageStore(url, deadline=60)
    await store.store_message(message(1))
    await store.close()
    assert _sql(url, "SELECT version_num FROM alembic_version") == [("theirs",)]


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

    def ask(connection: Any) -> list[Any]:
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas]

    assert await store._database.run(ask) == ["wal", 1, 48_000, 2]
    await store.close()
    with sqlite3.connect(tmp_path / "m.db") as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
