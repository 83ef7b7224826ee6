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
from jazzmine_dspy_conformance.messages.harness import conversation, message

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
async def test_an_edit_committed_while_an_update_waits_survives(postgres: Any, database: str) -> None:
    store = SqlMessageStore(postgres.url(database), deadline=60)
    await store.store_message(message(1))
    url = postgres.url(database)
    with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as watch:
        other.execute(
            "UPDATE jazzmine_messages SET flagged = true, body = jsonb_set(body, '{errors}', '[\"late\"]')"
        )
        writing = asyncio.create_task(store.update_message(message(1, intent="new")))
        await _waits(other, watch)
        other.commit()
    await writing
    assert await store.get_message("c1-m1") == message(1, intent="new", is_flagged=True, errors=["late"])
    await store.close()


@pytest.mark.row("M6")
async def test_a_conversation_deleted_while_it_is_ensured_is_stored_again(
    postgres: Any, database: str
) -> None:
    store = SqlMessageStore(postgres.url(database), deadline=60)
    await store.store_conversation(conversation("c1"))
    url = postgres.url(database)
    with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as watch:
        other.execute("SELECT FROM jazzmine_conversations FOR UPDATE")
        ensuring = asyncio.create_task(store.ensure_conversation(conversation("c1")))
        await _waits(other, watch)
        other.execute("DELETE FROM jazzmine_conversations")
        other.commit()
    assert await ensuring == await store.get_conversation("c1") == conversation("c1")
    await store.close()


@pytest.mark.row("E17")
async def test_an_edit_of_a_sqlite_file_while_an_update_waits_survives(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    await store.store_message(message(1))
    other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.update_message(message(1, intent="new")))
    # A read that begins after the update did, so that the update has had its turn.
    assert await store.get_message("c1-m1") == message(1)
    other.execute(
        "UPDATE jazzmine_messages SET flagged = 1, body = json_set(body, '$.errors', json('[\"late\"]'))"
    )
    other.execute("COMMIT")
    other.close()
    await writing
    assert await store.get_message("c1-m1") == message(1, intent="new", is_flagged=True, errors=["late"])
    await store.close()


@pytest.mark.row("M6")
async def test_batches_stored_again_in_other_orders_all_succeed(postgres: Any, database: str) -> None:
    stores = [SqlMessageStore(postgres.url(database), deadline=60) for _ in range(2)]
    everything = [message(number) for number in range(30)]
    await stores[0].store_messages(everything)
    calls = [stores[number % 2].store_messages(everything[:: 1 - 2 * (number % 2)]) for number in range(6)]
    await asyncio.gather(*calls)
    assert await stores[0].get_messages_by_conversation_id("c1") == everything
    for store in stores:
        await store.close()


@pytest.mark.row("M6")
@pytest.mark.chaos
async def test_a_cancelled_call_ends_at_once_and_does_its_work_later(postgres: Any, database: str) -> None:
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
    await store.update_message(message(1, errors=["late"]), fields={"errors"})
    assert await store.get_message("c1-m1") in (
        message(1, errors=["late"]),
        message(1, intent="x", errors=["late"]),
    )
    await store.close()


@pytest.mark.row("M6")
@pytest.mark.chaos
@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/m.db"])
async def test_cancelled_calls_of_sqlite_do_their_work_before_the_next_write(
    tmp_path: Path, url: str
) -> None:
    store = SqlMessageStore(url.format(tmp_path), deadline=60)
    await store.store_message(message(0))
    for number in range(1, 40):
        writing = asyncio.create_task(store.store_message(message(number)))
        # At another step each time.
        for _ in range(number % 13):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await store.delete_message(f"c1-m{number}")
    await store.store_message(message(50))
    page = await store.get_messages_by_conversation_id("c1")
    assert [each.timestamp for each in page] == [0, 50]
    await store.close()


@pytest.mark.row("M6")
async def test_more_calls_at_once_than_connections(postgres: Any, database: str) -> None:
    store = SqlMessageStore(postgres.url(database), deadline=60, pool_size=2)
    await asyncio.gather(*(store.store_message(message(number)) for number in range(50)))
    results = await asyncio.gather(*(store.get_message(f"c1-m{number}") for number in range(50)))
    assert [each.timestamp for each in results if each] == list(range(50))
    await store.close()
