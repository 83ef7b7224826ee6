"""Flows: started, paused, resumed, ended; and how far a flow of several parts is."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.memory.working.flow import ActiveFlowState
from jazzmine_dspy.memory.working.operations.slots import (
    add_slots,
    find_flow,
    join_names,
    json_value,
    require,
    require_active_flow,
    require_no_action,
    update_status,
)
from jazzmine_dspy.memory.working.records import FlowRecord, FlowStatus
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED, PAUSED_KEPT, WorkingMemory
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.flows import Flow


def start_flow(state: WorkingMemory, flow_state: ActiveFlowState | Flow, *, now: float = 0.0) -> None:
    """Start a flow; the one that runs is set aside with its slots.

    It collects slots if it has required ones without a value, else it is active. A flow stands on the stack
    once: what runs or waits already is resumed, or cancelled first, and never started over.

    Args:
        flow_state: The flow's beginning, or its definition. Its turn is the conversation's.
        now: Unix time in seconds.

    Raises:
        StateError: the flow runs or is paused already, has too many slots, or an action is running.
        IllegalTransitionError: ``flow_state`` has ended.

    Example:
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1")
        >>> start_flow(state, ActiveFlowState(flow_name="track"))
        >>> start_flow(state, ActiveFlowState(flow_name="pay"))
        >>> state.active_flow.flow_name, [flow.flow_name for flow in state.paused]
        ('pay', ['track'])
    """
    require_no_action(state)
    flow = (
        ActiveFlowState.from_flow(flow_state, agent_id=state.agent_id)
        if isinstance(flow_state, Flow)
        else flow_state.model_copy(deep=True)
    )
    name = flow.flow_name
    require(
        state,
        all(other.flow_name != name for other in state.open_flows),
        f"Flow {name!r} is {'running' if _is_active(state, name) else 'paused'} already",
        "Continue or resume it. To start it again, cancel it first.",
    )
    flow.transition_to(FlowStatus.ACTIVE)
    add_slots(state, flow, [])
    flow.started_at_turn = state.turn_number
    flow.started_at = flow.started_at or now
    flow.ready, flow.deferred, flow.paused_at_turn = False, False, None
    pause_active_flow(state)
    state.active_flow = flow
    update_status(state, flow)


def pause_flow(state: WorkingMemory) -> None:
    """Set the running flow aside with all that it holds.

    An open yes or no goes: it is asked anew once the flow is resumed. Eight flows may wait; of more, the
    oldest is cancelled and kept in the history.

    Raises:
        StateError: no flow is running, or an action is.
    """
    require_no_action(state)
    require_active_flow(state)
    pause_active_flow(state)


def resume_flow(state: WorkingMemory, name: str | None = None) -> None:
    """Take up the paused flow of that name, the newest where none is named; the one that runs is set aside.

    The others stay in their order. The flow collects slots if it lacks required ones, else it is active.

    Raises:
        StateError: no such flow is paused, it is running already, or an action is running.
    """
    require_no_action(state)
    found = next((flow for flow in reversed(state.paused) if name in (None, flow.flow_name)), None)
    what = "No flow is paused" if name is None else f"No flow {name!r} is paused"
    if name is not None and _is_active(state, name):
        what = f"Flow {name!r} is running already"
    paused = join_names(flow.flow_name for flow in reversed(state.paused))
    found = require(state, found, what, f"Paused are: {paused}.")
    state.paused = [flow for flow in state.paused if flow is not found]
    pause_active_flow(state)
    found.deferred, found.paused_at_turn = False, None
    state.active_flow = found
    found.transition_to(FlowStatus.COLLECTING_SLOTS if found.needs_values else FlowStatus.ACTIVE)


def complete_flow(state: WorkingMemory, result: Any = None) -> None:
    """End the running flow: it has done its work.

    Args:
        result: What it gave, as JSON values; kept in its record.

    Raises:
        StateError: no flow is running, or an action is, which ends with its flow in finish_action.
        IllegalTransitionError: slots are missing, or a yes or no is open.
        InputError: ``result`` is not JSON.

    Example:
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=ActiveFlowState(flow_name="track"))
        >>> complete_flow(state, {"day": "Friday"})
        >>> state.active_flow, state.flow_history[0].status.value, state.flow_history[0].result
        (None, 'completed', {'day': 'Friday'})
    """
    require_no_action(state)
    end_flow(state, require_active_flow(state), FlowStatus.COMPLETED, result=json_value(result, "result"))


def cancel_flow(state: WorkingMemory, name: str | None = None, reason: str = "") -> None:
    """End a flow that is not to go on: the one of that name, running or paused, else the running one.

    Raises:
        StateError: there is no such flow, or its action is running.
    """
    if (found := find_flow(state, name)) is state.active_flow:
        require_no_action(state)
    end_flow(state, found, FlowStatus.CANCELLED, reason=reason)


def fail_flow(state: WorkingMemory, reason: str = "") -> None:
    """End the running flow: it came to nothing.

    Raises:
        StateError: no flow is running, or an action is, which ends with its flow in finish_action.
    """
    require_no_action(state)
    end_flow(state, require_active_flow(state), FlowStatus.FAILED, reason=reason)


def _is_active(state: WorkingMemory, name: str) -> bool:
    return state.active_flow is not None and state.active_flow.flow_name == name


def pause_active_flow(state: WorkingMemory) -> None:
    """Put the running flow, if there is one, on the stack."""
    flow = state.active_flow
    state.pending_confirmation = None
    if flow is None:
        return
    flow.transition_to(FlowStatus.PAUSED)
    flow.awaiting, flow.ready, flow.paused_at_turn = None, False, state.turn_number
    state.active_flow = None
    state.paused = [*state.paused, flow]
    cancel_oldest_paused(state)


def cancel_oldest_paused(state: WorkingMemory) -> None:
    """Cancel the oldest of the flows set aside while there are too many."""
    while len(state.paused) > PAUSED_KEPT:
        end_flow(state, state.paused[0], FlowStatus.CANCELLED, reason="too many flows were waiting")


def end_flow(
    state: WorkingMemory,
    flow: ActiveFlowState,
    status: FlowStatus,
    *,
    result: object = None,
    reason: str = "",
) -> FlowRecord:
    """Let a flow of the state end, whether it runs or waits; what hung on it goes with it."""
    record = state.archive_flow(flow, status, result=result, reason=reason)
    if flow is state.active_flow:
        state.active_flow = None
        state.pending_confirmation = None
    else:
        state.paused = [waiting for waiting in state.paused if waiting is not flow]
    # A person is still needed for a flow that failed, for one given up or done no longer.
    given_up = any(slot.attempts >= ATTEMPTS_ALLOWED for slot in flow.slots.values())
    if given_up and status is not FlowStatus.FAILED:
        state.escalation = ""
    return record


def advance_sequential_step(state: WorkingMemory, step_result: Any = None) -> None:
    """Note what the current step of the running sequential flow gave, and go to the next.

    Raises:
        StateError: no sequential flow is running, or all its steps are done.
        InputError: ``step_result`` is not JSON.

    Example:
        >>> flow = ActiveFlowState(flow_name="move", flow_type="sequential", total_steps=2)
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=flow)
        >>> advance_sequential_step(state, "packed")
        >>> advance_sequential_step(state, "sent")
        >>> state.active_flow.step_results, state.active_flow.is_complete
        (['packed', 'sent'], True)
    """
    flow = _of_kind(state, "sequential")
    require(
        state,
        flow.current_step < flow.total_steps,
        f"All {flow.total_steps} steps are done",
        "End the flow with complete_flow.",
        flow=flow.flow_name,
    )
    flow.step_results = [*flow.step_results, json_value(step_result, "step_result")]
    flow.current_step += 1


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
        require(
            state,
            flow.condition_branch_taken == branch_id,
            f"Branch {branch_id!r} was not chosen",
            f"Chosen is: {flow.condition_branch_taken or 'none; call set_condition_branch first'}.",
            flow=flow.flow_name,
        )
    else:
        _require_branch(state, flow, branch_id)
    require(
        state,
        flow.branch_results.get(branch_id) is None,
        f"Branch {branch_id!r} is done already",
        "Its result stays as it is.",
        flow=flow.flow_name,
    )
    flow.branch_results = {**flow.branch_results, branch_id: json_value(result, where)}


def set_condition_branch(state: WorkingMemory, branch: str) -> None:
    """Choose the branch of the running conditional flow.

    Raises:
        StateError: no conditional flow is running, it has no such branch, or one is chosen already.
    """
    flow = _of_kind(state, "conditional")
    if flow.branch_results or not branch:
        _require_branch(state, flow, branch)
    require(
        state,
        flow.condition_branch_taken is None,
        f"Branch {flow.condition_branch_taken!r} is chosen already",
        "Cancel the flow and start it again for another one.",
        flow=flow.flow_name,
    )
    flow.condition_branch_taken = branch


def _of_kind(state: WorkingMemory, *kinds: str) -> ActiveFlowState:
    flow = require_active_flow(state)
    require(
        state,
        flow.flow_type in kinds,
        f"The flow is of kind {flow.flow_type!r}, not {' or '.join(kinds)}",
        "Start it from its definition, or with its flow_type.",
        flow=flow.flow_name,
    )
    return flow


def _require_branch(state: WorkingMemory, flow: ActiveFlowState, branch: str) -> None:
    require(
        state,
        branch in flow.branch_results,
        f"The flow has no branch {branch!r}",
        f"Its branches are: {join_names(flow.branch_results)}.",
        flow=flow.flow_name,
    )
