"""The tables of conversations, messages and traces."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    # SQLite numbers rows itself under this type alone.
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    body = sa.Text().with_variant(JSONB, "postgresql")

    def records(name: str, *columns: sa.Column[Any], find_by: tuple[str, ...]) -> None:
        op.create_table(
            name,
            sa.Column("seq", number, primary_key=True, autoincrement=True),
            sa.Column("id", sa.Text, nullable=False, unique=True),
            *columns,
            sa.Column("body", body, nullable=False),
            # Without it SQLite gives the number of a deleted last row again.
            sqlite_autoincrement=True,
        )
        for column in find_by:
            op.create_index(f"{name}_by_{column}", name, [column, "seq"])

    def text(name: str) -> sa.Column[Any]:
        return sa.Column(name, sa.Text, nullable=False)

    records("jazzmine_conversations", text("user_id"), text("agent_id"), find_by=("user_id", "agent_id"))
    records(
        "jazzmine_messages",
        text("conversation_id"),
        text("user_id"),
        sa.Column("flagged", sa.Boolean, nullable=False),
        find_by=("conversation_id", "user_id"),
    )
    records(
        "jazzmine_turn_traces",
        text("conversation_id"),
        text("agent_id"),
        find_by=("conversation_id", "agent_id"),
    )
    trace = sa.ForeignKey("jazzmine_turn_traces.id", ondelete="CASCADE")
    op.create_table(
        "jazzmine_trace_messages",
        sa.Column("message_id", sa.Text, primary_key=True),
        sa.Column("trace_id", sa.Text, trace, nullable=False, index=True),
    )
