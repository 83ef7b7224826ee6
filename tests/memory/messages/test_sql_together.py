"""Several writers at once, over connections of their own; and calls that are cancelled."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.testing.messages.harness import message

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


async def _waits(other: psycopg.Connection[Any], watch: psycopg.Connection[Any]) -> None:
    """Until the server shows a session that waits for another one's lock."""
    async with asyncio.timeout(30):
        while watch.execute(WAITING).fetchone() == (0,):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0)


@pytest.fixture
def database(postgres: Any) -> str:
    name: str = postgres.new_database()
    return name


@pytest.mark.row("E17")
@pytest.mark.parametrize("again", [False, True], ids=["update_message", "store_message"])
async def test_an_edit_committed_while_an_update_waits_survives(
    postgres: Any, database: str, again: bool
) -> None:
    store = SqlMessageStore(postgres.url(database), deadline=60)
    await store.store_message(message(1))
    url = postgres.url(database)
    with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as watch:
        other.execute(
            "UPDATE jazzmine_messages SET flagged = true, body = jsonb_set(body, '{errors}', '[\"late\"]')"
        )
        given = message(1, intent="found")
        writing = asyncio.create_task(store.store_message(given) if again else store.update_message(given))
        await _waits(other, watch)
        other.commit()
    await writing
    assert await store.get_message("c1-m1") == message(1, intent="found", is_flagged=True, errors=["late"])
    await store.close()


@pytest.mark.row("E17")
async def test_an_edit_of_a_sqlite_file_while_an_update_waits_survives(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    await store.store_message(message(1))
    other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.update_message(message(1, intent="found")))
    # A read that begins after the update did, so that the update has had its turn.
    assert await store.get_message("c1-m1") == message(1)
    other.execute(
        "UPDATE jazzmine_messages SET flagged = 1, body = json_set(body, '$.errors', json('[\"late\"]'))"
    )
    other.execute("COMMIT")
    other.close()
    await writing
    assert await store.get_message("c1-m1") == message(1, intent="found", is_flagged=True, errors=["late"])
    await store.close()


@pytest.mark.row("M6")
async def test_batches_that_lock_each_other_out_both_succeed(postgres: Any, database: str) -> None:
    stores = [SqlMessageStore(postgres.url(database), deadline=60) for _ in range(2)]
    everything = [message(number) for number in range(30)]
    await stores[0].store_messages(everything)
    calls = []
    for number in range(6):
        given = [message(one.timestamp, errors=[str(number)]) for one in everything]
        calls.append(stores[number % 2].store_messages(given if number % 2 else given[::-1]))
    await asyncio.gather(*calls)
    kept = await stores[0].get_messages_by_conversation_id("c1")
    assert len(kept) == 30
    assert len({tuple(one.errors or ()) for one in kept}) == 1
    for store in stores:
        await store.close()


@pytest.mark.row("M6")
@pytest.mark.chaos
async def test_a_cancelled_call_ends_at_once_and_changes_nothing(postgres: Any, database: str) -> None:
    store = SqlMessageStore(postgres.url(database), deadline=60)
    await store.store_message(message(1))
    url = postgres.url(database)
    with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as watch:
        other.execute("SELECT 1 FROM jazzmine_messages FOR UPDATE")
        writing = asyncio.create_task(store.update_message(message(1, intent="x")))
        await _waits(other, watch)
        started = time.monotonic()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert time.monotonic() - started < 2
        other.commit()
    assert await store.get_message("c1-m1") == message(1)
    await store.update_message(message(1, intent="y"))
    assert await store.get_message("c1-m1") == message(1, intent="y")
    await store.close()


@pytest.mark.row("M6")
@pytest.mark.chaos
async def test_a_cancelled_call_that_waits_for_a_sqlite_file_changes_nothing(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    await store.store_message(message(1))
    other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.store_message(message(2)))
    # Reads that begin later end first, and the write has had its turn meanwhile.
    for _ in range(5):
        assert await store.get_message("c1-m2") is None
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    other.execute("COMMIT")
    other.close()
    # Queues behind the cancelled one.
    await store.store_message(message(3))
    assert [one.id for one in await store.get_messages_by_conversation_id("c1")] == ["c1-m1", "c1-m3"]
    await store.close()


@pytest.mark.row("M6")
@pytest.mark.chaos
@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/m.db"])
async def test_cancelled_calls_of_sqlite(tmp_path: Path, url: str) -> None:
    store = SqlMessageStore(url.format(tmp_path), deadline=60)
    await store.store_message(message(0))
    for number in range(1, 40):
        writing = asyncio.create_task(store.store_message(message(number)))
        # At another step each time.
        for _ in range(number % 13):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        # What comes after the cancelled call is not undone or overtaken by it.
        await store.delete_message(f"c1-m{number}")
    await store.store_message(message(50))
    assert [one.timestamp for one in await store.get_messages_by_conversation_id("c1")] == [0, 50]
    await store.close()


@pytest.mark.row("M6")
async def test_more_calls_at_once_than_connections(postgres: Any, database: str) -> None:
    store = SqlMessageStore(postgres.url(database), deadline=60, pool_size=2)
    await asyncio.gather(*(store.store_message(message(number)) for number in range(50)))
    found = await asyncio.gather(*(store.get_message(f"c1-m{number}") for number in range(50)))
    assert [one.timestamp for one in found if one] == list(range(50))
    await store.close()
