"""A database that is locked, down, frozen, refusing or silent: an error in time, and then all works as before."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.memory.messages.database import _cause
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy_conformance.messages.harness import conversation, message, trace

pytestmark = [pytest.mark.row("M6"), pytest.mark.chaos]

DEADLINE = 1.0
# On a busy machine the loop itself may come late; a hang would take for ever.
SLACK = 2.0

CALLS: dict[str, Callable[[SqlMessageStore], Awaitable[Any]]] = {
    "store_message": lambda store: store.store_message(message(2)),
    "update_message": lambda store: store.update_message(message(1, intent="x")),
    "flag_message": lambda store: store.flag_message("c1-m1"),
    "ensure_conversation": lambda store: store.ensure_conversation(conversation()),
    "store_turn_trace": lambda store: store.store_turn_trace(trace()),
    "delete_conversation": lambda store: store.delete_conversation("c1"),
    "get_message": lambda store: store.get_message("c1-m1"),
    "get_immediate_context": lambda store: store.get_immediate_context("c1", 5),
}
WRITES = [name for name in CALLS if not name.startswith("get")]


async def _fails_in_time(call: Awaitable[Any], match: str | None = None) -> MemoryUnavailableError:
    """The call ends in the error within its deadline, and the loop goes on meanwhile."""
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    heart = asyncio.create_task(beat())
    started = time.monotonic()
    with pytest.raises(MemoryUnavailableError, match=match) as raised:
        await call
    took = time.monotonic() - started
    heart.cancel()
    assert took < DEADLINE + SLACK
    # A call that fails at once says nothing of the loop.
    assert took < DEADLINE / 2 or beats > 10 * took
    return raised.value


# --- sqlite --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITES)
async def test_a_locked_file(tmp_path: Path, name: str) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=DEADLINE)
    await store.store_message(message(1))
    with sqlite3.connect(tmp_path / "m.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        await _fails_in_time(CALLS[name](store))
        # Reading does not wait for writers.
        assert await store.get_message("c1-m1") == message(1)
        other.execute("ROLLBACK")
    other.close()
    await CALLS[name](store)
    await store.close()


async def test_a_file_locked_before_the_first_call(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=DEADLINE)
    with sqlite3.connect(tmp_path / "m.db", isolation_level=None) as other:
        other.execute("CREATE TABLE x (y)")
        other.execute("BEGIN EXCLUSIVE")
        await _fails_in_time(store.get_message("c1-m1"))
        other.execute("ROLLBACK")
    other.close()
    await store.store_message(message(1))
    await store.close()


@pytest.mark.parametrize("content", [b"no database" * 200, b""])
async def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(content)
    store = SqlMessageStore(f"sqlite:///{path}", deadline=DEADLINE)
    if content:
        error = await _fails_in_time(store.store_message(message(1)), "SQLITE_NOTADB")
        assert "m.db" in error.where
        assert path.read_bytes() == content
    else:
        await store.store_message(message(1))
    await store.close()


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/no/m.db", deadline=DEADLINE)
    error = await _fails_in_time(store.get_message("x"), "SQLITE_CANTOPEN")
    assert "no/m.db" in error.where
    (tmp_path / "no").mkdir()
    assert await store.get_message("x") is None
    await store.close()


# --- postgresql ----------------------------------------------------------------------------------------------


async def _on(postgres: Any, *, deadline: float = DEADLINE) -> SqlMessageStore:
    store = SqlMessageStore(postgres.url(postgres.new_database()), deadline=deadline)
    await store.store_message(message(1))
    return store


@pytest.mark.parametrize("name", ["store_message", "flag_message", "get_immediate_context"])
async def test_a_frozen_server(postgres: Any, name: str) -> None:
    store = await _on(postgres)
    with postgres.frozen():
        await _fails_in_time(CALLS[name](store), "did not answer")
        await asyncio.gather(*(_fails_in_time(store.get_message("c1-m1")) for _ in range(8)))
    await CALLS[name](store)
    await store.close()


async def test_a_frozen_server_at_the_first_call(postgres: Any) -> None:
    store = SqlMessageStore(postgres.url(postgres.new_database()), deadline=DEADLINE)
    with postgres.frozen():
        await _fails_in_time(store.store_message(message(1)))
        started = time.monotonic()
        await store.close()
        assert time.monotonic() - started < DEADLINE + SLACK
    await store.store_message(message(1))
    await store.close()


def test_a_process_ends_while_the_server_is_frozen(postgres: Any) -> None:
    code = """
import asyncio, sys
from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.models.errors import MemoryUnavailableError
store = SqlMessageStore(sys.argv[1], deadline=1)
asyncio.run(store.get_message("x"))
print("ready", flush=True)
sys.stdin.readline()
try:
    asyncio.run(store.get_message("x"))
except MemoryUnavailableError:
    print("end", flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", code, postgres.url(postgres.new_database())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    with postgres.frozen():
        output, _ = child.communicate("\n", timeout=60)
    assert (child.returncode, output) == (0, "end\n")


async def test_a_server_that_goes_and_comes_back(postgres: Any) -> None:
    store = await _on(postgres)
    postgres.stop()
    try:
        for call in CALLS.values():
            await _fails_in_time(call(store))
    finally:
        postgres.start()
    assert await store.get_message("c1-m1") == message(1)
    # Restarted between two calls: the connections held are dead, and nobody notices.
    postgres.stop()
    postgres.start()
    await store.store_message(message(2))
    assert [one.id for one in await store.get_immediate_context("c1", 5)] == ["c1-m1", "c1-m2"]
    await store.close()


async def test_a_port_where_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        store = SqlMessageStore(f"postgresql://ann:s3cret@127.0.0.1:{port}/talks", deadline=DEADLINE)
        error = await _fails_in_time(store.get_message("x"))
    assert f"127.0.0.1:{port}/talks" in error.where
    await store.close()


async def test_a_server_that_says_nothing() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://ann:s3cret@127.0.0.1:{silent.getsockname()[1]}/talks?password=s3cret"
        store = SqlMessageStore(url, deadline=DEADLINE)
        error = await _fails_in_time(store.get_message("x"), "did not answer")
        shown = "".join(traceback.format_exception(error)) + repr(store)
        assert "s3cret" not in shown
    await store.close()


async def test_a_server_that_refuses(postgres: Any) -> None:
    postgres.execute("CREATE ROLE nobody_in LOGIN PASSWORD 's3cret' CONNECTION LIMIT 0")
    url = postgres.url().replace("postgres@", "nobody_in:s3cret@")
    store = SqlMessageStore(url, deadline=DEADLINE)
    error = await _fails_in_time(store.get_message("x"), "OperationalError")
    assert "s3cret" not in "".join(traceback.format_exception(error))
    await store.close()


async def test_a_user_who_may_not_write(postgres: Any) -> None:
    store = await _on(postgres)
    database = store._database._url.database
    postgres.execute("CREATE ROLE reader LOGIN")
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", database)
    reader = SqlMessageStore(postgres.url(database).replace("postgres@", "reader@"), deadline=DEADLINE)
    assert await reader.get_message("c1-m1") == message(1)
    said = message(2, original_content="my card is 4111")
    error = await _fails_in_time(reader.store_message(said), "42501")
    assert "rights" in error.remedy
    assert "4111" not in "".join(traceback.format_exception(error))
    await reader.close()
    await store.close()


async def test_a_row_locked_for_too_long(postgres: Any) -> None:
    store = await _on(postgres)
    database = store._database._url.database
    with psycopg.connect(postgres.url(database)) as other:
        other.execute("SELECT 1 FROM jazzmine_messages FOR UPDATE")
        await _fails_in_time(store.update_message(message(1, intent="x")))
        assert await store.get_message("c1-m1") == message(1)
        other.rollback()
    await store.update_message(message(1, intent="y"))
    assert await store.get_message("c1-m1") == message(1, intent="y")
    await store.close()


@pytest.mark.parametrize("state", [None, "22001"])
def test_what_a_driver_quotes_is_not_repeated(state: str | None) -> None:
    refused = psycopg.DataError("value too long: 'my pin 9876'")
    refused.sqlstate = state
    cause = _cause(DBAPIError("INSERT", {"text": "9876"}, refused))
    assert cause == " ".join(filter(None, ("DataError", state)))
