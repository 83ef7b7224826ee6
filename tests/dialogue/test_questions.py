"""U18: no question is put more than three times without progress; then another one, then a person."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazzmine_dspy.dialogue.texts import Speech
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import Enhancement, FlowRegistry, Selection, TurnDecision
from jazzmine_dspy.models.decision import StepKind
from jazzmine_dspy.runtime import NextStep, apply

SHOP = Path(__file__).parent.parent / "support" / "shop.yaml"
REGISTRY = FlowRegistry.from_yaml(SHOP)
FILLED = {"type": "set_slot", "name": "order_id", "value": "4471"}


def start(flow: str) -> dict[str, str]:
    return {"type": "start_flow", "flow": flow}


# --- one question after another ---------------------------------------------------------------------------


@pytest.mark.row("U18")
def test_a_confirmation_is_put_in_other_words_and_then_a_person_takes_over(talk: Any) -> None:
    asked = talk(start("cancel_order"), FILLED).text
    assert [talk().text for _ in range(2)] == [
        f"I didn't understand that. {asked}",
        f"Please say yes or no. {asked}",
    ]
    step = talk()
    assert (step.kind, step.flow) == ("handoff", "cancel_order")
    assert talk.state.escalation == "cancel_order: asked in vain too often (confirm)"
    # It is still open. A yes may be about the person, so the question is put again.
    assert talk("affirm").text == asked
    assert talk("affirm").kind == "run_flow"
    assert talk.state.escalation == ""


@pytest.mark.row("U18")
def test_a_question_that_lapses_and_comes_back_is_the_same(talk: Any) -> None:
    talk(start("cancel_order"), FILLED)
    kinds = [talk({"type": "resume_flow", "flow": None}).kind for _ in range(3)]
    assert kinds == ["confirm", "confirm", "handoff"]


@pytest.mark.row("U18")
def test_no_and_nothing_else_is_asked_about_three_times(talk: Any) -> None:
    talk(start("cancel_order"), FILLED)
    kinds = [talk(*said).kind for said in (["deny"], [], ["deny"], [], ["deny"], [])]
    assert kinds == ["reask", "confirm", "reask", "confirm", "reask", "handoff"]


@pytest.mark.row("U18")
def test_which_of_these_is_asked_three_times(talk: Any) -> None:
    unclear = {"type": "clarify", "flows": ["track_order", "cancel_order"]}
    said = [talk(unclear) for _ in range(4)]
    assert [step.kind for step in said] == ["clarify", "clarify", "clarify", "handoff"]
    assert len({step.text for step in said}) == 4
    assert talk(start("track_order")).slot == "order_id"
    assert talk(unclear).kind == "clarify"


@pytest.mark.row("U18")
def test_with_nothing_running_the_fourth_is_for_a_person(talk: Any) -> None:
    assert [talk().kind for _ in range(4)] == ["none", "none", "none", "handoff"]
    assert talk("chitchat").kind == "answer"
    assert talk(start("opening_hours")).kind == "run_flow"
    assert talk().kind == "none"


@pytest.mark.row("U18", "U10")
def test_talk_is_answered_for_ever_and_the_question_is_not_put_for_ever(talk: Any) -> None:
    asked = talk(start("cancel_order")).text
    said = [talk("ask") for _ in range(4)]
    no_answer = "I can't answer that here."
    others = "I can help with this, for example: track order, change shipping or update contact."
    assert [step.text for step in said] == [
        *[f"{no_answer} {asked}"] * 2,
        f"{no_answer} {others}",
        no_answer,
    ]
    # The question is open all the same.
    assert {(step.kind, step.slot) for step in said} == {("answer", "order_id")}
    assert talk(FILLED).kind == "confirm"


@pytest.mark.row("U18", "U9")
def test_talk_before_it_takes_no_try_from_who_answers(talk: Any) -> None:
    talk(start("track_order"))
    for _ in range(3):
        talk("ask")
    wrong = {"type": "set_slot", "name": "order_id", "value": "12"}
    assert [talk(wrong).kind for _ in range(3)] == ["reask", "reask", "handoff"]


@pytest.mark.row("U18")
def test_another_slot_is_asked_for_once_and_what_is_given_counts(talk: Any) -> None:
    talk(start("change_shipping"))
    for _ in range(3):
        step = talk()
    assert step.text == "I didn't understand that. Please tell me this: speed (standard or express)."
    assert talk.state.active_flow.awaiting == "speed"
    assert talk.state.escalation == ""
    # With that the conversation gets on: the first question is put anew.
    step = talk({"type": "set_slot", "name": "speed", "value": "express"})
    assert (step.kind, step.slot) == ("ask_slot", "order_id")
    assert [talk().kind for _ in range(3)] == ["reask", "reask", "handoff"]


@pytest.mark.row("U18")
def test_who_asks_again_and_again_what_was_said_gets_a_person(talk: Any) -> None:
    talk(start("track_order"))
    talk.state.last_agent_response = "Which order?"
    assert [talk("repeat").kind for _ in range(3)] == ["answer", "answer", "handoff"]


# --- any talk at all --------------------------------------------------------------------------------------

FLOWS = st.sampled_from([*REGISTRY, "x"])
SLOTS = st.sampled_from(["order_id", "reason", "speed", "phone", "email", "x"])
SAID = st.one_of(
    st.sampled_from(
        ["affirm", "deny", "ask", "repeat", "restart", "chitchat", "handoff", "out_of_scope"]
    ).map(lambda kind: {"type": kind}),
    FLOWS.map(start),
    SLOTS.map(lambda slot: {"type": "deny", "slot": slot}),
    st.tuples(st.sampled_from(["resume_flow", "cancel_flow"]), st.none() | FLOWS).map(
        lambda pair: {"type": pair[0], "flow": pair[1]}
    ),
    st.lists(FLOWS, max_size=3).map(lambda flows: {"type": "clarify", "flows": flows}),
    st.tuples(SLOTS, st.sampled_from(["4471", "12", "express", "too_slow", "a@b.example"])).map(
        lambda pair: {"type": "set_slot", "name": pair[0], "value": pair[1]}
    ),
    st.tuples(st.sampled_from(["clear_slot", "skip_slot"]), SLOTS).map(
        lambda pair: {"type": pair[0], "name": pair[1]}
    ),
)
# Much of it is not understood, or the same again: that is where questions come back.
TURN = st.just([]) | SAID.map(lambda one: [one]) | st.lists(SAID, max_size=4)
TALK = st.lists(st.tuples(TURN, st.integers(1, 5)), max_size=6).map(
    lambda turns: [said for said, times in turns for _ in range(times)]
)


def where(state: WorkingMemory) -> Any:
    """What a conversation has got to."""
    flows = {
        flow.flow_name: (flow.values, [name for name, held in flow.slots.items() if held.skipped])
        for flow in state.open_flows
    }
    running = state.active_flow.flow_name if state.active_flow else None
    return running, flows, len(state.flow_history)


def questions(state: WorkingMemory, step: NextStep) -> set[str]:
    """The questions that a reply really puts, by its words."""
    running, asked = state.active_flow, state.pending_confirmation
    if step.kind in ("run_flow", "handoff"):
        return set()
    texts = {"which": "Which do you mean", "no": "What should be different?", "back": "Shall we go back"}
    texts |= {"idle": "What can I do for you?"}
    if asked is not None and running is not None:
        texts[f"{running.flow_name}?"] = asked.action_description
    if running is not None and running.awaiting is not None:
        flow = REGISTRY[running.flow_name]
        slot = flow.slot(running.awaiting)
        assert slot is not None
        for again in (False, True):
            text = Speech(REGISTRY).question(flow, slot, running.values, again=again)
            if text in step.text:
                texts[f"{running.flow_name}.{slot.name}"] = text
    return {name for name, text in texts.items() if text in step.text}


@pytest.mark.fuzz
@pytest.mark.row("U18", "U11")
@settings(max_examples=80)
@given(TALK)
def test_any_talk_gets_a_typed_step_and_no_question_four_times(turns: list[list[Any]]) -> None:
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    times: Counter[str] = Counter()
    for said in turns:
        decided = TurnDecision(
            enhancement=Enhancement(enhanced_query="x"), selection=Selection(), commands=said
        )
        before, was = state, where(state)
        state, step = apply(state, decided, REGISTRY)
        state.last_agent_response = step.text
        assert step.kind in get_args(StepKind)
        assert step.text.strip()
        assert (step.kind == "resume") == (state.offered_flow is not None)
        assert state.offered_flow in (None, *[flow.flow_name for flow in state.paused])
        known = {flow.flow_name for flow in [*state.open_flows, *state.flow_history]}
        assert {flow.flow_name for flow in before.open_flows} <= known, "a flow was lost"
        tries = [
            held.attempts
            for flow in state.open_flows
            for held in flow.slots.values()
            if held.validation_error
        ]
        answered = sum(tries) and any(one["type"] == "set_slot" for one in said)
        if where(state) != was or answered:
            times.clear()
        times.update(questions(state, step))
        assert not times or max(times.values()) <= 3, f"{times} after {step}"
