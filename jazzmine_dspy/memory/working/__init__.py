"""Working memory: what each conversation is in the middle of."""

from jazzmine_dspy.memory.working.enums import (
    TERMINAL,
    TRANSITIONS,
    FlowStatus,
    IllegalTransitionError,
    transition_table,
)
from jazzmine_dspy.memory.working.in_process import InMemoryWorkingMemoryStore
from jazzmine_dspy.memory.working.records import (
    ActiveFlow,
    FlowRecord,
    HandledMessage,
    HeldSlot,
    PendingConfirmation,
    QueuedMessage,
    RunningAction,
    WorkspaceEntity,
)
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import WorkingMemoryStore

__all__ = [
    "TERMINAL",
    "TRANSITIONS",
    "ActiveFlow",
    "FlowRecord",
    "FlowStatus",
    "HandledMessage",
    "HeldSlot",
    "IllegalTransitionError",
    "InMemoryWorkingMemoryStore",
    "PendingConfirmation",
    "QueuedMessage",
    "RunningAction",
    "WorkingMemory",
    "WorkingMemoryStore",
    "WorkspaceEntity",
    "transition_table",
]
