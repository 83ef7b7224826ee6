"""Conversations, their messages, and the traces of the turns that these belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.messages.in_process import InMemoryMessageStore
from jazzmine_dspy.memory.messages.page import Damaged, Page
from jazzmine_dspy.memory.messages.store import ENHANCED_FIELDS, OWN_FIELDS, MessageStore

if TYPE_CHECKING:
    from jazzmine_dspy.memory.messages.sql import SqlMessageStore

__all__ = [
    "ENHANCED_FIELDS",
    "OWN_FIELDS",
    "Damaged",
    "InMemoryMessageStore",
    "MessageStore",
    "Page",
    "SqlMessageStore",
]


def __getattr__(name: str) -> Any:
    if name != "SqlMessageStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from jazzmine_dspy.memory.messages.sql import SqlMessageStore
    except ImportError as error:
        from jazzmine_dspy.memory.messages._extra import missing_sql

        raise missing_sql(error) from error
    return SqlMessageStore
