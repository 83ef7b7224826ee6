"""Conversations, their messages, and the traces of their turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.messages.store import (
    ENHANCED_FIELDS,
    IMMUTABLE_FIELDS,
    DamagedRow,
    MessageStore,
    Page,
)

if TYPE_CHECKING:
    from jazzmine_dspy.memory.messages.sql import InMemoryMessageStore, SqlMessageStore

__all__ = [
    "ENHANCED_FIELDS",
    "IMMUTABLE_FIELDS",
    "DamagedRow",
    "InMemoryMessageStore",
    "MessageStore",
    "Page",
    "SqlMessageStore",
]


def __getattr__(name: str) -> Any:
    # SQLAlchemy takes 0.2 s to import, which a process with a store of its own does not need.
    if name not in ("InMemoryMessageStore", "SqlMessageStore"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jazzmine_dspy.memory.messages import sql

    return getattr(sql, name)
