"""Records in tables: the statements, on a connection within a transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Generic

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from jazzmine_dspy.memory.errors import ConflictError
from jazzmine_dspy.memory.messages._checks import check_same, damaged, left_out, named, not_stored
from jazzmine_dspy.memory.messages._records import R, UnreadableError, decode, encode, given, overlay
from jazzmine_dspy.memory.messages.page import Damaged, Page
from jazzmine_dspy.models.messages import Message

_TRIES = 3

Row = Any
"""A row with ``seq``, ``id``, the columns named, and ``body``; SQLAlchemy's versions disagree on its type."""


def insert(connection: sa.Connection, table: sa.Table, values: dict[str, Any]) -> bool:
    """Insert a row unless its key is taken; whether it was inserted."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values(**values).on_conflict_do_nothing()
    return connection.execute(statement).rowcount == 1


class Rows(Generic[R]):
    """The records of one kind.

    Args:
        kind: Their model.
        table: Has the columns ``seq``, ``id``, ``body`` and those named.
        columns: Fields of the model that stand in columns too.
    """

    def __init__(self, kind: type[R], table: sa.Table, *columns: str) -> None:
        self.kind = kind
        self.table = table
        self.columns = columns
        beside = [table.c.flagged] if kind is Message else []
        self._read = sa.select(
            table.c.seq, table.c.id, *(table.c[name] for name in columns), *beside, table.c.body
        )

    # --- reading -----------------------------------------------------------------------------------------

    def record(self, row: Row) -> R:
        """A row as a record.

        Raises:
            UnreadableError: it is none.
        """
        record = decode(self.kind, row.body, id=row.id, **{name: getattr(row, name) for name in self.columns})
        if isinstance(record, Message) and row.flagged:
            record.is_flagged = True
        return record

    def get(self, connection: sa.Connection, record_id: str) -> R | None:
        """A record by id, or None.

        Raises:
            DamagedRecordError: it cannot be read.
        """
        row = connection.execute(self._read.where(self.table.c.id == record_id)).one_or_none()
        return None if row is None else self.readable(row, record_id)

    def readable(self, row: Row, record_id: str) -> R:
        try:
            return self.record(row)
        except UnreadableError as error:
            raise damaged(self.kind, record_id, str(error)) from error

    def page(self, connection: sa.Connection, column: str, value: str, limit: int, offset: int) -> Page[R]:
        """Records with a value in a column, in the order of first storing."""
        found = self._read.where(self.table.c[column] == value).order_by(self.table.c.seq)
        rows = connection.execute(found.limit(limit + 1).offset(offset)).all()
        page = self.collect(rows[:limit])
        page.next_offset = offset + limit if len(rows) > limit else None
        return page

    def by_ids(self, connection: sa.Connection, ids: Collection[str]) -> Page[R]:
        """Records by id, in the order of ``ids``."""
        rows = connection.execute(self._read.where(self.table.c.id.in_(ids))).all()
        by_id = {row.id: row for row in rows}
        return self.collect(by_id[one] for one in ids if one in by_id)

    def newest(
        self, connection: sa.Connection, conditions: Iterable[sa.ColumnElement[bool]], n: int
    ) -> Page[R]:
        """The last ``n`` readable records that meet the conditions, oldest first."""
        found: list[R] = []
        lost: list[Damaged] = []
        query = self._read.where(*conditions).order_by(self.table.c.seq.desc())
        before = None
        while len(found) < n:
            wanted = max(n - len(found), 50) if before is not None else n
            later = query if before is None else query.where(self.table.c.seq < before)
            rows = connection.execute(later.limit(wanted)).all()
            for row in rows:
                if len(found) == n:
                    break
                page = self.collect([row])
                found += page
                lost += page.damaged
            if len(rows) < wanted:
                break
            before = rows[-1].seq
        return Page(found[::-1], damaged=lost[::-1])

    def collect(self, rows: Iterable[Row]) -> Page[R]:
        """The readable ones of some rows."""
        found: list[R] = []
        lost: list[Damaged] = []
        for row in rows:
            try:
                found.append(self.record(row))
            except UnreadableError as error:
                lost.append(left_out(self.kind, row.id, str(error)))
        return Page(found, damaged=lost)

    # --- writing -----------------------------------------------------------------------------------------

    def add(
        self, connection: sa.Connection, record: R, record_id: str, data: dict[str, Any], own: Collection[str]
    ) -> None:
        """Insert a record, or lay what is given of one that is the same over it.

        Raises:
            ConflictError: it is another one.
        """
        row = self.insert_or_lock(connection, record, record_id, data)
        if row is not None:
            check_same(self.readable(row, record_id), record, record_id)
            self.lay_over(connection, row, data, given(record) - frozenset(own))

    def replace(self, connection: sa.Connection, record: R, record_id: str, data: dict[str, Any]) -> None:
        """Insert a record, or lay all of it over the one there; a damaged one is replaced whole."""
        row = self.insert_or_lock(connection, record, record_id, data)
        if row is None:
            return
        try:
            self.record(row)
        except UnreadableError as error:
            left_out(self.kind, record_id, f"{error}; replaced")
            self._write(connection, record, record_id, encode(self.kind, record_id, data))
        else:
            self.lay_over(connection, row, data, data.keys())

    def change(
        self, connection: sa.Connection, record_id: str, data: dict[str, Any], fields: Collection[str]
    ) -> None:
        """Lay some fields over a record that is there.

        Raises:
            NotStoredError: it is not.
        """
        row = self.lock(connection, record_id)
        if row is None:
            raise not_stored(self.kind, record_id)
        self.lay_over(connection, row, data, fields)

    def lock(self, connection: sa.Connection, record_id: str) -> Row | None:
        """A row, which until the end of the transaction no other one changes."""
        found = self._read.where(self.table.c.id == record_id).with_for_update()
        return connection.execute(found).one_or_none()

    def lock_all(self, connection: sa.Connection, ids: Collection[str]) -> None:
        """Lock the rows that are there, in everyone's order, so that two such calls cannot block each other."""
        found = sa.select(self.table.c.id).where(self.table.c.id.in_(ids)).order_by(self.table.c.id)
        connection.execute(found.with_for_update())

    def insert_or_lock(
        self, connection: sa.Connection, record: R, record_id: str, data: dict[str, Any]
    ) -> Row | None:
        values: dict[str, Any] = {name: getattr(record, name) for name in self.columns}
        if isinstance(record, Message):
            values["flagged"] = record.is_flagged
        values |= {"id": record_id, "body": encode(self.kind, record_id, data)}
        for _ in range(_TRIES):
            if insert(connection, self.table, values):
                return None
            row = self.lock(connection, record_id)
            # Between the two another process may have deleted it.
            if row is not None:
                return row
        raise ConflictError(
            "The record is stored and deleted by others all the time",
            where=named(self.kind, record_id),
            remedy="Repeat the call.",
        )

    def lay_over(
        self, connection: sa.Connection, row: Row, data: dict[str, Any], fields: Collection[str]
    ) -> None:
        new = overlay(self.readable(row, row.id), row.body, data, fields)
        text = encode(self.kind, row.id, new)
        self._write(connection, decode(self.kind, text), row.id, text)

    def _write(self, connection: sa.Connection, record: R, record_id: str, text: str) -> None:
        values = {name: getattr(record, name) for name in self.columns}
        statement = sa.update(self.table).where(self.table.c.id == record_id)
        connection.execute(statement.values(body=text, **values))
