"""Flows coming and going: started, set aside, taken up, ended."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.memory.working.enums import FlowStatus
from jazzmine_dspy.memory.working.flow import ActiveFlowState
from jazzmine_dspy.memory.working.operations._lookup import (
    follow_slots,
    json_value,
    leave_action_alone,
    living,
    named,
    refused,
    running,
)
from jazzmine_dspy.memory.working.operations.slots import held_slots
from jazzmine_dspy.memory.working.operations.step import Operation
from jazzmine_dspy.memory.working.records import FlowRecord
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED, PAUSED_KEPT, WorkingMemory
from jazzmine_dspy.models.flows import Flow


@Operation
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
        >>> state = start_flow(start_flow(state, ActiveFlowState(flow_name="track")), ActiveFlowState(flow_name="pay"))
        >>> state.active_flow.flow_name, [flow.flow_name for flow in state.paused]
        ('pay', ['track'])
    """
    leave_action_alone(state)
    if isinstance(flow_state, Flow):
        flow = ActiveFlowState.from_flow(flow_state, agent_id=state.agent_id)
    else:
        flow = flow_state.model_copy(deep=True)
    name = flow.flow_name
    if any(other.flow_name == name for other in state.alive):
        raise refused(
            state,
            f"Flow {name!r} is {'running' if is_running(state, name) else 'paused'} already",
            "Go on with it or resume it; cancel it first if it is to begin anew.",
        )
    flow.become(FlowStatus.ACTIVE)
    held_slots(state, flow, [])
    flow.started_at_turn = state.turn_number
    flow.started_at = flow.started_at or now
    flow.ready, flow.deferred, flow.paused_at_turn = False, False, None
    set_running_aside(state)
    state.active_flow = flow
    follow_slots(state, flow)


@Operation.of_short_texts
def pause_flow(state: WorkingMemory) -> None:
    """Set the running flow aside with all that it holds.

    An open yes or no goes: it is asked anew once the flow is resumed. Eight flows may wait; of more, the
    oldest is cancelled and kept in the history.

    Raises:
        StateError: no flow is running, or an action is.
    """
    leave_action_alone(state)
    running(state)
    set_running_aside(state)


@Operation.of_short_texts
def resume_flow(state: WorkingMemory, name: str | None = None) -> None:
    """Take up the paused flow of that name, the newest where none is named; the one that runs is set aside.

    The others stay in their order. The flow collects slots if it lacks required ones, else it is active.

    Raises:
        StateError: no such flow is paused, it is running already, or an action is running.
    """
    leave_action_alone(state)
    found = next((flow for flow in reversed(state.paused) if name in (None, flow.flow_name)), None)
    if found is None:
        what = "No flow is paused" if name is None else f"No flow {name!r} is paused"
        if name is not None and is_running(state, name):
            what = f"Flow {name!r} is running already"
        raise refused(
            state, what, f"Paused are: {named([flow.flow_name for flow in reversed(state.paused)])}."
        )
    state.paused = [flow for flow in state.paused if flow is not found]
    set_running_aside(state)
    found.deferred, found.paused_at_turn = False, None
    state.active_flow = found
    found.become(FlowStatus.COLLECTING_SLOTS if found.wants_values else FlowStatus.ACTIVE)


@Operation
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
        >>> done = complete_flow(state, {"day": "Friday"})
        >>> done.active_flow, done.flow_history[0].status.value, done.flow_history[0].result
        (None, 'completed', {'day': 'Friday'})
    """
    leave_action_alone(state)
    end_flow(state, running(state), FlowStatus.COMPLETED, result=json_value(result, "result"))


@Operation.of_short_texts
def cancel_flow(state: WorkingMemory, name: str | None = None, reason: str = "") -> None:
    """End a flow that is not to go on: the one of that name, running or paused, else the running one.

    Raises:
        StateError: there is no such flow, or its action is running.
    """
    found = living(state, name)
    if found is state.active_flow:
        leave_action_alone(state)
    end_flow(state, found, FlowStatus.CANCELLED, reason=reason)


@Operation
def fail_flow(state: WorkingMemory, reason: str = "") -> None:
    """End the running flow: it came to nothing.

    Raises:
        StateError: no flow is running, or an action is, which ends with its flow in finish_action.
    """
    leave_action_alone(state)
    end_flow(state, running(state), FlowStatus.FAILED, reason=reason)


def is_running(state: WorkingMemory, name: str) -> bool:
    """Whether the flow of that name is the running one."""
    return state.active_flow is not None and state.active_flow.flow_name == name


def set_running_aside(state: WorkingMemory) -> None:
    """Put the running flow, if there is one, on the stack."""
    flow = state.active_flow
    state.pending_confirmation = None
    if flow is None:
        return
    flow.become(FlowStatus.PAUSED)
    flow.awaiting, flow.ready, flow.paused_at_turn = None, False, state.turn_number
    state.active_flow = None
    state.paused = [*state.paused, flow]
    limit_paused(state)


def limit_paused(state: WorkingMemory) -> None:
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
    record = state.archive(flow, status, result=result, reason=reason)
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
