"""A message that asks for time is no failure: nothing is asked again, counted, or left to lapse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.dialogue.next_step import apply_decision
from jazzmine_dspy.memory.working import ProcessedMessage, WorkingMemory
from jazzmine_dspy.models import Enhancement, FlowRegistry, Selection, TurnDecision
from jazzmine_dspy.runtime import NextStep, apply

Decide = Callable[..., TurnDecision]
PAUSE = TurnDecision(
    enhancement=Enhancement(enhanced_query="hang on", is_continuation=False),
    selection=Selection(),
    pause=True,
)
CANCEL = {"type": "start_flow", "flow": "cancel_order"}
FILLED = {"type": "set_slot", "name": "order_id", "value": "4471"}


def wait(talk: Any) -> NextStep:
    talk.state, step = apply(talk.state, PAUSE, talk.registry)
    assert isinstance(step, NextStep)
    return step


@pytest.mark.row("U18")
def test_a_pause_is_answered_without_the_question_and_counts_nothing(talk: Any) -> None:
    talk(CANCEL)
    for _ in range(6):
        step = wait(talk)
        assert (step.kind, step.flow, step.slot, step.text) == (
            "answer", "cancel_order", "order_id", "Take your time.",
        )  # fmt: skip
    assert talk.state.question_counts == {"cancel_order.order_id": 1}
    assert talk.state.active_flow.slots["order_id"].attempts == 0
    # What is not understood afterwards is the first failure.
    assert talk().kind == "reask"
    assert talk(FILLED).kind == "confirm"


@pytest.mark.row("W6", "U18")
def test_a_confirmation_does_not_age_while_the_user_looks_something_up(talk: Any) -> None:
    talk(CANCEL, FILLED)
    for _ in range(6):
        assert (wait(talk).kind, talk.state.pending_confirmation.drifted_turns) == ("answer", 0)
    assert talk("affirm").kind == "run_flow"


@pytest.mark.row("W6")
def test_a_yes_after_expiry_runs_nothing(talk: Any) -> None:
    talk(CANCEL, FILLED)
    for _ in range(3):
        talk("chitchat")
    assert (talk.state.pending_confirmation, talk.paused) == (None, ["cancel_order"])
    for _ in range(2):
        assert talk("affirm").kind != "run_flow"
    assert talk.ended == []
    # Who goes back to it is asked again.
    assert talk({"type": "resume_flow", "flow": "cancel_order"}).kind == "confirm"


@pytest.mark.row("U18")
def test_offers_and_choices_survive_a_pause(talk: Any) -> None:
    talk(CANCEL)
    talk({"type": "start_flow", "flow": "track_order"})
    assert talk({"type": "cancel_flow"}).kind == "resume"
    wait(talk)
    assert talk.state.offered_flow == "cancel_order"
    unclear = talk({"type": "clarify", "flows": ["track_order", "cancel_order"]})
    handled = ProcessedMessage(message_id="m1", next_step=unclear)
    talk.state = talk.state.model_copy(update={"processed": [handled]})
    assert wait(talk).choices == ("track_order", "cancel_order")


@pytest.mark.row("U18")
def test_what_is_repeated_after_a_pause_is_the_question(talk: Any) -> None:
    asked = talk(CANCEL).text
    talk.state.last_agent_response = wait(talk).text
    assert asked in talk("repeat").text


@pytest.mark.row("U18")
def test_commands_count_even_beside_a_pause(registry: FlowRegistry, decision: Decide) -> None:
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    both = decision(CANCEL, FILLED).model_copy(update={"pause": True})
    _, step, _ = apply_decision(state, both, registry)
    assert step.kind == "confirm"


@pytest.mark.row("U18")
def test_a_flow_has_its_own_words_for_it(decision: Decide) -> None:
    flow = {
        "name": "pay",
        "description": "Pay.",
        "responses": {"wait": "No rush."},
        "slots": [{"name": "bill", "type": "text"}],
    }
    registry = FlowRegistry([flow])
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    state, _ = apply(state, decision({"type": "start_flow", "flow": "pay"}), registry)
    assert apply(state, PAUSE, registry)[1].text == "No rush."
