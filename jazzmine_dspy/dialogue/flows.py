"""Flows and their slots in a state, beyond the operations of working memory: lined up, offered, aligned, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine_dspy.dialogue.texts import Speech
from jazzmine_dspy.memory.working import ActiveFlowState, FlowStatus, SlotState, WorkingMemory
from jazzmine_dspy.memory.working.operations import resume_flow
from jazzmine_dspy.memory.working.operations.flows import cancel_oldest_paused, end_flow
from jazzmine_dspy.memory.working.operations.slots import clear_value
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.slots import ANYWHERE, SLOT_TYPES, ReadingContext, Slot, breaks_pattern, call_type


def defer(state: WorkingMemory, flow: Flow, position: int) -> ActiveFlowState:
    """Keep a flow that is wanted after the one now running."""
    waiting = ActiveFlowState.from_flow(flow, turn_number=state.turn_number, agent_id=state.agent_id)
    waiting.transition_to(FlowStatus.PAUSED)
    waiting.deferred, waiting.paused_at_turn = True, state.turn_number
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
    return offer_to_resume(newest, registry, state.locale)


def offer_to_resume(waiting: ActiveFlowState, registry: Mapping[str, Flow], locale: str) -> NextStep:
    """The offer to go back to a flow that was set aside."""
    name = waiting.flow_name
    text = Speech(registry, locale).say("offer", registry.get(name), waiting.values, task=name)
    return NextStep(kind="resume", flow=name, text=text, question=text)


def drop_unknown(state: WorkingMemory, registry: Mapping[str, Flow]) -> None:
    """Let flows go that the registry does not have any longer."""
    for flow in state.open_flows:
        if flow.flow_name not in registry:
            end_flow(state, flow, FlowStatus.FAILED, reason="the flow is no longer in the registry")


def refusal(slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
    """Why a slot can't hold a value; "" where it can.

    Example:
        >>> refusal(Slot(name="order_id", type="text", pattern=r"\\\\d{4}"), "12")
        "'12' does not have the right form"
    """
    if value is None:
        return "no value was given"
    if why_not := call_type(slot, "check", value, "the value could not be checked", at):
        several = readings(slot, value, at)
        return f"{value!r} may be {' or '.join(map(str, several))}" if len(several) > 1 else str(why_not)
    return f"{value!r} does not have the right form" if breaks_pattern(slot, value) else ""


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

    normal = call_type(slot, "normalize", held.value, held.value, at)
    for value in (held.value, normal):
        if fits(value):
            held.value = value
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
