"""Flows coming and going, beyond the operations of working memory. Each function changes the given state."""

from __future__ import annotations

from collections.abc import Mapping

from jazzmine_dspy.dialogue.texts import say
from jazzmine_dspy.memory.working import ActiveFlowState, FlowStatus, WorkingMemory
from jazzmine_dspy.memory.working.operations import resume_flow
from jazzmine_dspy.memory.working.operations.flows import cancel_oldest_paused, end_flow
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.models.flows import Flow


def defer(state: WorkingMemory, flow: Flow, position: int) -> ActiveFlowState:
    """Keep a flow that is wanted after the one now running."""
    waiting = ActiveFlowState.from_flow(flow, turn_number=state.turn_number, agent_id=state.agent_id)
    waiting.transition_to(FlowStatus.PAUSED)
    waiting.deferred, waiting.paused_at_turn = True, state.turn_number
    position = min(position, len(state.paused))
    state.paused = [*state.paused[:position], waiting, *state.paused[position:]]
    cancel_oldest_paused(state)
    return waiting


def find_paused(state: WorkingMemory, name: str | None) -> ActiveFlowState | None:
    """The newest flow set aside, or the newest of that name."""
    return next((flow for flow in reversed(state.paused) if name in (None, flow.flow_name)), None)


def next_in_line(state: WorkingMemory, registry: Mapping[str, Flow]) -> NextStep | None:
    """With nothing running: take up what the user asked for next, or offer what was set aside last.

    Returns:
        The offer, None where there is none. The state stays idle; whoever makes the offer keeps it there.
    """
    if state.active_flow is not None or not state.paused:
        return None
    newest = state.paused[-1]
    if newest.deferred:
        resume_flow(state, newest.flow_name)
        return None
    return offer(newest, registry)


def offer(waiting: ActiveFlowState, registry: Mapping[str, Flow]) -> NextStep:
    """The offer to go back to a flow that was set aside."""
    name = waiting.flow_name
    text = say("offer", registry.get(name), waiting.values, task=name)
    return NextStep(kind="resume", flow=name, text=text, question=text)


def drop_unknown(state: WorkingMemory, registry: Mapping[str, Flow]) -> None:
    """Let flows go that the registry does not have any longer."""
    for flow in state.open_flows:
        if flow.flow_name not in registry:
            end_flow(state, flow, FlowStatus.FAILED, reason="the flow is no longer in the registry")
