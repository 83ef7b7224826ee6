"""A working-memory store over SQLite, which processes of one machine can share: a complete store of your own.

Run it twice: python docs/examples/sqlite_store.py
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from typing import Any

from jazzmine_dspy.memory.working.store import Presence, QuarantineEntry, WorkingMemoryStore
from jazzmine_dspy.memory.working.turn_lock import Record, Turn, stale_state, turn_lost
from jazzmine_dspy.models.errors import MemoryUnavailableError

TABLES = """
create table if not exists record (id text primary key, data blob, version int, expires real, forgotten real,
    fence int, token text, held real, missing text);
create table if not exists aside (id text, data blob, cause text, at real);
"""


@dataclass
class Row:
    id: str
    data: bytes | None = None
    version: int = -1
    expires: float = 0.0
    forgotten: float = 0.0
    fence: int = 0
    token: str = ""
    held: float = 0.0
    missing: str = Presence.ABSENT


class SqliteStore(WorkingMemoryStore):
    lease = 15.0

    def __init__(
        self, path: str, *, ttl: float = 3600.0, remember: float = 30 * 86400.0, **options: Any
    ) -> None:
        super().__init__(**options)
        self.ttl, self.remember = ttl, remember
        self.db = sqlite3.connect(path, isolation_level=None, timeout=2.0)
        self.db.executescript("pragma journal_mode = wal; pragma synchronous = normal;" + TABLES)

    @contextmanager
    def row(self, conversation_id: str) -> Iterator[Row]:
        """A conversation's row in a transaction; what is changed in it is written at the end."""
        try:
            self.db.execute("begin immediate")
            try:
                values = self.db.execute("select * from record where id = ?", [conversation_id]).fetchone()
                row, now = Row(*values) if values else Row(conversation_id), time.time()
                if row.data is not None and now >= row.expires:
                    row.data, row.missing = None, Presence.EXPIRED
                if row.data is None and now >= row.forgotten:
                    row.missing = Presence.ABSENT
                before = replace(row)
                yield row
                if row != before:
                    self.db.execute("replace into record values (?,?,?,?,?,?,?,?,?)", astuple(row))
                self.db.execute("commit")
            except BaseException:
                self.db.execute("rollback")
                raise
        except sqlite3.OperationalError as error:
            raise MemoryUnavailableError(
                f"The file does not answer: {error}", where=conversation_id, remedy="Look who locks it."
            ) from error

    def record(self, row: Row) -> Record | None:
        if row.data is None:
            return None
        row.expires = time.time() + self.ttl
        row.forgotten = row.expires + self.remember
        return Record(row.data, row.version)

    def put(self, row: Row, data: bytes) -> Record:
        row.data, row.version = data, row.version + 1
        record = self.record(row)
        assert record is not None
        return record

    async def _begin(self, conversation_id: str, token: str) -> Turn | None:
        with self.row(conversation_id) as row:
            if row.token not in ("", token) and time.time() < row.held:
                return None
            row.token, row.fence, row.held = token, row.fence + 1, time.time() + self.lease
            row.forgotten = max(row.forgotten, time.time() + self.ttl + self.remember)
            return Turn(conversation_id, token, row.fence, self.record(row))

    async def _renew(self, turn: Turn) -> bool:
        with self.row(turn.conversation_id) as row:
            if row.token == turn.token:
                row.held = time.time() + self.lease
            return row.token == turn.token

    async def _end(self, conversation_id: str, token: str) -> None:
        with self.row(conversation_id) as row:
            if row.token == token:
                row.token = ""

    async def _read(self, conversation_id: str) -> Record | None:
        with self.row(conversation_id) as row:
            return self.record(row)

    async def _create(self, conversation_id: str, data: bytes, turn: Turn | None) -> Record:
        with self.row(conversation_id) as row:
            if turn is not None and turn.fence != row.fence:
                raise turn_lost(conversation_id)
            return self.record(row) or self.put(row, data)

    async def _write(self, turn: Turn, data: bytes, expected: int) -> int:
        with self.row(turn.conversation_id) as row:
            if turn.fence != row.fence:
                raise turn_lost(row.id)
            if row.data is None or row.version != expected:
                raise stale_state(row.id, None if row.data is None else row.version, expected)
            return self.put(row, data).version

    async def _presence(self, conversation_id: str) -> Presence:
        with self.row(conversation_id) as row:
            return Presence.PRESENT if row.data is not None else Presence(row.missing)

    async def _delete(self, conversation_id: str) -> bool:
        with self.row(conversation_id) as row:
            gone = self.db.execute("delete from aside where id = ?", [conversation_id]).rowcount
            there = row.data is not None or gone > 0
            row.data, row.missing = None, Presence.ABSENT
            return there

    async def _quarantine(self, conversation_id: str, record: Record, cause: str) -> None:
        with self.row(conversation_id) as row:
            if row.data is not None and row.version == record.version:
                values = [conversation_id, row.data, cause, time.time()]
                self.db.execute("insert into aside values (?,?,?,?)", values)
                row.data, row.missing = None, Presence.UNREADABLE

    async def _quarantined(self, conversation_id: str) -> list[QuarantineEntry]:
        query = "select data, cause, at from aside where id = ? order by rowid"
        return [QuarantineEntry(*values) for values in self.db.execute(query, [conversation_id])]

    async def _close(self) -> None:
        self.db.close()


async def main() -> None:
    for worker in ("one", "another"):
        store = SqliteStore("talks.db")
        state = await store.get_or_create("c1", "ann")
        print(worker, state.version, repr(state.last_agent_response))
        await store.end_turn("c1", "It arrives on Monday.")
        await store.close()


if __name__ == "__main__":
    asyncio.run(main())
