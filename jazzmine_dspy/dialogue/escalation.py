"""The offer of a person, and what is said after a hand-over."""

from __future__ import annotations

from jazzmine_dspy.dialogue.texts import say
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.next_step import NextStep
from jazzmine_dspy.models.turn import Confirming


def offer_is_open(state: WorkingMemory) -> bool:
    """Whether the last turn offered a person. The offer lapses with the next message."""
    return state.person_offered_at == state.turn_number and not state.handed_over


def may_offer(state: WorkingMemory) -> bool:
    """Whether a person may be offered: once an episode, never with an open confirmation or after a hand-over."""
    episode_began = state.topic_history[-1].turn_number if state.topic_history else 0
    offered_before = state.person_offered_at is not None and state.person_offered_at >= episode_began
    return not offered_before and state.pending_confirmation is None and not state.handed_over


def offer(state: WorkingMemory, reason: str, flow: Flow | None) -> NextStep:
    """Offers a person. A slot that is awaited stays awaited; its question is not in the same reply."""
    state.person_offered_at, state.escalation = state.turn_number, reason
    text = say("offer_person", flow)
    return NextStep(kind="offer", flow=flow.name if flow is not None else None, text=text, question=text)


def after_hand_over(state: WorkingMemory, flow: Flow | None, *, brief: bool) -> NextStep:
    """The answer to talk, or to a message that is not understood, while a person is on the way.

    Args:
        brief: Leave out that a person takes over, as after thanks.
    """
    running = state.active_flow
    return NextStep(
        kind="answer",
        flow=running.flow_name if running is not None else None,
        slot=running.awaiting if running is not None else None,
        text="" if brief else say("handed_over", flow),
    )


def asked_which(state: WorkingMemory) -> bool:
    """Whether the last reply asked which flow is meant."""
    last = state.processed[-1].next_step if state.processed else None
    return isinstance(last, NextStep) and bool(last.choices)


def open_yes_no(state: WorkingMemory) -> Confirming | None:
    """The yes or no that is open: a confirmation, or the offer of a person."""
    asked = state.pending_confirmation
    if asked is not None:
        return Confirming(flow=asked.flow_name, action=asked.action_description)
    return Confirming(action=say("offer_person"), handoff=True) if offer_is_open(state) else None
