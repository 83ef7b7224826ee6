"""Slots of a flow: registered, filled, corrected, cleared; and what operations require of a state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working.flow import ActiveFlowState
from jazzmine_dspy.memory.working.records import FlowStatus, SlotState
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED, SLOTS_KEPT, WorkingMemory
from jazzmine_dspy.models.base import JsonData
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.flows import Slot

T = TypeVar("T")

_JSON: TypeAdapter[Any] = TypeAdapter(JsonData)


def require(state: WorkingMemory, value: T | None, message: str, remedy: str, *, flow: str = "") -> T:
    """Refuse an operation that the state does not allow.

    Args:
        state: Of the conversation that the error names.
        value: What has to be true, or there.
        message: What is wrong.
        remedy: What to do next.
        flow: The name of the flow that the error names, if any.

    Returns:
        The value.

    Raises:
        StateError: the value is false, or not there.
    """
    if value:
        return value
    where = f"conversation {state.conversation_id!r}" + (f", flow {flow!r}" if flow else "")
    raise StateError(message, where=where, remedy=remedy)


def join_names(names: Iterable[str]) -> str:
    """Names for the text of an error."""
    return ", ".join(names) or "none"


def require_active_flow(state: WorkingMemory) -> ActiveFlowState:
    """The running flow.

    Raises:
        StateError: there is none.
    """
    paused = join_names(flow.flow_name for flow in reversed(state.paused))
    remedy = f"Start one with start_flow, or resume a paused one: {paused}."
    return require(state, state.active_flow, "No flow is running", remedy)


def find_flow(state: WorkingMemory, name: str | None) -> ActiveFlowState:
    """The flow of that name, running or paused; the running one where none is named.

    Raises:
        StateError: there is none.
    """
    if name is None:
        return require_active_flow(state)
    flows = {flow.flow_name: flow for flow in reversed(state.open_flows)}
    return require(
        state,
        flows.get(name),
        f"No flow {name!r} is running or paused",
        f"Name one of those that are: {join_names(reversed(flows))}.",
    )


def require_slot(state: WorkingMemory, flow: ActiveFlowState, name: str) -> SlotState:
    """A slot of a flow.

    Raises:
        StateError: the flow has none of that name.
    """
    remedy = f"Its slots are: {join_names(flow.slots)}. Others are added with register_slots."
    return require(state, flow.slots.get(name), f"The flow has no slot {name!r}", remedy, flow=flow.flow_name)


def require_no_action(state: WorkingMemory) -> None:
    """Refuse what would take the flow from under a running action.

    Raises:
        StateError: an action is running.
    """
    require(
        state,
        state.action is None,
        "An action is running",
        "End it with finish_action first; queue messages with enqueue meanwhile.",
        flow=state.action.flow_name if state.action else "",
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


def update_status(state: WorkingMemory, flow: ActiveFlowState) -> None:
    """Bring the running flow's status in line with its slots.

    It stays as it is while a yes or no is open, which nothing but an answer closes, and while an action runs.
    """
    if flow is not state.active_flow or state.action is not None:
        return
    if flow.status is FlowStatus.AWAITING_CONFIRMATION:
        return
    flow.transition_to(FlowStatus.COLLECTING_SLOTS if flow.needs_values else FlowStatus.ACTIVE)
    flow.ready &= not flow.needs_values


def register_slots(state: WorkingMemory, slots: Iterable[SlotState | Slot]) -> None:
    """Say which slots the running flow has.

    It collects them if a required one has no value; where none is required it stays active. Of a slot that is
    there already, the definition is replaced and the value kept.

    Raises:
        StateError: no flow is running, a name comes twice, or there are more than a hundred.

    Example:
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=ActiveFlowState(flow_name="track"))
        >>> register_slots(state, [SlotState(name="order_id")])
        >>> state.status.value
        'collecting_slots'
    """
    flow = require_active_flow(state)
    add_slots(state, flow, slots)
    update_status(state, flow)


def collect_slot(
    state: WorkingMemory,
    slot_name: str,
    value: Any,
    validation_error: str = "",
    *,
    flow: str | None = None,
) -> None:
    """Fill a slot, or note why a value is refused.

    With the last required slot filled, the flow is active again, unless a yes or no is open. A refused value
    is never stored: what the slot held before stays, error and attempts are kept for asking again, and the
    flow collects. After the third one ``escalation`` says why a person should take over; a good value clears
    all of that.

    Args:
        value: A JSON value; 0, False and "" are values, None is none.
        validation_error: Why the value is refused; "" for a good one.
        flow: Of a paused flow, its name.

    Raises:
        StateError: no such flow, or it has no such slot.
        InputError: ``value`` is None, or not JSON.

    Example:
        >>> flow = ActiveFlowState(flow_name="track", slots={"order_id": SlotState(name="order_id")})
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=flow)
        >>> collect_slot(state, "order_id", "12", "an order has four digits")
        >>> state.status.value, state.active_flow.values, state.active_flow.slots["order_id"].attempts
        ('collecting_slots', {}, 1)
        >>> collect_slot(state, "order_id", "4471")
        >>> state.status.value
        'in_flow'
    """
    owner = find_flow(state, flow)
    slot = require_slot(state, owner, slot_name)
    if validation_error:
        _refuse(state, owner, slot, validation_error)
    else:
        _fill(state, owner, slot, value)
    update_status(state, owner)


def correct_slot(state: WorkingMemory, slot_name: str, value: Any, *, flow: str | None = None) -> None:
    """Replace a slot's value; the one before is kept as ``previous_value``.

    A yes or no that is open stays open over its own payload: ask anew with ``request_confirmation``.

    Raises:
        StateError: no such flow, or it has no such slot.
        InputError: ``value`` is None, or not JSON.
    """
    owner = find_flow(state, flow)
    _fill(state, owner, require_slot(state, owner, slot_name), value)
    update_status(state, owner)


def clear_slot(state: WorkingMemory, slot_name: str, *, flow: str | None = None) -> None:
    """Take a slot's value back; it is kept as ``previous_value``. Its error and attempts go too.

    Raises:
        StateError: no such flow, or it has no such slot.
    """
    owner = find_flow(state, flow)
    clear_value(state, require_slot(state, owner, slot_name))
    update_status(state, owner)


def add_slots(state: WorkingMemory, flow: ActiveFlowState, slots: Iterable[SlotState | Slot]) -> None:
    """Add slots to a flow, or renew the definition of those that it has.

    Raises:
        StateError: a name comes twice, or the flow would have too many.
    """
    new: dict[str, SlotState] = {}
    for slot in slots:
        require(
            state,
            slot.name not in new,
            f"Slot {slot.name!r} comes twice",
            "Give every slot a name of its own.",
            flow=flow.flow_name,
        )
        new[slot.name] = SlotState.of(slot) if isinstance(slot, Slot) else slot.model_copy(deep=True)
    require(
        state,
        len(flow.slots.keys() | new.keys()) <= SLOTS_KEPT,
        f"A flow can have {SLOTS_KEPT} slots",
        "Split the flow, or gather values in a slot of type list.",
        flow=flow.flow_name,
    )
    for name, slot in new.items():
        if (known := flow.slots.get(name)) is None:
            flow.slots[name] = slot
            continue
        known.type, known.description, known.required = slot.type, slot.description, slot.required
        if slot.filled and not known.filled:
            known.value, known.collected_at_turn = slot.value, slot.collected_at_turn


def clear_value(state: WorkingMemory, slot: SlotState) -> None:
    """Take a slot's value back, with its error and attempts."""
    if slot.filled:
        slot.previous_value, slot.value, slot.collected_at_turn = slot.value, None, None
    reset_attempts(state, slot)


def reset_attempts(state: WorkingMemory, slot: SlotState) -> None:
    """Forget the values refused for a slot, and that a person was needed for it."""
    if slot.attempts >= ATTEMPTS_ALLOWED:
        state.escalation = ""
    slot.validation_error, slot.attempts = "", 0


def _fill(state: WorkingMemory, flow: ActiveFlowState, slot: SlotState, value: Any) -> None:
    where = f"slot {slot.name!r}"
    if value is None:
        raise InputError("There is no value", where=where, remedy="Take one back with clear_slot.")
    good = json_value(value, where)
    # True == 1 for Python, not for a user.
    is_same = type(slot.value) is type(good) and slot.value == good
    if slot.filled and not is_same:
        slot.previous_value = slot.value
    slot.value = good
    slot.skipped = False
    slot.collected_at_turn = state.turn_number
    reset_attempts(state, slot)
    if flow.awaiting == slot.name:
        flow.awaiting = None


def _refuse(state: WorkingMemory, flow: ActiveFlowState, slot: SlotState, error: str) -> None:
    slot.validation_error = error
    slot.attempts += 1
    if slot.attempts >= ATTEMPTS_ALLOWED:
        state.escalation = f"{flow.flow_name}: {slot.attempts} values for {slot.name} were refused: {error}"
