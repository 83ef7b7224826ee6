"""Flows coming and going: started, set aside, taken up, ended. Each function changes the given state."""

from __future__ import annotations

from collections.abc import Mapping

from jazzmine_dspy.memory.working.enums import FlowStatus
from jazzmine_dspy.memory.working import ActiveFlowState, FlowRecord
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.runtime.texts import say

PAUSED_KEPT = 8
"""Flows that may wait at a time; beyond that the oldest is cancelled, and kept among those ended."""


def pause(state: WorkingMemory) -> None:
    """Set the running flow aside with all that it holds."""
    running = state.active_flow
    state.pending_confirmation = None
    if running is None:
        return
    running.become(FlowStatus.PAUSED)
    running.awaiting = None
    state.active_flow = None
    state.paused.append(running)
    _limit(state)


def start(state: WorkingMemory, name: str) -> ActiveFlowState:
    """Start a flow, setting the running one aside."""
    pause(state)
    state.active_flow = ActiveFlowState(flow_name=name, started_at_turn=state.turn_number)
    return state.active_flow


def defer(state: WorkingMemory, name: str, position: int) -> ActiveFlowState:
    """Keep a flow that is wanted after the one now running."""
    waiting = ActiveFlowState(
        flow_name=name, status=FlowStatus.PAUSED, started_at_turn=state.turn_number, deferred=True
    )
    state.paused.insert(min(position, len(state.paused)), waiting)
    _limit(state)
    return waiting


def resume(state: WorkingMemory, name: str | None) -> bool:
    """Take up a flow that was set aside, the newest where none is named; the others stay in their order."""
    found = find_paused(state, name)
    if found is None:
        return False
    state.paused.remove(found)
    pause(state)
    found.become(FlowStatus.ACTIVE)
    found.deferred = False
    state.active_flow = found
    return True


def find_paused(state: WorkingMemory, name: str | None) -> ActiveFlowState | None:
    """The newest flow set aside, or the newest of that name."""
    return next((flow for flow in reversed(state.paused) if name in (None, flow.flow_name)), None)


def end(
    state: WorkingMemory,
    flow: ActiveFlowState,
    status: FlowStatus,
    *,
    result: object = None,
    reason: str = "",
) -> FlowRecord:
    """Let a flow end, whether it runs or waits."""
    record = state.archive(flow, status, result=result, reason=reason)
    if flow is state.active_flow:
        state.active_flow = None
        state.pending_confirmation = None
    else:
        state.paused = [waiting for waiting in state.paused if waiting is not flow]
    return record


def next_in_line(state: WorkingMemory, registry: Mapping[str, Flow]) -> str:
    """With nothing running: take up what the user asked for next, or offer what was set aside last.

    Returns:
        What to say for the offer, "" where there is none. An offer is words alone: the state is idle.
    """
    if state.active_flow is not None or not state.paused:
        return ""
    newest = state.paused[-1]
    if newest.deferred:
        resume(state, newest.flow_name)
        return ""
    return say("offer", registry.get(newest.flow_name), newest.values)


def drop_unknown(state: WorkingMemory, registry: Mapping[str, Flow]) -> None:
    """Let flows go that the registry does not have any longer."""
    running = [state.active_flow] if state.active_flow else []
    for flow in [*running, *state.paused]:
        if flow.flow_name not in registry:
            end(state, flow, FlowStatus.FAILED, reason="the flow is no longer in the registry")


def _limit(state: WorkingMemory) -> None:
    while len(state.paused) > PAUSED_KEPT:
        end(state, state.paused[0], FlowStatus.CANCELLED, reason="too many flows were waiting")
