"""The next step: what a state waits for, and what follows when a flow is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jazzmine_dspy.dialogue import slots, stack
from jazzmine_dspy.dialogue.events import Changes
from jazzmine_dspy.dialogue.replies import compose, join
from jazzmine_dspy.dialogue.texts import fill, question, say
from jazzmine_dspy.memory.working import ActiveFlowState, FlowStatus, PendingConfirmation, WorkingMemory
from jazzmine_dspy.memory.working.operations import finish_action, request_confirmation
from jazzmine_dspy.memory.working.operations.flows import end_flow
from jazzmine_dspy.memory.working.operations.slots import reset_attempts
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.next_step import NextStep
from jazzmine_dspy.models.registry import reading_context

Flows = Mapping[str, Flow]


def reconcile(state: WorkingMemory, registry: Flows) -> WorkingMemory:
    """A copy of the state, in line with the registry.

    Flows are done in it that were handed out to run and not begun as actions; ``pending_events`` reports it to the
    next trace.
    """
    state = state.model_copy(deep=True)
    changes = Changes(state, registry)
    if state.action is None:
        stack.drop_unknown(state, registry)
        for flow in state.open_flows:
            slots.align(state, flow, registry[flow.flow_name], reading_context(registry))
        _finish_ready(state, registry, changes)
    if state.active_flow is not None or state.offered_flow not in [flow.flow_name for flow in state.paused]:
        state.offered_flow = None
    changes.leave()
    return state


def complete(
    state: WorkingMemory, registry: Flows, *, result: object = None, failed: bool = False
) -> tuple[WorkingMemory, NextStep]:
    """End the running action and its flow; what waited next is taken up or offered.

    Raises:
        StateError: no action is running.
        InputError: ``result`` is not JSON.
    """
    state = state.model_copy(deep=True)
    running, changes = state.active_flow, Changes(state, registry)
    finish_action(state, result, failed)
    said = ""
    if running is not None:
        key = "failed" if failed else "done"
        said = say(key, registry.get(running.flow_name), running.values, task=running.flow_name)
    stack.drop_unknown(state, registry)
    offer = stack.next_in_line(state, registry, changes)
    step = _awaited(state, registry, changes)
    changes.leave()
    if step is None and offer is not None:
        state.offered_flow, step = offer.flow, offer
    if step is None:
        return state, NextStep(kind="none", text=said)
    if step.kind == "run_flow":
        # The next flow has not run yet, so there is nothing to say of it.
        return state, step.model_copy(update={"text": said, "begun": said})
    return state, compose([said], step)


def pending_question(
    state: WorkingMemory, registry: Flows, changes: Changes, *, confirmed: bool = False
) -> NextStep | None:
    """What the state waits for, with the state brought to wait for it; None where it waits for nothing.

    Of a flow with all its slots: the question whether to go ahead where it has one, else the flow itself, to
    be run, and what is to be said and run after it.
    """
    step = _awaited(state, registry, changes, confirmed=confirmed)
    if step is None or step.kind != "run_flow":
        return step
    ahead = state.model_copy(deep=True)
    following = _finish_ready(ahead, registry, Changes(ahead, registry))
    return step.model_copy(
        update={
            "then": tuple(after.flow for after in following if after.kind == "run_flow"),
            "text": join(step.text, *(after.text for after in following)),
        }
    )


def _awaited(
    state: WorkingMemory, registry: Flows, changes: Changes, *, confirmed: bool = False
) -> NextStep | None:
    running = state.active_flow
    if running is None:
        return None
    flow = registry[running.flow_name]
    slot = slots.pending(flow, running)
    if slot is not None:
        return await_slot(state, running, flow, slot.name, again=False)
    running.awaiting = None
    for name, held in running.slots.items():
        # Whoever goes on without correcting a value has let that be.
        changes.slot(running, name)
        reset_attempts(state, held)
    if flow.confirm and not confirmed:
        asked = PendingConfirmation(
            action_description=fill(flow.confirm, running.values) or say("confirm", flow),
            action_payload=running.values,
        )
        request_confirmation(state, asked)
        text = asked.action_description
        return NextStep(kind="confirm", flow=flow.name, text=text, question=text)
    state.pending_confirmation = None
    running.transition_to(FlowStatus.ACTIVE)
    running.ready = True
    return NextStep(kind="run_flow", flow=flow.name, text=say("done", flow, running.values))


def _finish_ready(state: WorkingMemory, registry: Flows, changes: Changes) -> list[NextStep]:
    """End flows that are ready, one after another, and tell what each makes room for."""
    steps: list[NextStep] = []
    while (running := state.active_flow) is not None and running.ready:
        end_flow(state, running, FlowStatus.COMPLETED)
        offer = stack.next_in_line(state, registry, changes)
        step = _awaited(state, registry, changes)
        state.offered_flow = offer.flow if offer is not None else None
        steps += [each for each in (step or offer,) if each is not None]
    return steps


def await_slot(
    state: WorkingMemory,
    running: ActiveFlowState,
    flow: Flow,
    name: str,
    *,
    again: bool,
    why: str = "",
    readings: Sequence[object] = (),
) -> NextStep:
    """Ask for a slot of the running flow, or ask again.

    Args:
        why: Why the last value was refused; left out if the slot has a ``reask``, unless it has a validator.
        readings: What the last value may mean, where that is not clear: the user is asked which.
    """
    slot = flow.slot(name)
    assert slot is not None
    running.transition_to(FlowStatus.COLLECTING_SLOTS)
    running.awaiting, running.ready = name, False
    state.pending_confirmation = None
    text = question(flow, slot, running.values, again=again, why=why, readings=readings)
    # A refusal stands before the question as it was put first.
    first = question(flow, slot, running.values)
    asked = first if text.endswith(first) else text
    return NextStep(
        kind="reask" if again else "ask_slot", flow=flow.name, slot=name, text=text, question=asked
    )


def wait(state: WorkingMemory, registry: Flows) -> NextStep:
    """The answer to a message that asks for time: what was asked stays open, is not said again, and does not count."""
    running = state.active_flow
    flow = registry.get(running.flow_name) if running is not None else None
    last = state.processed[-1].next_step if state.processed else None
    return NextStep(
        kind="answer",
        flow=running.flow_name if running is not None else None,
        slot=running.awaiting if running is not None else None,
        text=say("wait", flow, running.values if running is not None else {}),
        # The next message may still answer which of these is meant.
        choices=last.choices if isinstance(last, NextStep) else (),
    )
