"""The tables, as statements see them; how they are made stands in the migrations.

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


def _table(name: str, *columns: sa.Column[Any]) -> sa.Table:
    first = [sa.Column("seq", sa.BigInteger, primary_key=True), _text("id")]
    return sa.Table(f"jazzmine_{name}", metadata, *first, *columns, sa.Column("body", BODY))


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text)


conversations = _table("conversations", _text("user_id"), _text("agent_id"))
messages = _table("messages", _text("conversation_id"), _text("user_id"), sa.Column("flagged", sa.Boolean))
traces = _table("turn_traces", _text("conversation_id"), _text("agent_id"))
trace_messages = sa.Table(
    "jazzmine_trace_messages",
    metadata,
    sa.Column("message_id", sa.Text, primary_key=True),
    sa.Column("trace_id", sa.Text),
)
