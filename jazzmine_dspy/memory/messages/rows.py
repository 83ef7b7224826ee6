"""The tables of conversations, messages and traces, and the records in their rows.

A record is stored whole in ``body``, as JSON; the other columns are those that queries need, so that a new field of a
model needs no new column. ``seq`` is the order of first storing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import UserDefinedType

from jazzmine_dspy.memory.errors import ConflictError, DamagedRecordError, NotStoredError
from jazzmine_dspy.memory.messages.store import IMMUTABLE_FIELDS, DamagedRow, Page
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.models.messages import Conversation, Message, TurnTrace

R = TypeVar("R", Conversation, Message, TurnTrace)

MAX_BYTES: dict[type, int] = {Conversation: 1_000_000, Message: 1_000_000, TurnTrace: 10_000_000}
"""Bytes of JSON that a record may have."""

_NOUNS: dict[type, str] = {Conversation: "conversation", Message: "message", TurnTrace: "trace"}
_IDENTITY: dict[type, tuple[str, ...]] = {
    Conversation: ("user_id",),
    Message: ("conversation_id", "role", "original_content"),
    TurnTrace: (),
}
"""Fields in which two records under one id must agree to be the same record."""

_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
"""NUL in JSON text: an escape sequence whose backslash is not itself escaped."""

_MORE = 500
"""Rows that a context reads at once after the first ones, where damaged rows leave it short."""


class RawJsonb(UserDefinedType[str]):
    """JSONB that is written and read as text, so that a damaged value does not break the query for its neighbours."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the type's name in PostgreSQL."""
        return "JSONB"

    def column_expression(self, column: Any) -> Any:
        """Read the column as text."""
        return sa.cast(column, sa.Text)


METADATA = sa.MetaData()


class RecordTable(Generic[R]):
    """The table of one kind of record.

    Args:
        kind: The records' model.
        name: The table's name, without its prefix.
        columns: Fields of the model that stand in columns too, with an index each.
    """

    def __init__(self, kind: type[R], name: str, *columns: str) -> None:
        self.kind: type[R] = kind
        self.columns = columns
        flag: list[Any] = [sa.Column("flagged", sa.Boolean, nullable=False)] if kind is Message else []
        self.table = sa.Table(
            f"jazzmine_{name}",
            METADATA,
            # SQLite numbers rows only under the type INTEGER.
            sa.Column(
                "seq",
                sa.BigInteger().with_variant(sa.Integer, "sqlite"),
                primary_key=True,
                autoincrement=True,
            ),
            sa.Column("id", sa.Text, nullable=False, unique=True),
            *(sa.Column(column, sa.Text, nullable=False) for column in columns),
            *flag,
            sa.Column("body", sa.Text().with_variant(RawJsonb(), "postgresql"), nullable=False),
            # Otherwise SQLite reuses the number of a deleted last row.
            sqlite_autoincrement=True,
        )
        self.c = self.table.c
        for column in columns:
            sa.Index(f"jazzmine_{name}_by_{column}", self.c[column], self.c.seq)

    def where(self, record_id: str) -> str:
        """Name a record in an error."""
        return f"{_NOUNS[self.kind]} {record_id!r}"

    # --- rows and records --------------------------------------------------------------------------------

    def row(self, record: R) -> dict[str, Any]:
        """Return a record as the columns of its row.

        Raises:
            InputError: the record is too large, or would not be readable.
        """
        try:
            data = record.model_dump(mode="json", exclude={"is_flagged"}, warnings="error")
            body = json.dumps(data, ensure_ascii=False, allow_nan=False)
            if "\\u0000" in body:  # JSONB refuses NUL
                body = _NUL.sub(r"\1", body)
            size = len(body.encode())
            self.kind.model_validate_json(body)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"The {_NOUNS[self.kind]} cannot be stored: {_summary(error)}",
                where=self.where(record.id),
                remedy="Correct it and store it again.",
            ) from error
        if size > MAX_BYTES[self.kind]:
            raise InputError(
                f"The {_NOUNS[self.kind]} has {size:,} bytes, and {MAX_BYTES[self.kind]:,} are allowed",
                where=self.where(record.id),
                remedy="Shorten it, or store the bulk elsewhere and a reference here.",
            )
        # Another package's message with the same fields is stored too.
        flag = {"flagged": getattr(record, "is_flagged", False)} if "flagged" in self.c else {}
        columns = {name: getattr(record, name) for name in self.columns}
        return {"id": record.id, **columns, **flag, "body": body}

    def record(self, row: sa.Row[Any]) -> R:
        """Return the record of a row.

        Raises:
            DamagedRecordError: the row cannot be read. The error's message is the cause, without any content.
        """
        try:
            record: R = self.kind.model_validate_json(row.body)
        except ValueError as error:
            raise DamagedRecordError(_summary(error)) from error
        for name in ("id", *self.columns):
            if getattr(record, name) != getattr(row, name):
                raise DamagedRecordError(f"{name} differs from the column")
        return (
            record.model_copy(update={"is_flagged": True}) if "flagged" in self.c and row.flagged else record
        )

    # --- reading -----------------------------------------------------------------------------------------

    def get(self, connection: sa.Connection, *where: Any, lock: bool = False) -> R | None:
        """Return the record that meets the conditions.

        Args:
            connection: A connection in a transaction.
            where: Conditions that one row meets at most.
            lock: Whether others may change the row only after this transaction.

        Raises:
            DamagedRecordError: it cannot be read.
        """
        query = sa.select(self.table).where(*where)
        if (row := connection.execute(query.with_for_update() if lock else query).one_or_none()) is None:
            return None
        try:
            return self.record(row)
        except DamagedRecordError as error:
            raise DamagedRecordError(
                f"The stored {_NOUNS[self.kind]} cannot be read: {error}",
                where=self.where(row.id),
                remedy="Repair or delete it.",
            ) from error

    def page(
        self,
        connection: sa.Connection,
        *where: Any,
        limit: int,
        offset: int = 0,
        newest: bool = False,
    ) -> Page[R]:
        """Return records that meet the conditions, in the order of first storing.

        Args:
            connection: A connection in a transaction.
            where: Conditions.
            limit: Rows to return at most.
            offset: Rows to skip.
            newest: Whether the last stored comes first.
        """
        query = (
            sa.select(self.table)
            .where(*where)
            .order_by(self.c.seq.desc() if newest else self.c.seq)
            .limit(limit + 1)
            .offset(offset)
        )
        rows = connection.execute(query).all()
        records: list[R] = []
        damaged: list[DamagedRow] = []
        for row in rows[:limit]:
            try:
                records.append(self.record(row))
            except DamagedRecordError as error:
                log.warning("%s cannot be read and is left out: %s", self.where(row.id), error)
                damaged.append(DamagedRow(row.id, str(error)))
        more = len(rows) > limit
        return Page(records, damaged=damaged, next_offset=offset + limit if more else None)

    def newest(self, connection: sa.Connection, *where: Any, n: int) -> Page[R]:
        """Return the last ``n`` readable records that meet the conditions, oldest first."""
        records: list[R] = []
        damaged: list[DamagedRow] = []
        offset, limit = 0, n
        while len(records) < n:
            page = self.page(connection, *where, limit=limit, offset=offset, newest=True)
            records += page
            damaged += page.damaged
            if page.next_offset is None:
                break
            offset, limit = page.next_offset, _MORE
        return Page(records[:n][::-1], damaged=damaged[::-1])

    # --- writing -----------------------------------------------------------------------------------------

    def add(self, connection: sa.Connection, record: R) -> None:
        """Insert a record unless it is stored already.

        Raises:
            ConflictError: another record is stored under its id.
        """
        row = self.row(record)
        while not insert(connection, self.table, row):
            if (stored := self.get(connection, self.c.id == record.id)) is None:
                continue  # another process has just deleted it
            clean = self.kind.model_validate_json(row["body"])
            if any(getattr(stored, name) != getattr(clean, name) for name in _IDENTITY[self.kind]):
                raise ConflictError(
                    f"The id belongs to another {_NOUNS[self.kind]}",
                    where=self.where(record.id),
                    remedy="Give it a new id.",
                )
            return

    def update(self, connection: sa.Connection, record: R, fields: Collection[str]) -> R:
        """Write some fields of a stored record, and return it.

        Args:
            connection: A connection in a transaction that writes.
            record: Holds the new values.
            fields: The fields to write.

        Raises:
            NotStoredError: no such record is stored.
        """
        if (stored := self.get(connection, self.c.id == record.id, lock=True)) is None:
            raise self.not_stored(record.id)
        changed = stored.model_copy(update={name: getattr(record, name) for name in fields})
        connection.execute(sa.update(self.table).where(self.c.id == record.id).values(**self.row(changed)))
        return changed

    def replace(self, connection: sa.Connection, record: R) -> None:
        """Insert a record, or write it over the stored one, even if that is damaged."""
        row = self.row(record)
        statement = _insert(connection, self.table).values(**row)
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=row))

    def writable(self, fields: Collection[str]) -> frozenset[str]:
        """Return the fields that an update writes.

        Raises:
            InputError: a field does not exist or cannot be changed.
        """
        chosen = frozenset([fields] if isinstance(fields, str) else fields)
        for name in sorted(chosen - (self.kind.model_fields.keys() - IMMUTABLE_FIELDS)):
            raise InputError(
                f"The field {name!r} of a {_NOUNS[self.kind]} cannot be changed",
                where="fields",
                remedy="Use flag_message." if name == "is_flagged" else "Name other fields.",
            )
        return chosen

    def not_stored(self, record_id: str) -> NotStoredError:
        """Return the error for a record that cannot be changed because it is not stored."""
        return NotStoredError(
            f"No such {_NOUNS[self.kind]}", where=self.where(record_id), remedy="Store it first."
        )


def insert(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> bool:
    """Insert a row unless its key is taken; return whether it was inserted."""
    statement = _insert(connection, table).on_conflict_do_nothing().returning(sa.literal(True))
    return connection.execute(statement, row).first() is not None


def _insert(connection: sa.Connection, table: sa.Table) -> Any:
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def _summary(error: Exception) -> str:
    """Name the first field at fault and the kind of fault; text deeper in the record may be a user's."""
    if not isinstance(error, ValidationError):
        return format_error(error)
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    return f"{first['loc'][0] if first['loc'] else 'the record'}: {first['type']}"


CONVERSATIONS = RecordTable(Conversation, "conversations", "user_id", "agent_id")
MESSAGES = RecordTable(Message, "messages", "conversation_id", "user_id")
TRACES = RecordTable(TurnTrace, "turn_traces", "conversation_id", "agent_id")
TRACE_LINKS = sa.Table(
    "jazzmine_trace_messages",
    METADATA,
    sa.Column("message_id", sa.Text, primary_key=True),
    sa.Column(
        "trace_id", sa.Text, sa.ForeignKey(TRACES.c.id, ondelete="CASCADE"), nullable=False, index=True
    ),
)
