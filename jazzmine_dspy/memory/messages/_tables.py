"""The tables of conversations, messages and traces.

A record stands whole in ``body``, as JSON; beside it only what queries look for, so that a new field of a model needs
no new column. ``seq`` is the order of first storing.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import UserDefinedType


class RawJsonb(UserDefinedType[str]):
    """JSONB that goes in and comes out as text, so that one reader of JSON serves every backend."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """The type's name in PostgreSQL."""
        return "JSONB"

    def column_expression(self, column: Any) -> Any:
        """Read it as text."""
        return sa.cast(column, sa.Text)


BODY = sa.Text().with_variant(RawJsonb(), "postgresql")

metadata = sa.MetaData()


# SQLite numbers rows itself under this type alone.
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _table(name: str, *columns: sa.Column[Any], find_by: tuple[str, ...]) -> sa.Table:
    table = sa.Table(
        f"jazzmine_{name}",
        metadata,
        sa.Column("seq", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        *columns,
        sa.Column("body", BODY, nullable=False),
        # Without it SQLite gives the number of a deleted last row again.
        sqlite_autoincrement=True,
    )
    for column in find_by:
        sa.Index(f"jazzmine_{name}_by_{column}", table.c[column], table.c.seq)
    return table


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=False)


conversations = _table("conversations", _text("user_id"), _text("agent_id"), find_by=("user_id", "agent_id"))
messages = _table(
    "messages",
    _text("conversation_id"),
    _text("user_id"),
    sa.Column("flagged", sa.Boolean, nullable=False),
    find_by=("conversation_id", "user_id"),
)
traces = _table(
    "turn_traces", _text("conversation_id"), _text("agent_id"), find_by=("conversation_id", "agent_id")
)
trace_messages = sa.Table(
    "jazzmine_trace_messages",
    metadata,
    sa.Column("message_id", sa.Text, primary_key=True),
    sa.Column(
        "trace_id", sa.Text, sa.ForeignKey(traces.c.id, ondelete="CASCADE"), nullable=False, index=True
    ),
)
