"""What operations find in a state, and the errors for what is not there."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working.enums import FlowStatus
from jazzmine_dspy.memory.working.flow import ActiveFlowState
from jazzmine_dspy.memory.working.records import HeldSlot
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.base import JsonData
from jazzmine_dspy.models.errors import InputError

_JSON: TypeAdapter[Any] = TypeAdapter(JsonData)


def refused(state: WorkingMemory, message: str, remedy: str, *, flow: str = "") -> StateError:
    """The error for what a state does not allow."""
    where = f"conversation {state.conversation_id!r}" + (f", flow {flow!r}" if flow else "")
    return StateError(message, where=where, remedy=remedy)


def named(names: list[str]) -> str:
    """Names for an error's text."""
    return ", ".join(names) or "none"


def running(state: WorkingMemory) -> ActiveFlowState:
    """The running flow.

    Raises:
        StateError: there is none.
    """
    if state.active_flow is None:
        waiting = named([flow.flow_name for flow in reversed(state.paused)])
        raise refused(
            state, "No flow is running", f"Start one with start_flow, or resume a paused one: {waiting}."
        )
    return state.active_flow


def living(state: WorkingMemory, name: str | None) -> ActiveFlowState:
    """The flow of that name, running or set aside; the running one where none is named.

    Raises:
        StateError: there is none.
    """
    if name is None:
        return running(state)
    found = next((flow for flow in state.alive if flow.flow_name == name), None)
    if found is None:
        names = named([flow.flow_name for flow in state.alive])
        raise refused(
            state, f"No flow {name!r} is running or paused", f"Name one of those that are: {names}."
        )
    return found


def slot_of(state: WorkingMemory, flow: ActiveFlowState, name: str) -> HeldSlot:
    """A slot of a flow.

    Raises:
        StateError: the flow has none of that name.
    """
    slot = flow.slots.get(name)
    if slot is None:
        raise refused(
            state,
            f"The flow has no slot {name!r}",
            f"Its slots are: {named(list(flow.slots))}. Others are added with register_slots.",
            flow=flow.flow_name,
        )
    return slot


def leave_action_alone(state: WorkingMemory) -> None:
    """Refuse what would take the flow from under a running action.

    Raises:
        StateError: an action is running.
    """
    if state.action is not None:
        raise refused(
            state,
            "An action is running",
            "End it with finish_action first; queue messages with enqueue meanwhile.",
            flow=state.action.flow_name,
        )


def json_value(value: Any, where: str) -> Any:
    """A copy of a JSON value.

    Raises:
        InputError: it holds what JSON has not.
    """
    try:
        return _JSON.validate_python(value)
    except (ValidationError, RecursionError) as error:
        cause = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is nested too deep"
        raise InputError(
            f"The value is not JSON: {cause}",
            where=where,
            remedy="Pass texts, finite numbers, lists and mappings.",
        ) from error


def follow_slots(state: WorkingMemory, flow: ActiveFlowState) -> None:
    """Bring the running flow's status in line with its slots.

    It stays as it is while a yes or no is open, which nothing but an answer closes, and while an action runs.
    """
    if flow is not state.active_flow or state.action is not None:
        return
    if flow.status is FlowStatus.AWAITING_CONFIRMATION:
        return
    if flow.wants_values:
        flow.become(FlowStatus.COLLECTING_SLOTS)
        flow.ready = False
    else:
        flow.become(FlowStatus.ACTIVE)
