"""How long a question waits, how often a value is asked for again, and what a turn leaves in working memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Runtime, TurnDecision
from jazzmine_dspy.dialogue.questions import reconcile
from jazzmine_dspy.memory.working import SlotState, WorkingMemory
from jazzmine_dspy.models import Enhancement, Entity, Selection
from jazzmine_dspy.runtime import apply

FILLED = [{"type": "set_slot", "name": "order_id", "value": "4471"}]


def start(flow: str) -> dict[str, str]:
    return {"type": "start_flow", "flow": flow}


def put(value: str, kind: str = "set_slot") -> dict[str, str]:
    return {"type": kind, "name": "order_id", "value": value}


@pytest.fixture
def asked(talk: Any) -> Any:
    talk(start("cancel_order"), *FILLED)
    assert talk.state.status == "awaiting_confirmation"
    return talk


# --- a question that is talked past -----------------------------------------------------------------------


@pytest.mark.row("W6", "U12")
def test_two_turns_of_other_talk_leave_the_question_open_and_yes_runs_the_flow(asked: Any) -> None:
    for _ in range(2):
        assert asked("chitchat").text == "That's kind. Cancel order 4471. Shall I?"
    assert asked("affirm").kind == "run_flow"


@pytest.mark.row("W6", "U12")
def test_the_third_drops_it_unasked_and_its_flow_waits(asked: Any) -> None:
    for _ in range(2):
        asked("chitchat")
    step = asked("chitchat")
    assert (step.kind, step.flow, step.text) == (
        "answer",
        None,
        "I see. What can I do for you?",
    )
    assert (asked.state.status, asked.state.pending_confirmation) == ("idle", None)
    assert (asked.paused, asked.ended) == (["cancel_order"], [])
    # A late yes runs nothing; who comes back to it is asked anew.
    assert asked("affirm").kind == "none"
    step = asked({"type": "resume_flow", "flow": None})
    assert (step.kind, step.text) == ("confirm", "Cancel order 4471. Shall I?")
    assert asked.state.pending_confirmation.drifted_turns == 0


@pytest.mark.row("W6")
@pytest.mark.parametrize(
    "commands",
    [
        ["repeat"],
        [],
        [{"type": "set_slot", "name": "reason", "value": "too_slow"}],
        [{"type": "correct_slot", "name": "order_id", "value": "4472"}],
        [{"type": "clear_slot", "name": "reason"}],
        [{"type": "skip_slot", "name": "reason"}],
        [start("cancel_order")],
        ["chitchat", "repeat"],
    ],
)
def test_turns_about_the_question_do_not_age_it(asked: Any, commands: list[Any]) -> None:
    for _ in range(4):
        asked(*commands)
        assert asked.state.pending_confirmation.drifted_turns == 0


@pytest.mark.row("W6")
@pytest.mark.parametrize(
    "commands",
    [
        ["chitchat"],
        ["ask"],
        ["out_of_scope"],
        ["handoff"],
        [{"type": "clarify", "flows": ["track_order"]}],
        [{"type": "set_slot", "name": "speed", "value": "express"}],
        [{"type": "cancel_flow", "flow": "track_order"}],
        [{"type": "resume_flow", "flow": "track_order"}],
    ],
)
def test_turns_about_something_else_age_it(asked: Any, commands: list[Any]) -> None:
    asked(*commands)
    assert asked.state.pending_confirmation.drifted_turns == 1
    asked(*commands)
    assert asked(*commands).text
    assert (asked.state.status, asked.paused) == ("idle", ["cancel_order"])


@pytest.mark.row("W6")
def test_nothing_understood_ages_the_question_only_where_the_topic_changed(
    asked: Any, decision: Callable[..., TurnDecision]
) -> None:
    for goes_on, drifted in ((True, 0), (False, 1)):
        asked.state, _ = apply(asked.state, decision(is_continuation=goes_on), asked.registry)
        assert asked.state.pending_confirmation.drifted_turns == drifted


@pytest.mark.row("W6", "U11")
@pytest.mark.parametrize("flow", [None, "cancel_order"])
def test_cancelling_in_the_last_moment_still_cancels(asked: Any, flow: str | None) -> None:
    asked("chitchat")
    asked("chitchat")
    asked({"type": "cancel_flow", "flow": flow})
    assert (asked.paused, asked.ended) == ([], [("cancel_order", "cancelled")])


@pytest.mark.row("W6", "M3")
async def test_the_trace_tells_of_a_question_that_expired(make_chat: Any, by_hand: Any) -> None:
    program = by_hand(cancel=(start("cancel_order"), *FILLED))
    chat = make_chat(Runtime(program))
    await chat("cancel")
    for number in range(3):
        outcome = await chat(f"talk {number}", message_id=f"m{number}")
    assert (outcome.state.status, outcome.reply) == ("idle", "I see. What can I do for you?")
    trace = await chat.runtime.messages.get_turn_trace_by_message_id("m2")
    trace = trace or await chat.runtime.messages.get_turn_trace("trace-m2")
    assert trace is not None
    assert [event.outcome for event in trace.confirmation_events] == ["expired"]
    assert ("cancel_order", "paused") in {(event.flow_name, event.event) for event in trace.flow_events}


# --- a value that is refused again and again --------------------------------------------------------------


@pytest.mark.row("W5", "U9")
def test_the_third_refused_value_calls_a_person(talk: Any) -> None:
    talk(start("track_order"))
    for _ in range(2):
        assert talk(put("12")).kind == "reask"
        assert talk.state.escalation == ""
    step = talk(put("12"))
    assert (step.kind, step.flow, step.slot) == ("handoff", "track_order", "order_id")
    assert step.text == "I'll get a person to take over."
    assert talk.state.escalation == (
        "track_order: 3 values for order_id were refused: '12' does not have the right form"
    )
    assert (talk.state.status, talk.state.active_flow.awaiting) == ("collecting_slots", "order_id")
    # The question stays open: a good value still helps.
    assert talk("chitchat").slot == "order_id"
    assert talk(put("4471")).kind == "run_flow"
    assert (talk.state.escalation, talk.state.active_flow.slots["order_id"].attempts) == ("", 0)


@pytest.mark.row("W5", "U9")
def test_a_correction_that_is_refused_three_times_keeps_the_value_and_runs_nothing(talk: Any) -> None:
    talk(start("track_order"))
    talk(put("12"), put("4471"), "handoff")
    for kind in ("reask", "reask", "handoff"):
        assert talk(put("x", "correct_slot")).kind == kind
    assert talk.slots == {"order_id": "4471"}
    assert not talk.state.active_flow.ready
    # Whoever goes on as it was has let the correction be.
    assert talk().kind == "run_flow"
    assert talk.state.escalation == ""


@pytest.mark.row("W5")
def test_a_good_value_in_the_same_message_calls_nobody(talk: Any) -> None:
    talk(start("change_shipping"))
    talk(put("x"))
    talk(put("x"))
    step = talk(put("x"), put("4471"))
    assert step.kind != "handoff"
    assert talk.state.escalation == ""


@pytest.mark.row("W5")
def test_before_a_person_nothing_else_is_run(asked: Any) -> None:
    """The yes is for one flow; the values refused are for the one wished for beside it."""
    three = [{"type": "set_slot", "name": "speed", "value": "warp"}] * 3
    step = asked("affirm", start("change_shipping"), *three)
    assert (step.kind, step.flow) == ("handoff", "change_shipping")
    assert (asked.flow, asked.state.status) == ("cancel_order", "awaiting_confirmation")
    assert not asked.state.active_flow.ready


# --- what a turn leaves in working memory -----------------------------------------------------------------


@pytest.mark.row("W9", "W12")
def test_a_turn_is_begun_with_what_its_decision_found_out(registry: FlowRegistry) -> None:
    decided = TurnDecision(
        enhancement=Enhancement(
            enhanced_query="Where is order 4471?",
            intent="track",
            sentiment_score=-0.5,
            is_continuation=False,
            is_cancellation=True,
            entities=[Entity(name="order 4471", attributes=["late"])],
        ),
        selection=Selection(
            flows=["track_order", "gone"],
            candidates=[("track_order", 0.9), ("cancel_order", 0.2), ("gone", 0.1)],
        ),
        commands=[start("track_order")],
    )
    state, _ = apply(
        WorkingMemory(conversation_id="c1", user_id="u1", agent_id="shop"), decided, registry, message_id="m1"
    )
    turn, flow = state.current_turn, registry["track_order"]
    assert turn is not None
    assert (turn.turn_number, turn.message_id, turn.enhanced_query) == (1, "m1", "Where is order 4471?")
    assert (turn.intent, turn.sentiment_score) == ("track", -0.5)
    assert (turn.is_continuation, turn.is_cancellation) == (False, True)
    assert (turn.selected_flow_ids, turn.unresolved_flow_ids) == ([flow.id_for("shop")], ["gone"])
    assert [(c["flow_name"], c["score"]) for c in turn.flow_candidates] == [
        ("track_order", 0.9),
        ("cancel_order", 0.2),
    ]
    assert turn.combined_flow_prompt == flow.build_prompt(verbose=False)
    assert state.entity_workspace["order 4471"].attributes == ["late"]
    assert [(topic.turn_number, topic.intent) for topic in state.topic_history] == [(1, "track")]
    assert state.started_message_ids == ["m1"]
    # The same message again begins no other turn.
    again, _ = apply(state, decided, registry, message_id="m1")
    assert (again.turn_number, again.started_message_ids, len(again.topic_history)) == (1, ["m1"], 1)
    assert again.entity_workspace == state.entity_workspace


@pytest.mark.row("W8", "W9")
def test_finding_6_the_flows_instructions_stay_while_it_lives(talk: Any) -> None:
    talk(start("change_shipping"))
    flow = talk.registry["change_shipping"]
    for _ in range(3):
        talk("chitchat")
    running = talk.state.active_flow
    assert running.instructions == flow.build_prompt(verbose=False)
    assert (running.flow_id, running.flow_type) == (flow.id_for(""), "flow")
    assert [(slot.name, slot.required, slot.type) for slot in running.slots.values()] == [
        ("order_id", True, "text"),
        ("speed", True, "choice"),
    ]


@pytest.mark.row("W8")
def test_a_flow_whose_definition_changed_goes_on_with_the_new_one(talk: Any) -> None:
    talk(start("change_shipping"), *FILLED)
    changed = talk.registry["change_shipping"].model_dump()
    changed["slots"] = [
        {"name": "speed", "type": "choice", "options": ["standard"], "required": False},
        {"name": "floor", "type": "number"},
    ]
    others = [flow for flow in talk.registry.values() if flow.name != "change_shipping"]
    talk.registry = FlowRegistry([*others, changed])
    assert talk("chitchat").slot == "floor"
    slots = talk.state.active_flow.slots
    assert (slots["order_id"].value, slots["order_id"].required) == ("4471", False)
    assert (slots["speed"].required, slots["floor"]) == (False, SlotState(name="floor", type="number"))
    assert talk({"type": "set_slot", "name": "floor", "value": 0}).kind == "run_flow"


@pytest.mark.row("W8")
def test_a_flow_of_an_older_record_gets_its_definition(talk: Any) -> None:
    talk(start("track_order"))
    talk.state.active_flow.instructions = talk.state.active_flow.flow_id = ""
    talk.state.active_flow.slots = {}
    state = reconcile(talk.state, talk.registry)
    assert state.active_flow is not None
    assert state.active_flow.instructions.startswith('<flow name="track_order"')
    assert list(state.active_flow.slots) == ["order_id"]
    assert talk(put("4471")).kind == "run_flow"


@pytest.mark.row("M3")
async def test_slots_that_nobody_touched_are_no_event(make_chat: Any, by_hand: Any) -> None:
    program = by_hand(go=(start("change_shipping"), *FILLED))
    chat = make_chat(Runtime(program))
    outcome = await chat.runtime.process(conversation_id="c1", user_id="u1", text="go", message_id="m1")
    assert outcome.state.open_trace is not None
    trace = await chat.runtime.messages.get_turn_trace(outcome.state.open_trace)
    assert trace is not None
    assert [event.slot_name for event in trace.slot_events] == ["order_id"]


@pytest.mark.row("W13")
async def test_a_recorded_reply_ends_the_turn(make_chat: Any, by_hand: Any, decision: Any) -> None:
    program = by_hand()
    program.table = {"lamps": decision("chitchat", is_continuation=False)}
    runtime = Runtime(program)
    await runtime.process(conversation_id="c1", user_id="u1", text="lamps")
    await runtime.record_reply("c1", "We have lamps.", "lamps")
    state = await runtime.working_memory.get("c1")
    assert state is not None
    assert (state.last_agent_response, state.last_agent_intent) == ("We have lamps.", "lamps")
    assert [topic.summary for topic in state.topic_history] == ["lamps"]
