"""How far a flow of several parts is, and the tools called on the way."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working.flow import ActiveFlowState
from jazzmine_dspy.memory.working.operations._lookup import json_value, named, refused, running
from jazzmine_dspy.memory.working.operations.step import Operation
from jazzmine_dspy.memory.working.records import ToolCallRecord
from jazzmine_dspy.memory.working.state import TOOL_CALLS_KEPT, WorkingMemory, cut
from jazzmine_dspy.models.errors import InputError


@Operation
def advance_sequential_step(state: WorkingMemory, step_result: Any = None) -> None:
    """Note what the current step of the running sequential flow gave, and go to the next.

    Raises:
        StateError: no sequential flow is running, or all its steps are done.
        InputError: ``step_result`` is not JSON.

    Example:
        >>> flow = ActiveFlowState(flow_name="move", flow_type="sequential", total_steps=2)
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=flow)
        >>> state = advance_sequential_step(advance_sequential_step(state, "packed"), "sent")
        >>> state.active_flow.step_results, state.active_flow.is_complete
        (['packed', 'sent'], True)
    """
    flow = _of_kind(state, "sequential")
    if flow.current_step >= flow.total_steps:
        raise refused(
            state,
            f"All {flow.total_steps} steps are done",
            "End the flow with complete_flow.",
            flow=flow.flow_name,
        )
    flow.step_results = [*flow.step_results, json_value(step_result, "step_result")]
    flow.current_step += 1


@Operation
def record_branch_result(state: WorkingMemory, branch_id: str, result: Any) -> None:
    """Note what a branch of the running flow gave: any of a parallel flow, the chosen one of a conditional.

    Args:
        result: A JSON value; 0, False and "" are results, None stands for a branch that is not done.

    Raises:
        StateError: the flow has no branches, no such one, or it is done already; of a conditional flow, it was
            not chosen.
        InputError: ``result`` is None, or not JSON.
    """
    flow = _of_kind(state, "parallel", "conditional")
    where = f"branch {branch_id!r}"
    if result is None:
        raise InputError(
            "None stands for a branch that is not done",
            where=where,
            remedy="Pass True, or an empty mapping, where there is nothing else to keep.",
        )
    if flow.flow_type == "conditional":
        if flow.condition_branch_taken != branch_id:
            raise refused(
                state,
                f"Branch {branch_id!r} was not chosen",
                f"Chosen is: {flow.condition_branch_taken or 'none; call set_condition_branch first'}.",
                flow=flow.flow_name,
            )
    else:
        _known_branch(state, flow, branch_id)
    if flow.branch_results.get(branch_id) is not None:
        raise refused(
            state, f"Branch {branch_id!r} is done already", "Its result stays as it is.", flow=flow.flow_name
        )
    flow.branch_results = {**flow.branch_results, branch_id: json_value(result, where)}


@Operation.of_short_texts
def set_condition_branch(state: WorkingMemory, branch: str) -> None:
    """Choose the branch of the running conditional flow.

    Raises:
        StateError: no conditional flow is running, it has no such branch, or one is chosen already.
    """
    flow = _of_kind(state, "conditional")
    if flow.branch_results or not branch:
        _known_branch(state, flow, branch)
    if flow.condition_branch_taken is not None:
        raise refused(
            state,
            f"Branch {flow.condition_branch_taken!r} is chosen already",
            "Cancel the flow and start it again for another one.",
            flow=flow.flow_name,
        )
    flow.condition_branch_taken = branch


@Operation
def record_tool_call(state: WorkingMemory, record: ToolCallRecord, *, now: float = 0.0) -> None:
    """Note a tool call, in the turn and in the running flow.

    Its turn and its number in the turn are the conversation's; of a sequential flow so is its step, where
    none is given. The last fifty of a turn and of a flow are kept.

    Args:
        now: Unix time in seconds, where the record has none.

    Raises:
        StateError: no turn has begun and no flow is running, so that it belongs nowhere.
        InputError: arguments or result are not JSON.

    Example:
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=ActiveFlowState(flow_name="f"))
        >>> for tool in ("stock", "price"):
        ...     state = record_tool_call(state, ToolCallRecord(tool_name=tool))
        >>> [call.call_index for call in state.active_flow.tool_call_history]
        [0, 1]
    """
    flow, turn = state.active_flow, state.current_turn
    if flow is None and turn is None:
        raise refused(
            state,
            "No turn has begun and no flow is running",
            "Call begin_turn when the message comes, or start_flow.",
        )
    call = record.model_copy(deep=True)
    # A model checks what is assigned to it, not what is changed inside.
    call.arguments = json_value(call.arguments, f"arguments of tool {call.tool_name!r}")
    call.result = json_value(call.result, f"result of tool {call.tool_name!r}")
    known = [*(turn.tool_calls if turn else []), *(flow.tool_call_history if flow else [])]
    indices = [one.call_index for one in known if one.turn_number == state.turn_number]
    call.turn_number, call.call_index = state.turn_number, max(indices, default=-1) + 1
    call.called_at = call.called_at or now
    if flow is not None:
        call.step = flow.step if call.step is None else call.step
        flow.tool_call_history = [*flow.tool_call_history, call]
        flow.tool_calls_dropped += cut(flow.tool_call_history, TOOL_CALLS_KEPT)
    if turn is not None:
        turn.tool_calls = [*turn.tool_calls, call.model_copy(deep=True)]
        turn.tool_calls_dropped += cut(turn.tool_calls, TOOL_CALLS_KEPT)


def _of_kind(state: WorkingMemory, *kinds: str) -> ActiveFlowState:
    flow = running(state)
    if flow.flow_type not in kinds:
        raise refused(
            state,
            f"The flow is of kind {flow.flow_type!r}, not {' or '.join(kinds)}",
            "Start it from its definition, or with its flow_type.",
            flow=flow.flow_name,
        )
    return flow


def _known_branch(state: WorkingMemory, flow: ActiveFlowState, branch: str) -> None:
    if branch not in flow.branch_results:
        raise _unknown_branch(state, flow, branch)


def _unknown_branch(state: WorkingMemory, flow: ActiveFlowState, branch: str) -> StateError:
    return refused(
        state,
        f"The flow has no branch {branch!r}",
        f"Its branches are: {named(list(flow.branch_results))}.",
        flow=flow.flow_name,
    )
