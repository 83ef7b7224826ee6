"""The life of a flow, and the steps in it that are legal (W1)."""

from __future__ import annotations

from enum import StrEnum

from jazzmine_dspy.memory.errors import StateError


class FlowStatus(StrEnum):
    """Where a flow stands. The last three are final."""

    ACTIVE = "active"
    COLLECTING_SLOTS = "collecting_slots"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


_ACTIVE, _SLOTS, _CONFIRM, _PAUSED, _COMPLETED, _CANCELLED, _FAILED = FlowStatus
_ENDS = frozenset({_CANCELLED, _FAILED})

TRANSITIONS: dict[FlowStatus, frozenset[FlowStatus]] = {
    _ACTIVE: _ENDS | {_SLOTS, _CONFIRM, _PAUSED, _COMPLETED},
    _SLOTS: _ENDS | {_ACTIVE, _CONFIRM, _PAUSED},
    _CONFIRM: _ENDS | {_ACTIVE, _SLOTS, _PAUSED},
    _PAUSED: _ENDS | {_ACTIVE, _SLOTS, _CONFIRM},
    _COMPLETED: frozenset(),
    _CANCELLED: frozenset(),
    _FAILED: frozenset(),
}
"""From each status those that may follow. A flow completes from ``active`` alone: filled and confirmed."""

TERMINAL = frozenset(status for status, following in TRANSITIONS.items() if not following)
"""The final statuses."""


class IllegalTransitionError(StateError):
    """A flow cannot go from its status to that one."""


def check_transition(old: FlowStatus, new: FlowStatus, *, flow: str = "") -> None:
    """Let a legal step pass; staying where one is always is.

    Raises:
        IllegalTransitionError: the step is not in :data:`TRANSITIONS`.
    """
    if new is old or new in TRANSITIONS[old]:
        return
    legal = (
        ", ".join(status for status in FlowStatus if status in TRANSITIONS[old]) or "nothing: it has ended"
    )
    raise IllegalTransitionError(
        f"A flow that is {old} cannot become {new}",
        where=f"flow {flow!r}" if flow else "",
        remedy=f"Possible: {legal}.",
    )


def transition_table() -> str:
    """The legal steps as text, a status a line.

    Example:
        >>> print(transition_table().splitlines()[1])
        collecting_slots       -> active, awaiting_confirmation, paused, cancelled, failed
    """
    rows = []
    for old in FlowStatus:
        following = ", ".join(new for new in FlowStatus if new in TRANSITIONS[old])
        rows.append(f"{old:<22} -> {following or '(ended)'}")
    return "\n".join(rows)
