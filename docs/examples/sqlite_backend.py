"""A working-memory store over SQLite, which processes of one machine can share: a complete record backend.

Run it twice: python docs/examples/sqlite_backend.py
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace

from jazzmine_dspy.memory.errors import NotStoredError, StaleStateError, StateError, TurnLostError
from jazzmine_dspy.memory.working.backend import Grant, Kept, Presence, SetAside
from jazzmine_dspy.memory.working.base import RecordStore
from jazzmine_dspy.models.errors import MemoryUnavailableError

TABLES = """
create table if not exists record (id text primary key, data blob, version int, expires real, forgotten real,
    fence int, holder text, held real, last_write text, missing text);
create table if not exists aside (id text, number int, cause text, at real, data blob, primary key (id, number));
"""


@dataclass
class Row:
    id: str
    data: bytes | None = None
    version: int = -1
    expires: float = 0.0
    forgotten: float = 0.0
    fence: int = 0
    holder: str = ""
    held: float = 0.0
    last_write: str = ""
    missing: str = Presence.ABSENT


class SqliteBackend:
    lease = 15.0

    def __init__(self, path: str, *, ttl: float = 3600.0, remember: float = 30 * 86400.0) -> None:
        self.ttl, self.remember = ttl, remember
        self.db = sqlite3.connect(path, isolation_level=None, timeout=2.0)
        self.db.executescript("pragma journal_mode = wal; pragma synchronous = normal;" + TABLES)

    @contextmanager
    def row(self, conversation_id: str) -> Iterator[Row]:
        """A conversation's row in a transaction; what is changed in it is written at the end."""
        try:
            self.db.execute("begin immediate")
            try:
                found = self.db.execute("select * from record where id = ?", [conversation_id]).fetchone()
                row, now = Row(*found) if found else Row(conversation_id), time.time()
                if row.data is not None and now >= row.expires:
                    row.data, row.missing = None, Presence.EXPIRED
                if row.data is None and now >= row.forgotten:
                    row.missing = Presence.ABSENT
                before = replace(row)
                yield row
                if row != before:
                    self.db.execute("replace into record values (?,?,?,?,?,?,?,?,?,?)", astuple(row))
                self.db.execute("commit")
            except BaseException:
                self.db.execute("rollback")
                raise
        except sqlite3.OperationalError as error:
            raise MemoryUnavailableError(
                f"The file does not answer: {error}", where=conversation_id, remedy="Look who locks it."
            ) from error

    def touch(self, row: Row) -> None:
        row.expires = time.time() + self.ttl
        row.forgotten = row.expires + self.remember

    def kept(self, row: Row) -> Kept | None:
        if row.data is None:
            return None
        self.touch(row)
        return Kept(row.data, row.version)

    def newest(self, row: Row, fence: int | None) -> None:
        if fence not in (None, row.fence):
            raise TurnLostError(
                "The lease ran out", where=f"conversation {row.id!r}", remedy="Repeat the turn."
            )

    async def acquire(self, conversation_id: str, token: str) -> Grant | None:
        with self.row(conversation_id) as row:
            if row.holder != token:
                if row.holder and time.time() < row.held:
                    return None
                row.holder, row.fence = token, row.fence + 1
            row.held = time.time() + self.lease
            row.forgotten = max(row.forgotten, time.time() + self.ttl + self.remember)
            return Grant(row.fence, self.kept(row))

    async def renew(self, conversation_id: str, token: str, fence: int) -> bool:
        with self.row(conversation_id) as row:
            if row.fence != fence:
                return False
            row.holder, row.held = token, time.time() + self.lease
            return True

    async def release(self, conversation_id: str, token: str) -> bool:
        with self.row(conversation_id) as row:
            if row.holder != token:
                return False
            row.holder = ""
            return True

    async def read(self, conversation_id: str) -> Kept | None:
        with self.row(conversation_id) as row:
            return self.kept(row)

    async def create(self, conversation_id: str, data: bytes, *, fence: int | None) -> Kept:
        with self.row(conversation_id) as row:
            self.newest(row, fence)
            if row.data is None:
                row.data, row.version, row.last_write = data, row.version + 1, ""
            self.touch(row)
            return Kept(row.data, row.version)

    async def write(
        self,
        conversation_id: str,
        data: bytes,
        *,
        expected: int,
        fence: int,
        write_id: str,
        release: str = "",
    ) -> int:
        with self.row(conversation_id) as row:
            if row.data is None or row.last_write != write_id:
                self.newest(row, fence)
                if row.data is None or row.version != expected:
                    what = "is gone" if row.data is None else f"is at version {row.version}, not {expected}"
                    raise StaleStateError(
                        f"The state {what}", where=f"conversation {row.id!r}", remedy="Read again."
                    )
                row.data, row.version, row.last_write = data, expected + 1, write_id
            self.touch(row)
            if release and row.holder == release:
                row.holder = ""
            return row.version

    async def presence(self, conversation_id: str) -> Presence:
        with self.row(conversation_id) as row:
            return Presence.PRESENT if row.data is not None else Presence(row.missing)

    async def delete(self, conversation_id: str) -> bool:
        with self.row(conversation_id) as row:
            gone = self.db.execute("delete from aside where id = ?", [conversation_id]).rowcount
            there = row.data is not None or gone > 0
            row.data, row.missing = None, Presence.ABSENT
            return there

    async def set_aside(self, conversation_id: str, *, cause: str, found: Kept | None = None) -> str | None:
        with self.row(conversation_id) as row:
            if row.data is None or found not in (None, Kept(row.data, row.version)):
                return None
            newest = "select coalesce(max(number), 0) from aside where id = ?"
            number = self.db.execute(newest, [conversation_id]).fetchone()[0] + 1
            values = [conversation_id, number, cause, time.time(), row.data]
            self.db.execute("insert into aside values (?,?,?,?,?)", values)
            row.data, row.missing = None, Presence.UNREADABLE
            return str(number)

    async def restore(self, conversation_id: str, aside_id: str) -> None:
        with self.row(conversation_id) as row:
            aside = {one.id: one.data for one in await self.aside(conversation_id)}
            where = f"conversation {conversation_id!r}"
            if aside_id not in aside:
                raise NotStoredError(
                    f"No record was set aside under {aside_id!r}", where=where, remedy="List them."
                )
            if row.data is not None:
                raise StateError(
                    "The conversation has gone on", where=where, remedy="Set its record aside first."
                )
            self.db.execute("delete from aside where id = ? and number = ?", [conversation_id, int(aside_id)])
            row.data, row.version, row.last_write = aside[aside_id], row.version + 1, ""
            self.touch(row)

    async def aside(self, conversation_id: str) -> list[SetAside]:
        query = "select number, cause, at, data from aside where id = ? order by number"
        return [SetAside(str(number), *rest) for number, *rest in self.db.execute(query, [conversation_id])]

    async def conversations(self, *, limit: int, after: str = "") -> list[str]:
        query = """select id from (select id from record where data is not null and expires > ?
            union select id from aside) where id > ? order by id limit ?"""
        return [name for (name,) in self.db.execute(query, [time.time(), after, limit])]

    async def close(self) -> None:
        self.db.close()


async def main() -> None:
    for worker in ("one", "another"):
        store = RecordStore(SqliteBackend("talks.db"), wait=15.0)
        state = await store.get_or_create("c1", "ann")
        print(worker, state.version, repr(state.last_agent_response))
        await store.end_turn("c1", "It arrives on Monday.")
        await store.close()


if __name__ == "__main__":
    asyncio.run(main())
