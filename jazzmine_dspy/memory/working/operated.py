"""The operations of a store: each a step of the state machine, in one turn and one write."""

from __future__ import annotations

from jazzmine_dspy.memory.working.base import RecordStore


class WorkingMemoryOperations(RecordStore):
    """A record store with the operations of working memory."""
