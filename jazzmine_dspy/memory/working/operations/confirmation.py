"""The yes or no before something is done."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.memory.working.enums import FlowStatus
from jazzmine_dspy.memory.working.operations._lookup import (
    follow_slots,
    leave_action_alone,
    refused,
    running,
    slot_of,
)
from jazzmine_dspy.memory.working.operations.slots import empty
from jazzmine_dspy.memory.working.operations.step import Answering, Operation
from jazzmine_dspy.memory.working.records import PendingConfirmation
from jazzmine_dspy.memory.working.state import WorkingMemory


@Operation
def request_confirmation(
    state: WorkingMemory, confirmation: PendingConfirmation, *, now: float = 0.0
) -> None:
    """Ask whether to do what the payload says; the running flow waits for the answer.

    Asking again about the same payload is not asking anew: the question keeps its age.

    Args:
        now: Unix time in seconds.

    Raises:
        StateError: no flow is running, the confirmation names another one, or an action is running.
    """
    leave_action_alone(state)
    flow = running(state)
    asked = confirmation.model_copy(deep=True)
    other_id = asked.flow_id and flow.flow_id and asked.flow_id != flow.flow_id
    if asked.flow_name not in ("", flow.flow_name) or other_id:
        raise refused(
            state,
            f"The confirmation is of flow {asked.flow_name or asked.flow_id!r}, not of the one that runs",
            "Resume that flow first.",
            flow=flow.flow_name,
        )
    asked.flow_name, asked.flow_id = flow.flow_name, asked.flow_id or flow.flow_id
    asked.requested_at_turn, asked.requested_at = state.turn_number, asked.requested_at or now
    asked.drifted_turns = 0
    open_now = state.pending_confirmation
    if open_now is not None and open_now.action_payload == asked.action_payload:
        asked.requested_at_turn, asked.requested_at = open_now.requested_at_turn, open_now.requested_at
        asked.drifted_turns = open_now.drifted_turns
    flow.become(FlowStatus.AWAITING_CONFIRMATION)
    flow.awaiting, flow.ready = None, False
    state.pending_confirmation = asked


@Answering
def confirm_action(state: WorkingMemory) -> dict[str, Any] | None:
    """The answer was yes: pay out what to do, once.

    The flow is active again and ready to be run.

    Returns:
        The payload that was asked about; None where nothing is open, or it was paid out already.

    Example:
        >>> from jazzmine_dspy.memory.working import ActiveFlowState
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=ActiveFlowState(flow_name="pay"))
        >>> asked = PendingConfirmation(action_description="Pay 5 EUR?", action_payload={"amount": 5})
        >>> state, payload = confirm_action(request_confirmation(state, asked))
        >>> payload, confirm_action(state)[1]
        ({'amount': 5}, None)
    """
    asked = state.pending_confirmation
    if asked is None:
        return None
    state.pending_confirmation = None
    flow = state.active_flow
    if flow is not None:
        flow.become(FlowStatus.ACTIVE)
        flow.ready = True
    return asked.action_payload


@Operation.of_short_texts
def deny_action(state: WorkingMemory, slot_name: str | None = None) -> None:
    """The answer was no: nothing is done, and the flow goes on.

    Args:
        slot_name: What is to be different: its value is taken back, and the flow collects it.

    Raises:
        StateError: no yes or no is open, or the flow has no such slot.
    """
    if state.pending_confirmation is None:
        raise refused(state, "No confirmation is open", "Ask with request_confirmation first.")
    flow = running(state)
    slot = slot_of(state, flow, slot_name) if slot_name is not None else None
    state.pending_confirmation = None
    flow.become(FlowStatus.ACTIVE)
    if slot is None:
        follow_slots(state, flow)
        return
    empty(state, slot)
    flow.become(FlowStatus.COLLECTING_SLOTS)
    flow.awaiting = slot.name
