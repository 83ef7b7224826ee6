"""The errors that every backend raises alike."""

from __future__ import annotations

from jazzmine_dspy.memory.errors import NotStoredError, StaleStateError, StateError, TurnLostError


def stale(conversation_id: str, found: int | None, expected: int) -> StaleStateError:
    """The error for a write over another version than was read."""
    what = "is gone" if found is None else f"is at version {found}, not {expected}"
    return StaleStateError(
        f"The state {what}",
        where=f"conversation {conversation_id!r}",
        remedy="Read it again and repeat the turn.",
    )


def turn_lost(conversation_id: str) -> TurnLostError:
    """The error for a write by a turn after which another one has begun."""
    return TurnLostError(
        "The turn lasted longer than its lease, and another one has begun",
        where=f"conversation {conversation_id!r}",
        remedy="Repeat the turn; if it lasts, raise the lease or look for what blocks the event loop.",
    )


def not_aside(conversation_id: str, aside_id: str) -> NotStoredError:
    """The error for an id that no record was set aside under."""
    return NotStoredError(
        f"No record was set aside under {aside_id!r}",
        where=f"conversation {conversation_id!r}",
        remedy="List them with `jazzmine-dspy memory quarantine`.",
    )


def in_its_place(conversation_id: str) -> StateError:
    """The error for a record that cannot come back since another one is there."""
    return StateError(
        "The conversation has gone on",
        where=f"conversation {conversation_id!r}",
        remedy="Set its record aside first, then restore the other.",
    )
