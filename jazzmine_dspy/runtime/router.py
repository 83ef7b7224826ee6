"""Routing: a message is understood, unless an action runs (U1)."""

from __future__ import annotations

from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.turn import ConversationStatus, Turn
from jazzmine_dspy.runtime.outcome import MessageRoute


def is_queued(state: WorkingMemory) -> bool:
    """Whether a message that comes now has to wait."""
    return state.status is ConversationStatus.EXECUTING_ACTION


def route(state: WorkingMemory, turn: Turn | None = None) -> MessageRoute:
    """Where a message goes in this state.

    Args:
        state: The conversation before the message.
        turn: What understanding will read; not needed for the queue.

    Example:
        >>> route(WorkingMemory(conversation_id="c", user_id="u")).reason
        'process_in_state_idle'
    """
    if is_queued(state):
        return MessageRoute(type="queue", reason="action_in_progress")
    return MessageRoute(type="nlu_understanding", context=turn, reason=f"process_in_state_{state.status}")
