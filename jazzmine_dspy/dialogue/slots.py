"""Slot values at the door of the state: taken as they come, or refused with the reason."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.memory.working import ActiveFlowState, FlowStatus, SlotState, WorkingMemory
from jazzmine_dspy.memory.working.operations.slots import clear_value
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.slots import ANYWHERE, SLOT_TYPES, ReadingContext, Slot, breaks_pattern, call_type


def refusal(slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
    """Why a slot can't hold a value; "" where it can.

    Example:
        >>> refusal(Slot(name="order_id", type="text", pattern=r"\\\\d{4}"), "12")
        "'12' does not have the form of order_id"
    """
    if value is None:
        return f"{slot.name} was given no value"
    if why_not := call_type(slot, "check", value, f"{slot.name} could not be checked", at):
        several = readings(slot, value, at)
        return f"{value!r} may be {' or '.join(map(str, several))}" if len(several) > 1 else str(why_not)
    if breaks_pattern(slot, value):
        return f"{value!r} does not have the form of {slot.name}"
    return ""


def readings(slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> list[Any]:
    """What a text may mean that the slot cannot hold: several values where it is ambiguous."""
    return list(call_type(slot, "candidates", value, [], at)) if isinstance(value, str) else []


def align(state: WorkingMemory, running: ActiveFlowState, flow: Flow, at: ReadingContext = ANYWHERE) -> None:
    """Bring what a state holds of a flow in line with its definition, which may have changed since.

    A value that the definition no longer takes is taken back, to be asked for again, and so is a yes or no about it. A
    flow that was handed out to run keeps its values. A slot that is defined no longer keeps its value and is not asked
    for.
    """
    for slot in flow.slots:
        held = running.slots.get(slot.name)
        if held is None:
            running.slots[slot.name] = SlotState.of(slot)
            continue
        # A type of jazzmine's own says nothing of ours.
        retyped = held.type in SLOT_TYPES and held.type != slot.type
        held.type, held.description, held.required = slot.type, slot.description, slot.required
        if held.filled and not running.ready:
            _recheck(state, running, slot, held, at, retyped=retyped)
    for name in running.slots.keys() - {slot.name for slot in flow.slots}:
        running.slots[name].required = False
    running.flow_id = running.flow_id or flow.id_for(state.agent_id)
    running.instructions = running.instructions or flow.build_prompt(verbose=False)


def _recheck(
    state: WorkingMemory,
    running: ActiveFlowState,
    slot: Slot,
    held: SlotState,
    at: ReadingContext,
    *,
    retyped: bool,
) -> None:
    def fits(value: Any) -> bool:
        # Values come in more forms than a type writes; those of another type have to be of this one's.
        return not refusal(slot, value, at) and not (
            retyped and call_type(slot, "label_error", value, "unknown")
        )

    if fits(held.value):
        return
    normal = call_type(slot, "normalize", held.value, held.value, at)
    if fits(normal):
        held.value = normal
        return
    clear_value(state, held)
    if running is state.active_flow:
        state.pending_confirmation = None
        running.transition_to(FlowStatus.COLLECTING_SLOTS if running.needs_values else FlowStatus.ACTIVE)


def pending(flow: Flow, running: ActiveFlowState) -> Slot | None:
    """The slot to ask for next, or None.

    Required ones come first, of these what was skipped or asked for in vain too often last. Optional ones are asked
    for only in a flow that requires nothing and holds nothing, since running it would do nothing; who skips all is not
    asked again.
    """
    values = running.values
    skipped = {name for name, held in running.slots.items() if held.skipped}
    in_vain = {name for name, held in running.slots.items() if held.attempts >= ATTEMPTS_ALLOWED}
    required = [slot for slot in flow.slots if slot.required]
    missing = [slot for slot in required if slot.name not in values]
    wanted = [slot for slot in missing or flow.slots if slot.name not in skipped]
    if not missing and (required or values):
        return None
    return next((slot for slot in wanted if slot.name not in in_vain), [*wanted, *missing, None][0])
