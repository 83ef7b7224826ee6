"""Questions: what a state waits for, how often a question is put, what follows a flow, and the offer of a person."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jazzmine_dspy.dialogue.events import flow_changes
from jazzmine_dspy.dialogue.flows import align, defer, drop_unknown, next_in_line, pending
from jazzmine_dspy.dialogue.formats import spoken
from jazzmine_dspy.dialogue.texts import Speech, compose, join, title
from jazzmine_dspy.memory.working import ActiveFlowState, FlowStatus, PendingConfirmation, WorkingMemory
from jazzmine_dspy.memory.working.operations import finish_action, request_confirmation
from jazzmine_dspy.memory.working.operations.flows import end_flow
from jazzmine_dspy.memory.working.operations.slots import reset_attempts
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import reading_context
from jazzmine_dspy.models.templates import default_texts
from jazzmine_dspy.models.turn import Confirming

Flows = Mapping[str, Flow]

DROPPED = "the user left it"
"""The reason in the record of a flow that the user dropped."""

OTHER_WORDS = {"confirm": "confirm_again", "clarify": "clarify_again", "none": "lost_again"}
"""The key of what is said before a question of each kind that was put in vain twice."""


def reconcile(state: WorkingMemory, registry: Flows) -> WorkingMemory:
    """A copy of the state, in line with the registry.

    Flows are done in it that were handed out to run and not begun as actions; ``pending_events`` reports it to the next
    trace.
    """
    before, state = state, state.model_copy(deep=True)
    if state.action is None:
        drop_unknown(state, registry)
        for flow in state.open_flows:
            align(state, flow, registry[flow.flow_name], reading_context(registry))
        _finish_ready(state, registry)
    if state.active_flow is not None or state.offered_flow not in [flow.flow_name for flow in state.paused]:
        state.offered_flow = None
    state.pending_events += flow_changes(before, state)
    return state


def complete(
    state: WorkingMemory, registry: Flows, *, result: object = None, failed: bool = False
) -> tuple[WorkingMemory, NextStep]:
    """End the running action and its flow; what waited next is taken up or offered.

    Raises:
        StateError: no action is running.
        InputError: ``result`` is not JSON.
    """
    before, state = state, state.model_copy(deep=True)
    running = state.active_flow
    finish_action(state, result, failed)
    said, speech = "", Speech(registry, state.locale, result)
    if running is not None:
        key, flow = "failed" if failed else "done", registry.get(running.flow_name)
        said = speech.say(key, flow, running.values, task=running.flow_name)
    drop_unknown(state, registry)
    offer = next_in_line(state, registry)
    step = _awaited(state, registry)
    state.pending_events += flow_changes(before, state)
    if step is None and offer is not None:
        state.offered_flow, step = offer.flow, offer
    if step is None:
        return state, NextStep(kind="none", text=said)
    if step.kind == "run_flow":
        # The next flow has not run yet, so there is nothing to say of it.
        return state, step.model_copy(update={"text": said, "begun": said})
    follows = speech.say("next", registry[one.flow_name], one.values) if (one := state.active_flow) else ""
    return state, compose([said, follows], step, speech)


def pending_question(state: WorkingMemory, registry: Flows, *, confirmed: bool = False) -> NextStep | None:
    """What the state waits for, with the state brought to wait for it; None where it waits for nothing.

    Of a flow with all its slots: the question whether to go ahead where it has one, else the flow itself, to
    be run, and what is to be said and run after it.
    """
    step = _awaited(state, registry, confirmed=confirmed)
    if step is None or step.kind != "run_flow":
        return step
    ahead = state.model_copy(deep=True)
    following = _finish_ready(ahead, registry)
    return step.model_copy(
        update={
            "then": tuple(after.flow for after in following if after.kind == "run_flow"),
            "text": join(step.text, *(after.text for after in following)),
        }
    )


def _awaited(state: WorkingMemory, registry: Flows, *, confirmed: bool = False) -> NextStep | None:
    running = state.active_flow
    if running is None:
        return None
    flow, speech = registry[running.flow_name], Speech(registry, state.locale)
    slot = pending(flow, running)
    if slot is not None:
        return await_slot(state, running, flow, slot.name, speech, again=False)
    running.awaiting = None
    for held in running.slots.values():
        # Whoever goes on without correcting a value has let that be.
        reset_attempts(state, held)
    if flow.confirm and not confirmed:
        plain = speech.say("confirm", flow, running.values)
        text = speech.fill(flow.confirm, flow, running.values, default={"task": title(flow)}) or plain
        # Prompts compare the stored forms of values with what the user writes.
        raw = speech.fill(flow.confirm, flow, running.values, default={"task": spoken(flow.name)}, raw=True)
        asked = PendingConfirmation(action_description=raw or plain, action_payload=running.values)
        request_confirmation(state, asked)
        return NextStep(kind="confirm", flow=flow.name, text=text, question=text)
    state.pending_confirmation = None
    running.transition_to(FlowStatus.ACTIVE)
    running.ready = True
    return NextStep(kind="run_flow", flow=flow.name, text=speech.say("done", flow, running.values))


def _finish_ready(state: WorkingMemory, registry: Flows) -> list[NextStep]:
    """End flows that are ready, one after another, and tell what each makes room for."""
    steps: list[NextStep] = []
    while (running := state.active_flow) is not None and running.ready:
        end_flow(state, running, FlowStatus.COMPLETED)
        offer = next_in_line(state, registry)
        step = _awaited(state, registry)
        state.offered_flow = offer.flow if offer is not None else None
        steps += [each for each in (step or offer,) if each is not None]
    return steps


def await_slot(
    state: WorkingMemory,
    running: ActiveFlowState,
    flow: Flow,
    name: str,
    speech: Speech,
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
    text = speech.question(flow, slot, running.values, again=again, why=why, readings=readings)
    # A refusal stands before the question as it was put first.
    first = speech.question(flow, slot, running.values)
    return NextStep(
        kind="reask" if again else "ask_slot",
        flow=flow.name,
        slot=name,
        text=text,
        question=first if text.endswith(first) else text,
    )


# --- how often a question is put ----------------------------------------------------------------------------


def question_of(state: WorkingMemory, step: NextStep) -> str | None:
    """What a step asks, by a name that is the same for all its wordings; None where it asks nothing."""
    if step.slot is not None and step.kind in ("ask_slot", "reask", "answer"):
        return f"{step.flow}.{step.slot}"
    if step.kind == "offer":
        return "person"
    if step.kind in ("confirm", "answer") and (step.flow or not step.question):
        return f"{step.flow}?" if step.flow and state.pending_confirmation is not None else None
    if step.kind in ("reask", "resume"):
        return f"{step.flow}: {step.kind}"
    if step.choices:
        return "clarify"
    return "lost" if step.kind in ("none", "clarify") or (step.kind == "answer" and step.question) else None


def may_ask(state: WorkingMemory, questions: Collection[str]) -> bool:
    """Return whether these questions may be put once more."""
    return all(state.question_counts.get(key, 0) < ATTEMPTS_ALLOWED for key in questions)


def rephrase(state: WorkingMemory, step: NextStep, speech: Speech, flow: Flow | None) -> NextStep:
    """A question that is put again, since nothing of the answer to it was understood."""
    key = question_of(state, step)
    times = state.question_counts.get(key or "", 0)
    if times == 0 or step.kind not in OTHER_WORDS:
        return step
    if key == "lost":
        step = step.model_copy(
            update={"text": speech.say("lost_again"), "question": speech.say("lost_again")}
        )
    before = OTHER_WORDS[step.kind] if times > 1 and key != "lost" else "unclear"
    return step.model_copy(update={"text": f"{speech.say(before, flow)} {step.text}"})


def progress_key(state: WorkingMemory) -> object:
    """What a conversation has got to: it gets on with a turn after which this is another."""
    flows = {
        flow.flow_name: (flow.values, flow.ready, [name for name, held in flow.slots.items() if held.skipped])
        for flow in state.open_flows
    }
    return (
        state.active_flow and state.active_flow.flow_name,
        flows,
        len(state.flow_history) + state.flows_dropped,
    )


def reset_counts(state: WorkingMemory) -> None:
    """Something came of the turn: what was asked in vain before counts no longer, values refused do."""
    given_up = any(times >= ATTEMPTS_ALLOWED for times in state.question_counts.values())
    state.question_counts = {}
    slots = [held for flow in state.open_flows for held in flow.slots.values()]
    for held in slots:
        if held.attempts and not held.validation_error:
            reset_attempts(state, held)
    if given_up and all(held.attempts < ATTEMPTS_ALLOWED for held in slots):
        state.escalation = ""


# --- a person ---------------------------------------------------------------------------------------------


def take_back_drop(state: WorkingMemory, registry: Flows) -> ActiveFlowState | None:
    """Set the flow aside that the last turn dropped, as it was, so that going back to it can be offered."""
    last = state.flow_history[-1] if state.flow_history else None
    just_dropped = last is not None and (last.reason, last.ended_at_turn) == (DROPPED, state.turn_number - 1)
    if last is None or not just_dropped or last.flow_name not in registry:
        return None
    waiting = defer(state, registry[last.flow_name], len(state.paused))
    waiting.deferred = False
    for name in waiting.slots.keys() & last.slot_values.keys():
        waiting.slots[name].value = last.slot_values[name]
    return waiting


def offer_is_open(state: WorkingMemory) -> bool:
    """Whether the last turn offered a person. The offer lapses with the next message."""
    return state.person_offered_at == state.turn_number and not state.handed_over


def may_offer(state: WorkingMemory) -> bool:
    """Whether a person may be offered: once an episode, never with an open confirmation or after a hand-over."""
    episode_began = state.topic_history[-1].turn_number if state.topic_history else 0
    offered_before = state.person_offered_at is not None and state.person_offered_at >= episode_began
    return not offered_before and state.pending_confirmation is None and not state.handed_over


def offer_person(state: WorkingMemory, reason: str, speech: Speech, flow: Flow | None) -> NextStep:
    """Offers a person. A slot that is awaited stays awaited; its question is not in the same reply."""
    state.person_offered_at, state.escalation = state.turn_number, reason
    text = speech.say("offer_person", flow)
    return NextStep(kind="offer", flow=flow.name if flow is not None else None, text=text, question=text)


def aside(state: WorkingMemory, text: str, choices: Sequence[str] = ()) -> NextStep:
    """An answer that leaves open what was asked: it is not said again, and does not count."""
    running = state.active_flow
    return NextStep(
        kind="answer",
        flow=running.flow_name if running is not None else None,
        slot=running.awaiting if running is not None else None,
        text=text,
        choices=tuple(choices),
    )


def clarifying(state: WorkingMemory) -> tuple[str, ...]:
    """Flows between which the last turn asked to choose; what came of it is kept with the message."""
    last = state.processed[-1].next_step if state.processed else None
    return last.choices if isinstance(last, NextStep) else ()


def open_yes_no(state: WorkingMemory) -> Confirming | None:
    """The yes or no that is open: a confirmation, or the offer of a person."""
    asked = state.pending_confirmation
    if asked is not None:
        return Confirming(flow=asked.flow_name, action=asked.action_description)
    return Confirming(action=default_texts()["offer_person"], handoff=True) if offer_is_open(state) else None
