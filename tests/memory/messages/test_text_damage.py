"""Damage that a database of JSON could not hold, but files and text columns can."""

from __future__ import annotations

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import DamagedRecordError
from jazzmine_dspy.memory.messages import InMemoryMessageStore, SqlMessageStore
from jazzmine_dspy.testing.messages.harness import message

pytestmark = [pytest.mark.row("M7"), pytest.mark.chaos]

TEXTS = [
    "",
    "{",
    '{"id": "c1-m2"',
    "{}}",
    "NaN",
    '{"id": NaN}',
    "[" * 100_000,
    "\ufeff{}",
    '"\\ud800"',
    "no JSON",
]


async def _leaves_out_the_second(store: Any) -> None:
    for page in (
        await store.get_messages_by_conversation_id("c1"),
        await store.get_immediate_context("c1", 5),
    ):
        assert list(page) == [message(1), message(3)]
        assert [one.id for one in page.damaged] == ["c1-m2"]
    with pytest.raises(DamagedRecordError, match="c1-m2"):
        await store.get_message("c1-m2")


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:10])
async def test_texts_in_process(text: str) -> None:
    store = InMemoryMessageStore()
    await store.store_messages([message(number) for number in (1, 2, 3)])
    store._messages.texts["c1-m2"] = text
    await _leaves_out_the_second(store)


@pytest.mark.parametrize("raw", [*TEXTS, b"\xff\xfe\x00", b"{}", 7, 0.5], ids=lambda raw: repr(raw)[:12])
async def test_cells_of_sqlite(tmp_path: Path, raw: Any) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    await store.store_messages([message(number) for number in (1, 2, 3)])
    with sqlite3.connect(tmp_path / "m.db") as other:
        other.execute("UPDATE jazzmine_messages SET body = ? WHERE id = 'c1-m2'", (raw,))
    other.close()
    await _leaves_out_the_second(store)
    await store.close()


@pytest.mark.parametrize("where", ["body", "user_id"])
async def test_bytes_of_sqlite_that_are_no_text(tmp_path: Path, where: str) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    await store.store_messages([message(number) for number in (1, 2, 3)])
    with sqlite3.connect(tmp_path / "m.db") as other:
        broken = f"CAST(replace(CAST({where} AS BLOB), x'75', x'fe') AS TEXT)"
        other.execute(f"UPDATE jazzmine_messages SET {where} = {broken} WHERE id = 'c1-m2'")
    other.close()
    await _leaves_out_the_second(store)
    await store.close()


async def test_bytes_that_are_a_whole_record_are_read(tmp_path: Path) -> None:
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    await store.store_message(message(1))
    with sqlite3.connect(tmp_path / "m.db") as other:
        other.execute("UPDATE jazzmine_messages SET body = CAST(body AS BLOB)")
    other.close()
    assert await store.get_message("c1-m1") == message(1)
    await store.close()


@pytest.mark.row("G4")
async def test_what_is_said_of_damage_names_no_key_that_a_user_wrote(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = InMemoryMessageStore()
    await store.store_messages([message(number) for number in (1, 2, 3)])
    body = json.loads(store._messages.texts["c1-m2"])
    body["confidences"] = {"ann@example.org": "no number"}
    store._messages.texts["c1-m2"] = json.dumps(body)
    with caplog.at_level(logging.WARNING):
        page = await store.get_messages_by_conversation_id("c1")
    [(_, cause)] = page.damaged
    assert cause.startswith("confidences: ")
    assert "ann@" not in cause + caplog.text
