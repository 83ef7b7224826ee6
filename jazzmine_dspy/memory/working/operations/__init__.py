"""The steps of working memory: each a function from a state to a new one.

``new = collect_slot(state, "order_id", "4471")`` leaves ``state`` as it is; an error changes nothing. The
operations with a result, :func:`confirm_action` and :func:`dequeue`, give ``(new, result)``. None of them reads a
clock, makes an id, or does input or output.
"""

from jazzmine_dspy.memory.working.operations.actions import begin_action, dequeue, enqueue, finish_action
from jazzmine_dspy.memory.working.operations.confirmation import (
    confirm_action,
    deny_action,
    request_confirmation,
)
from jazzmine_dspy.memory.working.operations.flows import (
    cancel_flow,
    complete_flow,
    fail_flow,
    pause_flow,
    resume_flow,
    start_flow,
)
from jazzmine_dspy.memory.working.operations.progress import (
    advance_sequential_step,
    record_branch_result,
    record_tool_call,
    set_condition_branch,
)
from jazzmine_dspy.memory.working.operations.slots import (
    clear_slot,
    collect_slot,
    correct_slot,
    register_slots,
)
from jazzmine_dspy.memory.working.operations.step import Answering, Operation, Step
from jazzmine_dspy.memory.working.operations.turns import begin_turn, end_turn

__all__ = [
    "Answering",
    "Operation",
    "Step",
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
