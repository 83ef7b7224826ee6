"""What every store refuses, in the same words."""

from __future__ import annotations

import logging
from collections.abc import Collection

from jazzmine_dspy.memory.errors import ConflictError, DamagedRecordError, NotStoredError
from jazzmine_dspy.memory.messages.page import Damaged
from jazzmine_dspy.memory.messages.store import OWN_FIELDS
from jazzmine_dspy.models.base import Record
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.models.traces import TurnTrace

logger = logging.getLogger(__name__)

LONGEST_ID = 512
LARGEST_PAGE = 10_000

NOUNS: dict[type[Record], str] = {Conversation: "conversation", Message: "message", TurnTrace: "trace"}


def named(kind: type[Record], record_id: str) -> str:
    """How an error says which record it is about."""
    return f"{NOUNS[kind]} {record_id!r}"


def check_ids(**ids: str | None) -> None:
    """Let only ids pass that every database can keep in an index.

    Raises:
        InputError: one is no text, too long, or holds NUL or half a surrogate pair.
    """
    for name, value in ids.items():
        if value is None:
            continue
        if not isinstance(value, str):
            raise InputError(
                "An id must be a text", where=f"{name} is {type(value).__name__}", remedy="Pass a str."
            )
        if len(value) > LONGEST_ID:
            raise InputError(
                f"An id has {len(value):,} characters",
                where=f"{name} {value[:40]!r}…",
                remedy=f"Use {LONGEST_ID} at most.",
            )
        try:
            value.encode()
        except UnicodeEncodeError:
            fault = "half a surrogate pair"
        else:
            fault = "a NUL character" if "\0" in value else ""
        if fault:
            raise InputError(f"An id holds {fault}", where=f"{name} {value!r}", remedy="Take it out.")


def check_conversation(conversation: Conversation) -> None:
    """Check the ids in a conversation."""
    check_ids(id=conversation.id, user_id=conversation.user_id, agent_id=conversation.agent_id)


def check_message(message: Message) -> None:
    """Check the ids in a message."""
    check_ids(id=message.id, conversation_id=message.conversation_id, user_id=message.user_id)


def check_trace(trace: TurnTrace) -> None:
    """Check the ids in a trace."""
    check_ids(
        id=trace.id,
        message_id=trace.message_id,
        conversation_id=trace.conversation_id,
        agent_id=trace.agent_id,
    )


def check_range(limit: int, offset: int = 0, *, name: str = "limit") -> None:
    """Let only pages pass that can be given.

    Raises:
        InputError: one is negative, or the page too large.
    """
    if not 0 <= limit <= LARGEST_PAGE:
        raise InputError(f"{name} is {limit}", where=name, remedy=f"Ask for 0 to {LARGEST_PAGE:,} records.")
    if not 0 <= offset < 2**63:
        raise InputError(f"offset is {offset}", where="offset", remedy="Begin at 0 or later.")


def check_fields(fields: Collection[str]) -> frozenset[str]:
    """The fields of a message to write.

    Raises:
        InputError: one does not exist or cannot be written.
    """
    chosen = frozenset([fields] if isinstance(fields, str) else fields)
    for name in sorted(chosen - Message.model_fields.keys()):
        raise InputError(f"A message has no field {name!r}", where="fields", remedy="Correct the name.")
    for name in sorted(chosen & OWN_FIELDS):
        remedy = "Use flag_message." if name == "is_flagged" else "Store a new message instead."
        raise InputError(f"The field {name!r} of a message cannot be changed", where="fields", remedy=remedy)
    return chosen


SAME: dict[type[Record], tuple[str, ...]] = {
    Message: ("conversation_id", "role", "original_content"),
    Conversation: ("user_id",),
    TurnTrace: (),
}
"""Fields in which two records under one id must agree to be the same thing."""


def check_same(kept: Record, given: Record, record_id: str) -> None:
    """Let a record pass that is the one kept.

    Raises:
        ConflictError: it is another one.
    """
    kind = type(given)
    if any(getattr(kept, name) != getattr(given, name) for name in SAME[kind]):
        raise ConflictError(
            f"The id belongs to another {NOUNS[kind]}",
            where=named(kind, record_id),
            remedy="Give it a new id.",
        )


def not_stored(kind: type[Record], record_id: str) -> NotStoredError:
    """The error for a record that is not there to be changed."""
    return NotStoredError(f"No such {NOUNS[kind]}", where=named(kind, record_id), remedy="Store it first.")


def damaged(kind: type[Record], record_id: str, cause: str) -> DamagedRecordError:
    """The error for a record that cannot be read, asked for by its id."""
    remedy = "Repair it in the store, or delete it."
    if kind is TurnTrace:
        remedy = "Store the trace again, repair it in the store, or delete its message."
    return DamagedRecordError(
        f"The stored {NOUNS[kind]} cannot be read: {cause}", where=named(kind, record_id), remedy=remedy
    )


def left_out(kind: type[Record], record_id: str, cause: str) -> Damaged:
    """Report a record that is left out of a list."""
    logger.warning("A stored %s cannot be read and is left out: %s", named(kind, record_id), cause)
    return Damaged(record_id, cause)


def second_trace(message_id: str) -> ConflictError:
    """The error for a second trace of one message."""
    return ConflictError(
        "The message already has a trace",
        where=f"message {message_id!r}",
        remedy="Store the changed trace under its own id.",
    )
