"""PostgreSQL behind a pooler in transaction mode, and the options of a database's URL."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy_conformance.messages.harness import message
from transaction_pooler import TransactionPooler

pytestmark = pytest.mark.row("M6")


@pytest.mark.parametrize("options", ["", "?pgbouncer=true", "?pgbouncer=true&prepare_threshold=1"])
async def test_no_message_is_lost_behind_a_pooler(postgres: Any, options: str) -> None:
    async with TransactionPooler(postgres.folder) as pooler:
        url = f"postgresql://postgres@127.0.0.1:{pooler.port}/{postgres.new_database()}{options}"
        stores = [SqlMessageStore(url, deadline=60) for _ in range(3)]

        async def talk(number: int) -> None:
            await stores[number % 3].store_message(message(number))
            assert await stores[(number + 1) % 3].get_message(f"c1-m{number}") == message(number)

        for first in range(0, 120, 12):
            await asyncio.gather(*(talk(number) for number in range(first, first + 12)))
        page = await stores[0].get_messages_by_conversation_id("c1", limit=1000)
        assert {one.id for one in page} == {f"c1-m{number}" for number in range(120)}
        for store in stores:
            await store.close()
    assert pooler.transactions > 240


@pytest.mark.parametrize(("option", "prepared"), [("", False), ("&prepare_threshold=0", True)])
async def test_statements_are_prepared_where_the_url_asks_for_it(
    postgres: Any, option: str, prepared: bool
) -> None:
    store = SqlMessageStore(postgres.url(postgres.new_database()) + option, deadline=60, pool_size=1)
    for number in range(7):
        await store.store_message(message(number))
    query = "SELECT statement FROM pg_prepared_statements"
    statements = await store._database.run(lambda c: c.exec_driver_sql(query).scalars().all())
    assert any("jazzmine_messages" in statement for statement in statements) is prepared
    await store.close()


async def test_behind_a_pooler_prepared_statements_fail(postgres: Any) -> None:
    async with TransactionPooler(postgres.folder) as pooler:
        url = f"postgresql://postgres@127.0.0.1:{pooler.port}/{postgres.new_database()}?prepare_threshold=0"
        one, other = SqlMessageStore(url, deadline=60), SqlMessageStore(url, deadline=60)
        calls = [store.store_message(message(n)) for n, store in enumerate([one, other] * 5)]
        ends = [type(end).__name__ for end in await asyncio.gather(*calls, return_exceptions=True)]
        assert "MemoryUnavailableError" in ends
        await one.close()
        await other.close()


async def test_options_of_a_postgresql_url_count_before_the_stores_own(postgres: Any) -> None:
    url = postgres.url(postgres.new_database())
    options = "&application_name=our%20bot&connect_timeout=7&keepalives_idle=9&target_session_attrs=any"
    store = SqlMessageStore(url + options, deadline=60)

    def connection(connection: Any) -> dict[str, str]:
        return dict(connection.connection.driver_connection.info.get_parameters())

    used = await store._database.run(connection)
    assert used["application_name"] == "our bot"
    assert (used["connect_timeout"], used["keepalives_idle"]) == ("7", "9")
    await store.close()


@pytest.mark.row("G4")
@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("prepare_threshold=never", "prepare_threshold"),
        ("connect_timeout=soon", "connect_timeout"),
        ("tcp_user_timeout=1.5", "tcp_user_timeout"),
        ("pgbouncer=maybe", "pgbouncer"),
        ("sslmode=requires", "sslmode"),
        ("target_session_attrs=primary&port=none", "port"),
        ("target_session_attrs=master", "target_session_attrs"),
        ("application_name=a&application_name=b", "application_name"),
        ("connection_limit=1", "connection_limit"),
        ("statement_cache_size=0", "statement_cache_size"),
        ("autocommit=true", "autocommit"),
        ("row_factory=tuple", "row_factory"),
    ],
)
def test_an_option_that_cannot_be_read_is_refused_by_name(option: str, name: str) -> None:
    with pytest.raises(InputError, match=repr(name)) as caught:
        SqlMessageStore(f"postgresql://ann:s3cret@h/d?{option}")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "option", ["timeout=5", "mode=ro", "mode=ro&uri=maybe", "check_same_thread=true", "x=y"]
)
def test_an_option_of_a_file_that_would_not_count_is_refused_by_name(tmp_path: Path, option: str) -> None:
    with pytest.raises(InputError, match=repr(option.partition("=")[0])):
        SqlMessageStore(f"sqlite:///{tmp_path}/m.db?{option}")


async def test_a_file_may_be_opened_for_reading_only(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    store = SqlMessageStore(f"sqlite:///{path}")
    await store.store_message(message(1))
    await store.close()
    reader = SqlMessageStore(f"sqlite:///file:{path}?mode=ro&uri=true")
    assert await reader.get_message("c1-m1") == message(1)
    with pytest.raises(MemoryUnavailableError, match="READONLY"):
        await reader.store_message(message(2))
    await reader.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM jazzmine_messages").fetchone() == (1,)
    connection.close()
