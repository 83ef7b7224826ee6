"""Sources of whole dialogues: states, switches and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset, load_dataset
from jazzmine_dspy.models.errors import DatasetError

from .conftest import FIXTURES

pytestmark = pytest.mark.row("D5")


def user(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [turn for turn in data["turns"] if turn["role"] == "user"]


def flows_of(data: dict[str, Any]) -> list[Any]:
    return [turn.get("labels", {}).get("flows") for turn in user(data)]


def running(data: dict[str, Any]) -> list[Any]:
    return [turn.get("before", {}).get("flow") for turn in user(data)]


@pytest.fixture
def star(imported: Any) -> dict[str, Any]:
    _, found = imported("star", FIXTURES / "star")
    return dict(found)


def test_star_dialogue_of_one_task(star: dict[str, Any]) -> None:
    data = star["star-train-2"]
    assert flows_of(data) == [[], ["kite_rent"], [], None, []]
    assert running(data) == [None, None, "kite_rent", "kite_rent", "kite_rent"]
    refused = user(data)[2]
    assert (refused["labels"], refused["tags"]) == ({"flows": [], "intent": "out_of_scope"}, ["out_of_scope"])
    assert [turn["text"] for turn in data["turns"][:4]] == [
        "Hello there",
        "Hi.",
        "I need a kite",
        "Your name?",
    ]


def test_star_switches_returns_and_a_start_before_the_wizard_chose(star: dict[str, Any]) -> None:
    data = star["star-train-10"]
    assert flows_of(data) == [["kite_repair"], [], ["kite_rent"], None, ["kite_repair"]]
    assert running(data) == [None, "kite_repair", "kite_repair", "kite_rent", "kite_rent"]
    assert [turn.get("tags") for turn in user(data)] == [None, None, ["switch"], None, ["switch", "return"]]
    assert "Talk about kites" not in [turn["text"] for turn in data["turns"]]


def test_star_leaves_open_which_of_two_messages_asked(star: dict[str, Any]) -> None:
    data = star["star-train-11"]
    assert flows_of(data) == [None, None, []]
    assert running(data) == [None, None, "kite_repair"]


def test_star_tasks_become_flows(star: dict[str, Any], tmp_path: Path) -> None:
    flows = load_dataset(tmp_path / "made").flows
    assert flows["kite_rent"].description == "Rent kites."
    assert flows["kite_repair"].description == "Kite repair"
    told = [(s.name, s.type, s.required, s.options) for s in flows["kite_rent"].slots]
    assert told == [
        ("Size", "choice", True, ("Small", "Vast")),
        ("Days", "number", False, ()),
        ("Tail", "boolean", False, ()),
        ("Name", "text", False, ()),
    ]


@pytest.fixture
def sgd(imported: Any) -> dict[str, Any]:
    _, found = imported("sgd", FIXTURES / "sgd")
    return dict(found)


def commands(turn: dict[str, Any]) -> Any:
    return turn["labels"].get("commands")


def test_sgd_schema_becomes_the_registry(sgd: dict[str, Any], tmp_path: Path) -> None:
    flows = load_dataset(tmp_path / "made").flows
    assert list(flows) == ["Boats_1.FindBoat", "Boats_1.HireBoat", "Tides_1.GetTide"]
    hire = flows["Boats_1.HireBoat"]
    assert (hire.description, hire.category) == ("Hire a boat", "Boats_1")
    told = [(slot.name, slot.type, slot.required) for slot in hire.slots]
    assert told == [("boat_name", "text", True), ("hours", "text", True), ("vests", "boolean", False)]
    kind = flows["Boats_1.FindBoat"].slot("kind")
    assert kind is not None
    assert (kind.type, kind.options) == ("choice", ("canoe", "raft"))


def test_sgd_states_and_values(sgd: dict[str, Any]) -> None:
    turns = user(sgd["sgd-train-1_00000"])
    assert commands(turns[0]) == [{"type": "start_flow", "flow": "Boats_1.FindBoat"}]
    asked = turns[1]["before"]
    assert (asked["status"], asked["awaiting"]) == ("collecting_slots", "pier")
    assert commands(turns[1]) == [
        {"type": "set_slot", "name": "pier", "value": "the east pier"},
        {"type": "skip_slot", "name": "kind"},
    ]
    assert turns[3]["before"]["slots"] == {"pier": "the east pier"}
    assert commands(turns[3]) == [
        {"type": "correct_slot", "name": "pier", "value": "West pier"},
        {"type": "set_slot", "name": "kind", "value": "raft"},
        {"type": "ask", "topic": "boat name"},
    ]


def test_sgd_leaves_open_what_no_command_says(sgd: dict[str, Any]) -> None:
    turns = user(sgd["sgd-train-1_00000"])
    assert turns[2]["labels"] == turns[4]["labels"] == {"flows": []}


def test_sgd_confirmations(sgd: dict[str, Any]) -> None:
    turns = user(sgd["sgd-train-1_00000"])
    assert turns[5]["labels"] == {
        "flows": ["Boats_1.HireBoat"],
        "commands": [
            {"type": "start_flow", "flow": "Boats_1.HireBoat"},
            {"type": "set_slot", "name": "boat_name", "value": "Wet Sock"},
            {"type": "set_slot", "name": "hours", "value": "2"},
        ],
    }
    before = turns[6]["before"]
    assert before["status"] == "awaiting_confirmation"
    assert before["slots"] == {"boat_name": "Wet Sock", "hours": "2", "vests": False}
    assert commands(turns[6]) == [
        {"type": "deny", "slot": "hours"},
        {"type": "correct_slot", "name": "hours", "value": "3"},
    ]
    assert commands(turns[7]) == [{"type": "affirm"}]
    assert commands(turns[8]) == [{"type": "chitchat"}]


def test_sgd_switches_between_services(sgd: dict[str, Any]) -> None:
    data = sgd["sgd-test-1_00001"]
    assert flows_of(data) == [["Boats_1.FindBoat"], ["Tides_1.GetTide"], ["Boats_1.FindBoat"]]
    assert running(data) == [None, "Boats_1.FindBoat", "Tides_1.GetTide"]
    assert commands(user(data)[2])[1] == {"type": "set_slot", "name": "pier", "value": "the quay"}


@pytest.mark.parametrize("kind", ["star", "sgd"])
def test_what_is_made_contradicts_nothing(kind: str, imported: Any) -> None:
    report, _ = imported(kind, FIXTURES / kind)
    checked = check_dataset(report.out)
    assert checked.ok
    assert not [
        problem for problem in checked.warnings if ".labels." in problem.field or ".before." in problem.field
    ]


# --- SGD-X, MultiWOZ 2.2, MultiDoGO ----------------------------------------------------------------


def test_sgd_x_has_the_labels_of_sgd_under_the_names_of_the_variant(imported: Any, tmp_path: Path) -> None:
    _, own = imported("sgd", FIXTURES / "sgd", out=tmp_path / "sgd")
    report, found = imported("sgd_x", FIXTURES / "sgd_x" / "sgd_x" / "data" / "v1")
    assert report.left_out == 0
    for name, data in own.items():
        other = found[name.replace("sgd-", "sgd_x-")]
        assert [turn["text"] for turn in other["turns"]] == [turn["text"] for turn in data["turns"]]
        for old, new in zip(user(data), user(other), strict=True):
            assert new["labels"]["flows"] == [
                f"{service}0.Do{intent}"
                for service, intent in (flow.split(".") for flow in old["labels"]["flows"])
            ]
            kinds = [
                [(each["type"], each.get("value")) for each in turn["labels"].get("commands", ())]
                for turn in (old, new)
            ]
            assert kinds[0] == kinds[1]
    assert all(
        flow.description.startswith("in other words") for flow in load_dataset(report.out).flows.values()
    )


def test_sgd_x_needs_the_dialogues_of_sgd(imported: Any, source: Any) -> None:
    folder = source("sgd_x")
    for path in folder.glob("*/dialogues_*.json"):
        path.unlink()
    with pytest.raises(DatasetError, match="are not above the variant"):
        imported("sgd_x", folder / "sgd_x" / "data" / "v1")


def test_multiwoz22_has_flows_values_and_questions_and_leaves_the_rest_open(imported: Any) -> None:
    _, found = imported("multiwoz22", FIXTURES / "multiwoz22")
    data = found["multiwoz22-train-PMUL1.json"]
    assert flows_of(data) == [["pond.find_pond"], [], [], ["boat.book_boat"], []]
    commands = [turn["labels"].get("commands") for turn in user(data)]
    assert commands[1:3] == [
        [{"type": "ask", "topic": "pond-phone"}],
        [
            {"type": "correct_slot", "name": "pond-area", "value": "south"},
            {"type": "set_slot", "name": "pond-day", "value": "Monday"},
        ],
    ]
    assert commands[4] is None
    assert running(data) == [None, "pond.find_pond", "pond.find_pond", "pond.find_pond", "boat.book_boat"]


def test_multidogo_tells_acts_from_flows_and_reads_values_from_tags(imported: Any) -> None:
    _, found = imported("multidogo", FIXTURES / "multidogo")
    said = user(found["multidogo-train-a"])
    assert flows_of(found["multidogo-train-a"]) == [[], ["rentkite", "rentboat"], [], [], [], [], []]
    assert said[0]["labels"]["commands"] == [{"type": "chitchat"}]
    assert said[3]["labels"]["commands"] == [{"type": "correct_slot", "name": "duration", "value": "3 days"}]
    assert "commands" not in said[4]["labels"]
    assert (said[5]["labels"]["intent"], said[5]["tags"]) == ("out_of_scope", ["act:outofdomain"])
    assert (said[6]["text"], said[6]["labels"]["commands"][0]["value"]) == ('the red "fast" one', "red")
    assert "commands" not in user(found["multidogo-train-b"])[0]["labels"]
