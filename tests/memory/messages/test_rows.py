"""Damage that a database of JSON could not store, but text columns can."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import DamagedRecordError
from jazzmine_dspy.memory.messages import SqlMessageStore
from jazzmine_dspy_conformance.messages.harness import message

pytestmark = [pytest.mark.row("M7"), pytest.mark.chaos]

CELLS: list[Any] = [
    "",
    '{"id": "c1-m2"',
    "{}}",
    '{"id": NaN}',
    "[" * 100_000,
    "\ufeff{}",
    '"\\ud800"',
    b"\xff\xfe\x00",
    7,
]


async def _damage(tmp_path: Path, statement: str, *values: Any) -> None:
    """Store three messages, damage the second, and see that only this one is left out."""
    store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    await store.store_messages([message(number) for number in (1, 2, 3)])
    with sqlite3.connect(tmp_path / "m.db") as other:
        other.execute(f"UPDATE jazzmine_messages SET {statement} WHERE id = 'c1-m2'", values)
    other.close()
    for page in (
        await store.get_messages_by_conversation_id("c1"),
        await store.get_immediate_context("c1", 5),
    ):
        assert list(page) == [message(1), message(3)]
        assert [each.id for each in page.damaged] == ["c1-m2"]
    with pytest.raises(DamagedRecordError, match="c1-m2"):
        await store.get_message("c1-m2")
    await store.close()


@pytest.mark.parametrize("value", CELLS, ids=lambda value: repr(value)[:12])
async def test_a_cell_that_is_no_record(tmp_path: Path, value: Any) -> None:
    await _damage(tmp_path, "body = ?", value)


@pytest.mark.parametrize("column", ["body", "user_id"])
async def test_bytes_that_are_no_utf_8(tmp_path: Path, column: str) -> None:
    await _damage(tmp_path, f"{column} = CAST(replace(CAST({column} AS BLOB), x'75', x'fe') AS TEXT)")
