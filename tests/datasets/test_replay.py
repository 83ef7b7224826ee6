"""The state before a turn is derived from the labels before it, and told apart from a given one (D1, D3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset, load_dataset
from jazzmine_dspy.models.errors import DatasetError

FLOWS = """\
flows:
  - name: order_cake
    description: Order a cake.
    confirm: "A {size} cake with {flavour}. Shall I bake it?"
    slots:
      - {name: flavour, type: text, ask: "Which flavour?"}
      - {name: size, type: choice, options: [small, large], ask: "Small or large?"}
  - name: opening_alarm
    description: Get a call when the bakery opens.
    slots: [{name: phone, type: phone, ask: "Which number?"}]
"""
SAID: list[tuple[str, list[dict[str, Any]]]] = [
    ("a walnut cake please", [
        {"type": "start_flow", "flow": "order_cake"}, {"type": "set_slot", "name": "flavour", "value": "walnut"},
    ]),
    ("the large one", [{"type": "set_slot", "name": "size", "value": "large"}]),
    ("oh, and ring me when you open", [{"type": "start_flow", "flow": "opening_alarm"}]),
    ("030 1234567", [{"type": "set_slot", "name": "phone", "value": "030 1234567"}]),
    ("thanks", [{"type": "chitchat"}]),
]  # fmt: skip


def written(folder: Path, turns: list[dict[str, Any]]) -> Path:
    (folder / "flows.yaml").write_text(FLOWS, "utf-8")
    lines = [{"id": "c1", "turns": turns}]
    lines += [
        {"id": f"c{n}", "turns": [{"role": "user", "text": f"text number {n}", "labels": {"flows": []}}]}
        for n in (2, 3, 4)
    ]
    (folder / "conversations.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    roles = {"train": ["c1"], "dev_a": ["c2"], "dev_b": ["c3"], "test": ["c4"]}
    from jazzmine_dspy.datasets import write_splits

    write_splits(folder, {name: role for role, names in roles.items() for name in names})  # type: ignore[misc]
    return folder


def user(text: str, commands: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"role": "user", "text": text, "labels": {"commands": commands}, **more}


@pytest.mark.row("D8")
def test_the_state_follows_from_the_commands(tmp_path: Path) -> None:
    turns = [
        each.turn
        for each in load_dataset(written(tmp_path, [user(*each) for each in SAID])).examples("train")
    ]
    assert [turn.flow for turn in turns] == [None, "order_cake", "order_cake", "opening_alarm", None]
    assert [turn.awaiting for turn in turns] == [None, "size", None, "phone", None]
    assert turns[1].slots.as_dict() == {"flavour": "walnut"}
    assert turns[2].confirming is not None
    assert turns[2].confirming.action == "A large cake with walnut. Shall I bake it?"
    assert turns[3].paused == ("order_cake",)


def test_a_conversation_that_states_one_is_taken_at_its_word(tmp_path: Path) -> None:
    turns = [user(*each) for each in SAID[:1]] + [user("the large one", [], before={})]
    assert load_dataset(written(tmp_path, turns)).examples("train")[1].turn.flow is None


@pytest.mark.row("D3")
def test_a_given_state_that_the_commands_do_not_lead_to_is_told(tmp_path: Path) -> None:
    wrong = {"status": "collecting_slots", "flow": "opening_alarm", "awaiting": "phone"}
    turns = [user(*SAID[0]), user("030 1234567", SAID[3][1], before=wrong)]
    found = [p for p in check_dataset(written(tmp_path, turns)).warnings if p.field == "turns.1.before.flow"]
    assert [problem.line for problem in found] == [1]
    assert "'opening_alarm', and the commands of the turn before lead to 'order_cake'" in found[0].message
    assert "derived" in found[0].remedy


@pytest.mark.row("D3")
def test_an_assistant_that_asks_for_something_else_is_told(tmp_path: Path) -> None:
    first, second = user(*SAID[0]), user(*SAID[1])
    turns = [first, {"role": "assistant", "text": "Sure. Which number?"}, second]
    found = [p for p in check_dataset(written(tmp_path, turns)).warnings if p.field == "turns.1.text"]
    assert len(found) == 1
    assert "asks for 'phone' of 'opening_alarm'" in found[0].message
    turns[1]["text"] = "Sure. Small or large?"
    assert not [p for p in check_dataset(written(tmp_path, turns)).warnings if p.field == "turns.1.text"]


@pytest.mark.row("D1")
def test_values_of_paused_flows_are_derived_and_can_be_given(tmp_path: Path) -> None:
    """What a paused flow holds reaches the turn, whether labels lead to it or the file says it."""
    derived = [
        each.turn
        for each in load_dataset(written(tmp_path, [user(*each) for each in SAID])).examples("train")
    ]
    held = {"order_cake": {"flavour": "walnut", "size": "large"}}
    assert derived[3].paused == ("order_cake",)
    assert derived[3].paused_slots.as_dict() == held
    before = {
        "status": "collecting_slots", "flow": "opening_alarm", "awaiting": "phone",
        "paused": [{"flow": "order_cake", "slots": held["order_cake"]}],
    }  # fmt: skip
    resumed = [
        {"type": "resume_flow", "flow": "order_cake"},
        {"type": "correct_slot", "name": "size", "value": "small"},
    ]
    folder = written(tmp_path, [user("back to the cake, but a small one", resumed, before=before)])
    (given,) = load_dataset(folder).examples("train")
    assert (given.turn.paused, given.turn.paused_slots) == (derived[3].paused, derived[3].paused_slots)
    assert not check_dataset(folder).errors


@pytest.mark.row("D3")
def test_values_of_paused_flows_are_checked(tmp_path: Path) -> None:
    before = {"paused": [{"flow": "order_cake", "slots": {"colour": "red"}}]}
    resumed = [{"type": "resume_flow", "flow": None}, {"type": "set_slot", "name": "size", "value": "small"}]
    found = check_dataset(written(tmp_path, [user("the cake, small", resumed, before=before)])).errors
    assert [(each.field, each.message) for each in found] == [
        ("turns.0.before.paused.0.slots.colour", "Unknown slot 'colour' of the flow order_cake")
    ]


@pytest.mark.row("D3")
@pytest.mark.parametrize(("text", "kind"), [("Yes please!", "affirm"), ("no", "deny"), ("who are you", None)])
def test_a_yes_that_no_command_tells_is_noted(tmp_path: Path, text: str, kind: str | None) -> None:
    said = [*SAID[:2], (text, [])]
    found = check_dataset(written(tmp_path, [user(*each) for each in said])).warnings
    assert [each.field for each in found if "answers the open question" in each.message] == (
        [] if kind is None else ["turns.2.labels.commands"]
    )
    assert kind is None or kind in " ".join(each.remedy for each in found)


@pytest.mark.row("U7", "D1")
def test_labelled_values_take_the_form_that_a_decision_gives_them(tmp_path: Path) -> None:
    """However a label writes a value, it is compared in normal form; of another flow's slot too."""
    commands = [
        {"type": "start_flow", "flow": "opening_alarm"},
        {"type": "set_slot", "name": "phone", "value": "+44 7700 900 123"},
        {"type": "set_slot", "name": "size", "value": "Large", "flow": "order_cake"},
    ]
    (given,) = load_dataset(written(tmp_path, [user("ring me", commands)])).examples("train")
    assert [getattr(each, "value", None) for each in given.labels.commands or ()] == [
        None, "+447700900123", "large",
    ]  # fmt: skip


@pytest.mark.row("D8")
def test_a_question_which_flow_is_meant_is_part_of_the_state(tmp_path: Path) -> None:
    """The state machine derives it from the label before, a file may state it, and a turn shows it."""
    both = ["order_cake", "opening_alarm"]
    said = [
        user("cake alarm", [{"type": "clarify", "flows": both}]),
        user("the first", [{"type": "start_flow", "flow": "order_cake"}]),
        user("walnut", [{"type": "set_slot", "name": "flavour", "value": "walnut"}]),
    ]
    derived = load_dataset(written(tmp_path, said)).examples("train")
    assert [example.turn.clarifying for example in derived] == [(), tuple(both), ()]
    stated = [said[0], {**said[1], "before": {"clarifying": both}}]
    given = load_dataset(written(tmp_path, stated)).examples("train")
    assert given[1].turn.clarifying == tuple(both)
    unknown = [{**said[1], "before": {"clarifying": ["order_pie"]}}]
    with pytest.raises(DatasetError, match=r"Unknown flow 'order_pie'.*turns\.0\.before\.clarifying\.0"):
        load_dataset(written(tmp_path, unknown))
