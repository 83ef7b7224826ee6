"""Working memory: what each conversation is in the middle of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.working.flow import ActiveFlowState, TurnCache
from jazzmine_dspy.memory.working.in_memory import InMemoryWorkingMemoryStore
from jazzmine_dspy.memory.working.prompt import build_prompt_sections
from jazzmine_dspy.memory.working.records import (
    TERMINAL,
    TRANSITIONS,
    ActionResult,
    FlowRecord,
    FlowStatus,
    IllegalTransitionError,
    PendingConfirmation,
    PendingEvent,
    ProcessedMessage,
    QueuedMessage,
    RunningAction,
    SlotState,
    ToolCallRecord,
    TopicShift,
    WorkspaceEntity,
    transition_table,
)
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import Presence, QuarantineEntry, WorkingMemoryStore

if TYPE_CHECKING:
    from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore

__all__ = [
    "TERMINAL",
    "TRANSITIONS",
    "ActionResult",
    "ActiveFlowState",
    "FlowRecord",
    "FlowStatus",
    "IllegalTransitionError",
    "InMemoryWorkingMemoryStore",
    "PendingConfirmation",
    "PendingEvent",
    "Presence",
    "ProcessedMessage",
    "QuarantineEntry",
    "QueuedMessage",
    "RedisWorkingMemoryStore",
    "RunningAction",
    "SlotState",
    "ToolCallRecord",
    "TopicShift",
    "TurnCache",
    "WorkingMemory",
    "WorkingMemoryStore",
    "WorkspaceEntity",
    "build_prompt_sections",
    "transition_table",
]


def __getattr__(name: str) -> Any:
    # Redis's client is imported by those only who ask for it.
    if name == "RedisWorkingMemoryStore":
        from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore

        return RedisWorkingMemoryStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
