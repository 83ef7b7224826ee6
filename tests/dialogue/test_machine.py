"""Commands carried out: each kind, alone and together, legal and not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.models import Entity, FlowRegistry, TurnDecision
from jazzmine_dspy.models.decision import StageRecord
from jazzmine_dspy.runtime import NextStep, apply

SHOP = Path(__file__).parent.parent / "support" / "shop.yaml"
FILLED = [{"type": "set_slot", "name": "order_id", "value": "4471"}]


def start(flow: str) -> dict[str, str]:
    return {"type": "start_flow", "flow": flow}


def put(name: str, value: Any) -> dict[str, Any]:
    return {"type": "set_slot", "name": name, "value": value}


def correct(name: str, value: Any) -> dict[str, Any]:
    return {"type": "correct_slot", "name": name, "value": value}


# --- collecting -------------------------------------------------------------------------------------------


def test_a_flow_asks_for_what_it_needs_and_then_runs(talk: Any) -> None:
    assert talk(start("change_shipping")) == NextStep(
        kind="ask_slot", flow="change_shipping", slot="order_id", text="Which order?", question="Which order?"
    )
    assert talk.state.status == "collecting_slots"
    step = talk(put("order_id", "4471"))
    assert (step.kind, step.slot) == ("ask_slot", "speed")
    assert step.text == "Please tell me this: speed (standard or express)."
    step = talk(put("speed", "express"))
    assert (step.kind, step.flow, talk.state.status) == ("run_flow", "change_shipping", "in_flow")
    assert talk.slots == {"order_id": "4471", "speed": "express"}


@pytest.mark.row("U6")
def test_several_commands_of_one_message_are_carried_out_in_their_order(talk: Any) -> None:
    """The last value counts, and what stood before a correction is kept."""
    step = talk(start("change_shipping"), put("order_id", "4471"), put("speed", "standard"))
    assert (step.kind, talk.slots) == ("run_flow", {"order_id": "4471", "speed": "standard"})
    talk = type(talk)(talk.registry, talk.decide)
    talk(start("change_shipping"), put("order_id", "4471"))
    step = talk(correct("order_id", "3302"), correct("order_id", "5555"), put("speed", "express"))
    held = talk.state.active_flow.slots["order_id"]
    assert (held.value, held.previous_value) == ("5555", "3302")
    assert (step.kind, talk.slots) == ("run_flow", {"order_id": "5555", "speed": "express"})
    both = type(talk)(talk.registry, talk.decide)
    both(start("track_order"), start("change_shipping"), put("order_id", "1111"))
    assert (both.flow, both.paused) == ("track_order", ["change_shipping"])


def test_a_flow_without_slots_runs_at_once(talk: Any) -> None:
    assert talk(start("opening_hours")).kind == "run_flow"


def test_a_flow_handed_out_is_done_when_the_next_message_comes(talk: Any) -> None:
    talk(start("track_order"), *FILLED)
    assert talk.ended == []
    idle = "What can I do for you?"
    assert talk("chitchat") == NextStep(kind="answer", text=f"I see. {idle}", question=idle)
    assert talk.ended == [("track_order", "completed")]
    assert talk.state.flow_history[0].slot_values == {"order_id": "4471"}
    assert talk.state.status == "idle"


def test_several_slots_come_in_one_message_also_unasked_ones(talk: Any) -> None:
    talk(start("change_shipping"))
    assert talk(put("speed", "express"), put("order_id", "4471")).kind == "run_flow"


def test_a_flow_that_requires_nothing_asks_until_it_holds_something(talk: Any) -> None:
    assert talk(start("update_contact")).text == "Which number?"
    assert talk({"type": "skip_slot", "name": "phone"}).text == "Which address?"
    assert talk(put("email", "a@b.example")).text == "Use a@b.example?"


def test_a_flow_whose_every_slot_is_skipped_is_not_stuck(talk: Any) -> None:
    talk(start("update_contact"))
    talk({"type": "skip_slot", "name": "phone"})
    step = talk({"type": "skip_slot", "name": "email"})
    assert (step.kind, step.text) == ("confirm", "Use?")


def test_an_optional_slot_that_is_missing_leaves_no_gap(talk: Any) -> None:
    assert talk(start("cancel_order"), *FILLED).text == "Cancel order 4471. Shall I?"


def test_a_required_slot_that_is_skipped_is_asked_for_last(talk: Any) -> None:
    talk(start("change_shipping"))
    assert talk({"type": "skip_slot", "name": "order_id"}).slot == "speed"
    assert talk(put("speed", "express")).slot == "order_id"
    step = talk({"type": "skip_slot", "name": "order_id"})
    assert (step.kind, step.text) == ("reask", "Four digits, please.")


@pytest.mark.parametrize(("name", "value"), [("order_id", "12"), ("order_id", "44711"), ("speed", "warp")])
def test_an_invalid_value_is_not_stored_and_asked_again(talk: Any, name: str, value: str) -> None:
    talk(start("change_shipping"))
    step = talk(put(name, value))
    assert (step.kind, step.slot) == ("reask", name)
    assert talk.slots == {}
    assert talk.state.active_flow is not None
    held = talk.state.active_flow.slots[name]
    assert (held.attempts, talk.state.active_flow.awaiting) == (1, name)
    assert value in held.validation_error
    talk(put(name, value))
    assert talk.state.active_flow.slots[name].attempts == 2


def test_a_value_after_an_invalid_one_clears_the_error(talk: Any) -> None:
    talk(start("track_order"))
    talk(put("order_id", "12"))
    talk(put("order_id", "4471"))
    assert talk.state.active_flow is not None
    held = talk.state.active_flow.slots["order_id"]
    assert (held.value, held.validation_error, held.attempts, held.collected_at_turn) == ("4471", "", 0, 3)


def test_an_invalid_correction_keeps_the_value_held(talk: Any) -> None:
    talk(start("cancel_order"), *FILLED)
    assert talk(correct("order_id", "9")).kind == "reask"
    assert talk.slots == {"order_id": "4471"}


def test_a_correction_keeps_the_previous_value_and_clearing_asks_again(talk: Any) -> None:
    talk(start("change_shipping"), *FILLED)
    talk(correct("order_id", "4472"))
    assert talk.state.active_flow is not None
    assert talk.state.active_flow.slots["order_id"].previous_value == "4471"
    step = talk({"type": "clear_slot", "name": "order_id"})
    assert (step.kind, step.slot) == ("ask_slot", "order_id")
    assert talk.state.active_flow.slots["order_id"].previous_value == "4472"


def test_falsy_values_fill_slots(make_talk: Any) -> None:
    slots = [{"name": "count", "type": "number"}, {"name": "urgent", "type": "boolean"}]
    talk = make_talk(FlowRegistry([{"name": "f", "description": "d", "slots": slots}]))
    talk(start("f"), put("count", 0))
    assert talk(put("urgent", False)).kind == "run_flow"


# --- yes and no -------------------------------------------------------------------------------------------


@pytest.fixture
def asked(talk: Any) -> Any:
    talk(start("cancel_order"), *FILLED)
    assert talk.state.status == "awaiting_confirmation"
    assert talk.state.pending_confirmation is not None
    assert talk.state.pending_confirmation.action_payload == {"order_id": "4471"}
    return talk


def test_yes_runs_the_flow_once(asked: Any) -> None:
    assert asked("affirm").kind == "run_flow"
    assert asked.state.pending_confirmation is None
    assert asked("affirm").kind == "none"
    assert asked.ended == [("cancel_order", "completed")]


def test_no_keeps_the_flow_and_asks_what_should_be_different(asked: Any) -> None:
    step = asked("deny")
    assert (step.kind, step.slot, step.flow) == ("reask", None, "cancel_order")
    assert asked.slots == {"order_id": "4471"}
    assert asked.state.status == "in_flow"
    assert asked(correct("order_id", "4472")).text == "Cancel order 4472. Shall I?"


def test_no_with_the_slot_named_asks_for_it(asked: Any) -> None:
    step = asked({"type": "deny", "slot": "order_id"})
    assert (step.kind, step.slot) == ("ask_slot", "order_id")


def test_no_with_a_change_asks_again_with_the_new_value(asked: Any) -> None:
    step = asked({"type": "deny", "slot": "order_id"}, correct("order_id", "4472"))
    assert (step.kind, step.text) == ("confirm", "Cancel order 4472. Shall I?")
    assert asked.state.active_flow is not None
    assert asked.state.active_flow.slots["order_id"].previous_value == "4471"


def test_yes_with_something_added_goes_ahead_with_it(asked: Any) -> None:
    assert asked(put("reason", "too_slow"), "affirm").kind == "run_flow"
    assert asked.slots == {"order_id": "4471", "reason": "too_slow"}


def test_yes_with_another_value_is_asked_again(asked: Any) -> None:
    assert asked("affirm", correct("order_id", "4472")).text == "Cancel order 4472. Shall I?"


def test_yes_and_another_wish_runs_the_first_and_takes_up_the_second(asked: Any) -> None:
    step = asked(start("track_order"), "affirm")
    assert (step.kind, step.flow, step.then) == ("run_flow", "cancel_order", ())
    assert step.text == "Done: cancel order. Which order?"
    assert asked(put("order_id", "5555")).flow == "track_order"
    assert asked.ended == [("cancel_order", "completed")]


@pytest.mark.row("U9", "U18")
def test_who_is_not_understood_is_asked_in_other_words_and_then_handed_over(talk: Any) -> None:
    talk(start("change_shipping"))
    said = [talk() for _ in range(5)]
    assert [step.kind for step in said] == ["reask", "reask", "ask_slot", "handoff", "answer"]
    assert [step.slot for step in said[:3]] == ["order_id", "order_id", "speed"]
    assert len({step.text for step in said[:4]}) == 4
    # "Four digits, please" is for a number that was wrong.
    assert said[4].text == "A person will take over from here."
    assert said[0].text == "I didn't understand that. Which order?"
    asked_again = "I didn't understand that. Once more, please tell me this: order id."
    assert said[1].text == f"{asked_again} You can also ask for a person."
    assert talk.state.escalation == "change_shipping: order_id was asked for 3 times in vain"
    assert talk(put("order_id", "4471")).slot == "speed"
    assert talk.state.escalation == ""
    assert talk().kind == "reask"


@pytest.mark.row("U9")
def test_refused_and_not_understood_count_together(talk: Any) -> None:
    talk(start("change_shipping"))
    assert [talk(put("order_id", "12")).kind, talk().kind, talk(put("order_id", "13")).kind] == [
        "reask",
        "reask",
        "handoff",
    ]


def test_yes_and_no_without_a_question_change_nothing(talk: Any) -> None:
    for act in ("affirm", "deny"):
        assert talk(act).kind == "none"
        talk(start("track_order"))
        assert talk(act).kind == "reask"
        talk("restart")
        talk("cancel_flow")


@pytest.mark.row("U12")
def test_what_was_understood_is_rejected_and_the_values_stay(talk: Any) -> None:
    talk(start("change_shipping"), *FILLED)
    step = talk("deny")
    assert (step.kind, step.slot, step.text) == ("reask", None, "Sorry. What should be different?")
    assert (talk.slots, talk.state.status, talk.state.active_flow.awaiting) == (
        {"order_id": "4471"},
        "in_flow",
        None,
    )
    assert talk(correct("order_id", "4472")).slot == "speed"
    step = talk({"type": "deny", "slot": "order_id"})
    assert (step.kind, step.slot, talk.slots) == ("ask_slot", "order_id", {})


@pytest.mark.row("U12")
def test_a_slot_that_the_flow_does_without_is_asked_for_where_a_no_names_it(talk: Any) -> None:
    talk(start("cancel_order"), *FILLED, put("reason", "too_slow"))
    step = talk({"type": "deny", "slot": "reason"})
    assert (step.kind, step.slot, talk.slots) == ("ask_slot", "reason", {"order_id": "4471"})
    assert talk(put("reason", "wrong_item")).kind == "confirm"
    # To be left out, it is not.
    step = talk({"type": "deny", "slot": "reason"}, {"type": "clear_slot", "name": "reason"})
    assert (step.kind, talk.slots) == ("confirm", {"order_id": "4471"})


@pytest.mark.row("U10")
@pytest.mark.parametrize("act", ["ask", "chitchat", "out_of_scope", "repeat"])
def test_talk_leaves_the_question_open_and_asks_it_again(asked: Any, act: str) -> None:
    before = asked.state
    step = asked(act)
    assert step.kind == "answer"
    drifted = before.pending_confirmation.model_copy(update={"drifted_turns": 0 if act == "repeat" else 1})
    assert asked.state.pending_confirmation == drifted
    assert asked.state.active_flow == before.active_flow
    if act != "repeat":
        assert step.text.endswith(" Cancel order 4471. Shall I?")


# --- talk -------------------------------------------------------------------------------------------------


@pytest.mark.row("U10")
def test_talk_in_a_flow_uses_the_flows_words_and_asks_on(talk: Any) -> None:
    talk(start("cancel_order"))
    assert talk("chitchat").text == "That's kind. Which order?"
    assert talk({"type": "ask", "topic": "fees"}).text == "I can't answer that here. Which order?"


def test_a_value_and_a_question_in_one_message_are_both_served(talk: Any) -> None:
    talk(start("change_shipping"))
    step = talk(*FILLED, {"type": "ask", "topic": "fees"})
    assert (step.kind, step.slot) == ("ask_slot", "speed")
    assert step.text.startswith("I can't answer that here. Please")


def test_repeat_says_the_last_reply_again(talk: Any) -> None:
    talk(start("track_order"))
    assert talk("repeat").text == "I haven't said anything yet. Which order?"
    talk.state.last_agent_response = "Which order, please?"
    assert talk("repeat") == NextStep(
        kind="answer", flow="track_order", slot="order_id", text="Which order, please?"
    )


def test_clarify_names_the_flows_and_touches_nothing(talk: Any) -> None:
    talk(start("change_shipping"))
    before = talk.state
    step = talk({"type": "clarify", "flows": ["track_order", "cancel_order", "no_such_flow"]})
    assert (step.kind, step.text) == ("clarify", "Which do you mean: track order or cancel order?")
    assert (talk.state.active_flow, talk.state.paused) == (before.active_flow, before.paused)


@pytest.mark.row("U12")
@pytest.mark.parametrize("first", ["affirm", "clear"])
def test_a_yes_is_for_the_values_in_the_question(asked: Any, first: str) -> None:
    """Also where the old value is taken back before another one comes."""
    clear = {"type": "clear_slot", "name": "order_id"}
    commands = (
        [clear, put("order_id", "5519"), "affirm"]
        if first == "clear"
        else ["affirm", clear, put("order_id", "5519")]
    )
    step = asked(*commands)
    assert (step.kind, step.text) == ("confirm", "Cancel order 5519. Shall I?")
    assert asked("affirm").kind == "run_flow"


def test_handoff_leaves_the_stack_for_the_person_who_takes_over(asked: Any) -> None:
    assert asked("handoff").kind == "handoff"
    assert (asked.flow, asked.state.status) == ("cancel_order", "awaiting_confirmation")


def test_a_person_takes_over_before_anything_is_run(asked: Any) -> None:
    assert asked("affirm", "handoff").kind == "handoff"
    assert (asked.state.status, asked.state.pending_confirmation.action_payload) == (
        "awaiting_confirmation",
        {"order_id": "4471"},
    )
    asked(start("track_order"), *FILLED, "handoff")
    assert asked.state.active_flow.ready is False
    assert asked().kind == "run_flow"


def test_yes_and_an_unclear_wish_runs_the_flow_and_asks(asked: Any) -> None:
    step = asked("affirm", {"type": "clarify", "flows": ["track_order", "change_shipping"]})
    assert step.kind == "run_flow"
    assert step.text == "Done: cancel order. Which do you mean: track order or change shipping?"


def test_nothing_understood_asks_again_or_says_so(talk: Any) -> None:
    assert talk() == NextStep(
        kind="none",
        text="I didn't understand that. I can help with this, for example: track order, cancel order or change "
        "shipping. What can I do for you?",
        question="What can I do for you?",
    )
    talk(start("track_order"))
    assert talk().text == "I didn't understand that. Which order?"


def test_what_does_not_fit_the_state_changes_nothing(talk: Any) -> None:
    talk(start("track_order"))
    before = talk.state.active_flow.model_copy(deep=True)
    # The question was put in vain, and that is counted.
    before.slots["order_id"].attempts = 1
    step = talk(
        start("no_such_flow"), {"type": "resume_flow", "flow": "cancel_order"}, put("speed", "express"),
        {"type": "clear_slot", "name": "order_id"}, {"type": "cancel_flow", "flow": "cancel_order"}, "affirm",
    )  # fmt: skip
    assert step.kind == "reask"
    assert (talk.state.active_flow, talk.paused, talk.ended) == (before, [], [])


# --- what a turn adds to the state ------------------------------------------------------------------------


def test_sentiments_and_entities_are_kept(talk: Any, decision: Callable[..., TurnDecision]) -> None:
    for turn, score in enumerate([0.5, -0.25] * 8, start=1):
        said = decision(sentiment_score=score, entities=[Entity(name="blue rug")] if turn == 14 else [])
        talk.state, _ = apply(talk.state, said, talk.registry)
    assert talk.state.sentiments == [0.5, -0.25] * 5
    assert [(entity.name, entity.last_seen_turn) for entity in talk.state.entity_workspace.values()] == [
        ("blue rug", 14)
    ]


def test_the_default_of_an_outage_is_no_sentiment(talk: Any, decision: Callable[..., TurnDecision]) -> None:
    stages = {"enhance": StageRecord(source="fallback", degraded=True, cause="down")}
    down = decision("chitchat").model_copy(update={"stages": stages})
    state, _ = apply(talk.state, down, talk.registry)
    assert state.sentiments == []
