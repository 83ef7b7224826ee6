"""The operations of working memory: plain functions that change a state in place.

An error may leave the state half changed: work on a copy, as a store does, which stores nothing then. No operation
reads a clock, makes an id, or does input or output; ``now`` is Unix time in seconds.
"""

from jazzmine_dspy.memory.working.operations.flows import (
    advance_sequential_step,
    cancel_flow,
    complete_flow,
    fail_flow,
    pause_flow,
    record_branch_result,
    resume_flow,
    set_condition_branch,
    start_flow,
)
from jazzmine_dspy.memory.working.operations.slots import (
    clear_slot,
    collect_slot,
    correct_slot,
    register_slots,
)
from jazzmine_dspy.memory.working.operations.turns import (
    begin_action,
    begin_turn,
    confirm_action,
    deny_action,
    dequeue,
    end_turn,
    enqueue,
    finish_action,
    record_tool_call,
    request_confirmation,
)

__all__ = [
    "advance_sequential_step",
    "begin_action",
    "begin_turn",
    "cancel_flow",
    "clear_slot",
    "collect_slot",
    "complete_flow",
    "confirm_action",
    "correct_slot",
    "deny_action",
    "dequeue",
    "end_turn",
    "enqueue",
    "fail_flow",
    "finish_action",
    "pause_flow",
    "record_branch_result",
    "record_tool_call",
    "register_slots",
    "request_confirmation",
    "resume_flow",
    "set_condition_branch",
    "start_flow",
]
