"""Working memory: what each conversation is in the middle of."""

from jazzmine_dspy.memory.working.enums import (
    TERMINAL,
    TRANSITIONS,
    FlowStatus,
    IllegalTransitionError,
    transition_table,
)
from jazzmine_dspy.memory.working.flow import ActiveFlowState, TurnCache
from jazzmine_dspy.memory.working.in_process import InMemoryWorkingMemoryStore
from jazzmine_dspy.memory.working.records import (
    FlowRecord,
    HandledMessage,
    HeldSlot,
    PendingConfirmation,
    QueuedMessage,
    RunningAction,
    ToolCallRecord,
    TopicShift,
    WorkspaceEntity,
)
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import WorkingMemoryStore

__all__ = [
    "TERMINAL",
    "TRANSITIONS",
    "ActiveFlowState",
    "FlowRecord",
    "FlowStatus",
    "HandledMessage",
    "HeldSlot",
    "IllegalTransitionError",
    "InMemoryWorkingMemoryStore",
    "PendingConfirmation",
    "QueuedMessage",
    "RunningAction",
    "ToolCallRecord",
    "TopicShift",
    "TurnCache",
    "WorkingMemory",
    "WorkingMemoryStore",
    "WorkspaceEntity",
    "transition_table",
]
