"""Slot values at the door of the state: taken as they come, or refused with the reason."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.memory.working import ActiveFlowState
from jazzmine_dspy.models.flows import Flow, Slot, SlotType


def refusal(slot: Slot, value: Any) -> str:
    """Why a slot can't hold a value; "" where it can.

    Example:
        >>> refusal(Slot(name="order_id", type="text", pattern=r"\\\\d{4}"), "12")
        "'12' does not have the form of order_id"
    """
    if value is None:
        return f"{slot.name} was given no value"
    if slot.type is SlotType.CHOICE and value not in slot.options:
        return f"{value!r} is none of {', '.join(slot.options)}"
    if slot.pattern is not None and re.fullmatch(slot.pattern, str(value)) is None:
        return f"{value!r} does not have the form of {slot.name}"
    return ""


def put(running: ActiveFlowState, slot: Slot, value: Any, turn_number: int) -> bool:
    """Store a value, or keep the reason why not and count the attempt; whether it was stored."""
    held = running.slot(slot.name)
    held.validation_error = refusal(slot, value)
    if held.validation_error:
        held.attempts += 1
        return False
    if held.filled:
        held.previous_value = held.value
    held.value = value
    held.skipped = False
    held.attempts = 0
    held.collected_at_turn = turn_number
    return True


def clear(running: ActiveFlowState, name: str) -> bool:
    """Take a value back, remembering it as the one before; whether there was one."""
    held = running.slots.get(name)
    if held is None or not held.filled:
        return False
    held.previous_value, held.value, held.collected_at_turn = held.value, None, None
    return True


def pending(flow: Flow, running: ActiveFlowState) -> Slot | None:
    """The slot to ask for next, or None.

    Required ones come first, of these what was skipped last. Optional ones are asked for only in a flow that
    requires nothing and holds nothing, since running it would do nothing; who skips all is not asked again.
    """
    values = running.values
    skipped = {name for name, held in running.slots.items() if held.skipped}
    required = [slot for slot in flow.slots if slot.required]
    missing = [slot for slot in required if slot.name not in values]
    if missing or required or values:
        return next((slot for slot in missing if slot.name not in skipped), missing[0] if missing else None)
    return next((slot for slot in flow.slots if slot.name not in skipped), None)
