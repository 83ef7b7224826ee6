"""What can go wrong between a message and its turn."""

from __future__ import annotations

from jazzmine_dspy.memory.errors import StateError


class QueueFullError(StateError):
    """Too many messages wait for the action to end; this one was not taken."""
