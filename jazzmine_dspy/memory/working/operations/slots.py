"""Slots of a flow: registered, filled, corrected, cleared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working.flow import ActiveFlowState
from jazzmine_dspy.memory.working.operations._lookup import (
    follow_slots,
    json_value,
    living,
    refused,
    running,
    slot_of,
)
from jazzmine_dspy.memory.working.operations.step import Operation
from jazzmine_dspy.memory.working.records import HeldSlot
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED, SLOTS_KEPT, WorkingMemory
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.flows import Slot


@Operation
def register_slots(state: WorkingMemory, slots: Iterable[HeldSlot | Slot]) -> None:
    """Say which slots the running flow has.

    It collects them if a required one has no value; where none is required it stays active. Of a slot that is
    there already, the definition is replaced and the value kept.

    Raises:
        StateError: no flow is running, a name comes twice, or there are more than a hundred.

    Example:
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=ActiveFlowState(flow_name="track"))
        >>> register_slots(state, [HeldSlot(name="order_id")]).status.value
        'collecting_slots'
        >>> register_slots(state, [HeldSlot(name="note", required=False)]).status.value
        'in_flow'
    """
    flow = running(state)
    held_slots(state, flow, slots)
    follow_slots(state, flow)


@Operation
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
        >>> flow = ActiveFlowState(flow_name="track", slots={"order_id": HeldSlot(name="order_id")})
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=flow)
        >>> refused = collect_slot(state, "order_id", "12", "an order has four digits")
        >>> refused.status.value, refused.active_flow.values, refused.active_flow.slots["order_id"].attempts
        ('collecting_slots', {}, 1)
        >>> collect_slot(refused, "order_id", "4471").status.value
        'in_flow'
    """
    owner = living(state, flow)
    slot = slot_of(state, owner, slot_name)
    if validation_error:
        _refuse(state, owner, slot, validation_error)
    else:
        _fill(state, owner, slot, value)
    follow_slots(state, owner)


@Operation
def correct_slot(state: WorkingMemory, slot_name: str, value: Any, *, flow: str | None = None) -> None:
    """Replace a slot's value; the one before is kept as ``previous_value``.

    A yes or no that is open stays open over its own payload: ask anew with ``request_confirmation``.

    Raises:
        StateError: no such flow, or it has no such slot.
        InputError: ``value`` is None, or not JSON.
    """
    owner = living(state, flow)
    _fill(state, owner, slot_of(state, owner, slot_name), value)
    follow_slots(state, owner)


@Operation.of_short_texts
def clear_slot(state: WorkingMemory, slot_name: str, *, flow: str | None = None) -> None:
    """Take a slot's value back; it is kept as ``previous_value``. Its error and attempts go too.

    Raises:
        StateError: no such flow, or it has no such slot.
    """
    owner = living(state, flow)
    empty(state, slot_of(state, owner, slot_name))
    follow_slots(state, owner)


def held_slots(state: WorkingMemory, flow: ActiveFlowState, slots: Iterable[HeldSlot | Slot]) -> None:
    """Add slots to a flow, or renew the definition of those that it has.

    Raises:
        StateError: a name comes twice, or the flow would have too many.
    """
    new: dict[str, HeldSlot] = {}
    for slot in slots:
        if slot.name in new:
            raise refused(
                state,
                f"Slot {slot.name!r} comes twice",
                "Give every slot a name of its own.",
                flow=flow.flow_name,
            )
        new[slot.name] = HeldSlot.of(slot) if isinstance(slot, Slot) else slot.model_copy(deep=True)
    if len(flow.slots.keys() | new.keys()) > SLOTS_KEPT:
        raise _too_many(state, flow)
    for name, slot in new.items():
        known = flow.slots.get(name)
        if known is None:
            flow.slots[name] = slot
            continue
        known.type, known.description, known.required = slot.type, slot.description, slot.required
        if slot.filled and not known.filled:
            known.value, known.collected_at_turn = slot.value, slot.collected_at_turn


def empty(state: WorkingMemory, slot: HeldSlot) -> None:
    """Take a slot's value back, with its error and attempts."""
    if slot.filled:
        slot.previous_value, slot.value, slot.collected_at_turn = slot.value, None, None
    let_be(state, slot)


def let_be(state: WorkingMemory, slot: HeldSlot) -> None:
    """Forget the values refused for a slot, and that a person was needed for it."""
    if slot.attempts >= ATTEMPTS_ALLOWED:
        state.escalation = ""
    slot.validation_error, slot.attempts = "", 0


def leave_open(slot: HeldSlot) -> None:
    """Count that a slot was asked for in vain: nothing in the answer was understood."""
    slot.attempts += 1


def give_up(slot: HeldSlot) -> None:
    """Ask for a slot no more before the conversation gets on."""
    slot.attempts = max(slot.attempts, ATTEMPTS_ALLOWED)


def _fill(state: WorkingMemory, flow: ActiveFlowState, slot: HeldSlot, value: Any) -> None:
    where = f"slot {slot.name!r}"
    if value is None:
        raise InputError("There is no value", where=where, remedy="Take one back with clear_slot.")
    good = json_value(value, where)
    if slot.filled and not _same(slot.value, good):
        slot.previous_value = slot.value
    slot.value = good
    slot.skipped = False
    slot.collected_at_turn = state.turn_number
    let_be(state, slot)
    if flow.awaiting == slot.name:
        flow.awaiting = None


def _same(one: Any, other: Any) -> bool:
    # True == 1 for Python, not for a user.
    return type(one) is type(other) and bool(one == other)


def _refuse(state: WorkingMemory, flow: ActiveFlowState, slot: HeldSlot, error: str) -> None:
    slot.validation_error = error
    slot.attempts += 1
    if slot.attempts >= ATTEMPTS_ALLOWED:
        state.escalation = f"{flow.flow_name}: {slot.attempts} values for {slot.name} were refused: {error}"


def _too_many(state: WorkingMemory, flow: ActiveFlowState) -> StateError:
    return refused(
        state,
        f"A flow can have {SLOTS_KEPT} slots",
        "Split the flow, or gather values in a slot of type list.",
        flow=flow.flow_name,
    )
