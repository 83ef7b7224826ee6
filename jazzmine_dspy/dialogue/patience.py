"""How often a question is put: what counts as the same one, and in which words it is put again (U18)."""

from __future__ import annotations

from collections.abc import Collection

from jazzmine_dspy.dialogue.events import Changes
from jazzmine_dspy.dialogue.texts import say
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.memory.working.operations.slots import reset_attempts
from jazzmine_dspy.memory.working.state import ATTEMPTS_ALLOWED
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.next_step import NextStep

OTHER_WORDS = {"confirm": "confirm_again", "clarify": "clarify_again", "none": "lost_again"}
"""The key of what is said before a question of each kind that was put in vain twice."""


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
    if step.kind == "answer" and step.question:
        return "idle"
    return "lost" if step.kind in ("none", "clarify") else None


def may_put(state: WorkingMemory, questions: Collection[str]) -> bool:
    """Whether questions may be put once more."""
    return all(state.question_counts.get(question, 0) < ATTEMPTS_ALLOWED for question in questions)


def count(state: WorkingMemory, questions: Collection[str]) -> None:
    """Note that questions are put."""
    for question in questions:
        state.question_counts[question] = state.question_counts.get(question, 0) + 1


def in_other_words(state: WorkingMemory, step: NextStep, flow: Flow | None) -> NextStep:
    """A question that is put again, since nothing of the answer to it was understood."""
    key = question_of(state, step)
    times = state.question_counts.get(key or "", 0)
    if times == 0 or step.kind not in OTHER_WORDS:
        return step
    if key == "lost":
        again = say("lost_again")
        return step.model_copy(update={"text": f"{say('unclear')} {again}", "question": again})
    before = say(OTHER_WORDS[step.kind] if times > 1 else "unclear", flow)
    return step.model_copy(update={"text": f"{before} {step.text}"})


def got_to(state: WorkingMemory) -> object:
    """What a conversation has got to: it gets on with a turn after which this is another."""
    flows = {
        flow.flow_name: (flow.values, flow.ready, [name for name, held in flow.slots.items() if held.skipped])
        for flow in state.open_flows
    }
    running = state.active_flow.flow_name if state.active_flow else None
    return running, flows, len(state.flow_history) + state.flows_dropped


def got_on(state: WorkingMemory, changes: Changes) -> None:
    """Something came of the turn: what was asked in vain before counts no longer, values refused do."""
    given_up = any(times >= ATTEMPTS_ALLOWED for times in state.question_counts.values())
    state.question_counts = {}
    for flow in state.open_flows:
        for name, held in flow.slots.items():
            if held.attempts and not held.validation_error:
                changes.slot(flow, name)
                reset_attempts(state, held)
    refused = any(
        held.attempts >= ATTEMPTS_ALLOWED for flow in state.open_flows for held in flow.slots.values()
    )
    if given_up and not refused:
        state.escalation = ""
