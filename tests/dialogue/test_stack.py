"""Flows started, paused, resumed, cancelled and lined up by commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.dialogue.questions import complete
from jazzmine_dspy.memory.working.state import PAUSED_KEPT
from jazzmine_dspy.models import FlowRegistry
from pure_operations import begin_action

SHOP = Path(__file__).parent.parent / "support" / "shop.yaml"
FILLED = [{"type": "set_slot", "name": "order_id", "value": "4471"}]


def start(flow: str) -> dict[str, str]:
    return {"type": "start_flow", "flow": flow}


def put(name: str, value: Any) -> dict[str, Any]:
    return {"type": "set_slot", "name": name, "value": value}


@pytest.fixture
def asked(talk: Any) -> Any:
    talk(start("cancel_order"), *FILLED)
    return talk


@pytest.mark.row("U11")
def test_a_new_wish_pauses_the_running_flow_with_its_slots(talk: Any) -> None:
    talk(start("change_shipping"), *FILLED)
    assert talk(start("cancel_order")).slot == "order_id"
    assert (talk.flow, talk.slots, talk.paused) == ("cancel_order", {}, ["change_shipping"])
    assert talk.state.paused[0].values == {"order_id": "4471"}
    step = talk({"type": "resume_flow", "flow": None})
    assert (step.slot, talk.slots, talk.paused) == ("speed", {"order_id": "4471"}, ["cancel_order"])


def test_a_paused_confirmation_is_asked_anew_when_the_flow_is_resumed(asked: Any) -> None:
    asked(start("track_order"))
    assert asked.state.pending_confirmation is None
    assert asked("affirm").kind == "reask"
    assert asked({"type": "resume_flow", "flow": "cancel_order"}).text == "Cancel order 4471. Shall I?"


@pytest.mark.row("U11")
def test_resuming_by_name_leaves_the_others_in_their_order(talk: Any) -> None:
    for name in ("change_shipping", "cancel_order", "update_contact", "track_order"):
        talk(start(name))
    talk({"type": "resume_flow", "flow": "cancel_order"})
    assert (talk.flow, talk.paused) == ("cancel_order", ["change_shipping", "update_contact", "track_order"])
    talk({"type": "resume_flow", "flow": None})
    assert (talk.flow, talk.paused) == ("track_order", ["change_shipping", "update_contact", "cancel_order"])


@pytest.mark.row("U11")
def test_a_value_that_names_its_flow_goes_there_and_nowhere_else(talk: Any) -> None:
    talk(start("change_shipping"))
    talk(start("track_order"))
    talk({**put("order_id", "4471"), "flow": "change_shipping"}, {**put("order_id", "9"), "flow": "x"})
    assert (talk.slots, talk.state.paused[0].values) == ({}, {"order_id": "4471"})
    talk({"type": "clear_slot", "name": "order_id", "flow": "change_shipping"})
    assert talk.state.paused[0].values == {}


@pytest.mark.row("U11")
def test_cancelling_archives_and_offers_the_newest_paused_flow(talk: Any) -> None:
    talk(start("change_shipping"), *FILLED)
    talk(start("track_order"))
    step = talk("cancel_flow")
    assert step.text == "All right, I've dropped it: track order. Shall we go back to this: change shipping?"
    assert (talk.flow, talk.paused, talk.ended) == (None, ["change_shipping"], [("track_order", "cancelled")])
    assert talk.state.status == "idle"
    assert talk({"type": "resume_flow", "flow": None}).slot == "speed"


def test_a_paused_flow_can_be_cancelled_by_name(talk: Any) -> None:
    talk(start("change_shipping"))
    talk(start("track_order"))
    talk({"type": "cancel_flow", "flow": "change_shipping"})
    assert (talk.flow, talk.paused, talk.ended) == ("track_order", [], [("change_shipping", "cancelled")])


def test_starting_what_is_paused_takes_it_up_and_overwrites_nothing(talk: Any) -> None:
    talk(start("change_shipping"), *FILLED)
    talk(start("track_order"))
    talk(start("change_shipping"))
    assert (talk.slots, talk.paused) == ({"order_id": "4471"}, ["track_order"])


def test_starting_what_runs_changes_nothing(talk: Any) -> None:
    talk(start("change_shipping"), *FILLED)
    talk(start("change_shipping"))
    assert (talk.slots, talk.paused) == ({"order_id": "4471"}, [])


def test_several_wishes_are_served_in_their_order(talk: Any) -> None:
    talk(start("update_contact"))
    step = talk(start("change_shipping"), *FILLED, start("cancel_order"), start("track_order"), *FILLED)
    assert (step.flow, step.slot) == ("change_shipping", "speed")
    assert talk.paused == ["update_contact", "track_order", "cancel_order"]
    step = talk(put("speed", "express"))
    assert (step.flow, step.text) == ("change_shipping", "Done: change shipping. Which order?")
    assert talk(put("order_id", "5555")).text == "Cancel order 5555. Shall I?"
    step = talk("affirm")
    assert (step.flow, step.then) == ("cancel_order", ("track_order",))
    assert step.text == (
        "Done: cancel order. Order 4471 is on its way. Shall we go back to this: update contact?"
    )
    talk()
    assert [name for name, _ in talk.ended] == ["change_shipping", "cancel_order", "track_order"]
    assert talk.paused == ["update_contact"]


def test_the_depth_is_limited_and_what_is_let_go_is_archived(make_talk: Any) -> None:
    slot = {"name": "x", "type": "text"}
    flows = [{"name": f"f{n}", "description": "d", "slots": [slot]} for n in range(PAUSED_KEPT + 2)]
    talk = make_talk(FlowRegistry(flows))
    for flow in flows:
        talk(start(flow["name"]))  # type: ignore[arg-type]
    assert talk.paused == [f"f{n}" for n in range(1, PAUSED_KEPT + 1)]
    assert talk.ended == [("f0", "cancelled")]


def test_restarting_empties_the_running_flow_alone(asked: Any) -> None:
    asked(start("change_shipping"), *FILLED)
    step = asked("restart")
    assert (step.slot, step.text, asked.slots) == ("order_id", "Let's start over. Which order?", {})
    assert asked.paused == ["cancel_order"]
    assert asked.ended == [("change_shipping", "cancelled")]


def test_restarting_with_nothing_running_lets_all_paused_flows_go(talk: Any) -> None:
    talk(start("change_shipping"))
    talk(start("track_order"))
    talk("cancel_flow")
    assert talk("restart").text == "Let's start over. What can I do for you?"
    assert talk.paused == []


def test_a_flow_that_left_the_registry_fails_and_the_rest_goes_on(talk: Any) -> None:
    talk(start("change_shipping"))
    talk(start("track_order"))
    talk.registry = FlowRegistry([flow for flow in talk.registry.values() if flow.name != "track_order"])
    assert talk("chitchat").kind == "answer"
    assert (talk.ended, talk.paused) == ([("track_order", "failed")], ["change_shipping"])


@pytest.mark.row("S3")
def test_the_flow_that_follows_another_one_is_named(talk: Any) -> None:
    talk(start("cancel_order"), put("order_id", "4471"))
    talk(start("track_order"), "affirm")
    talk.state = begin_action(talk.state)
    state, step = complete(talk.state, talk.registry)
    assert step.text == "Done: cancel order. Next: track order. Which order?"
    assert (step.kind, step.flow, step.slot) == ("ask_slot", "track_order", "order_id")
    assert state.active_flow is not None


def test_completing_an_action_offers_or_takes_up_what_waits(talk: Any) -> None:
    talk(start("change_shipping"))
    talk(start("track_order"), *FILLED)
    talk.state = begin_action(talk.state)
    state, step = complete(talk.state, talk.registry, result={"day": "Friday"})
    assert step.text == "Order 4471 is on its way. Shall we go back to this: change shipping?"
    assert (state.flow_history[0].result, state.active_flow) == ({"day": "Friday"}, None)
    state, step = complete(talk.state, talk.registry, failed=True)
    assert state.flow_history[0].status == "failed"
