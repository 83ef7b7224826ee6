"""The turns that systems are asked about: the same for all, after the expected conversation, judged by the runtime."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Any

import pytest

import understanding_ground as small
from jazzmine_dspy.eval.suite import load_suite
from jazzmine_dspy.models.commands import command
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn

ground, peers, rehearsal, soni = (
    importlib.import_module(f"understanding.{name}") for name in ("ground", "peers", "rehearsal", "soni")
)
FLOWS = FlowRegistry.from_yaml_text(small.FLOWS, where="here")
TURN = Turn(
    text="June 2", flow="borrow_book", slots={"title": "Emma", "until": "2026-06-01"}, paused=("renew_card",),
    confirming="Lend Emma?", date="2026-05-11",
)  # fmt: skip


@pytest.fixture
def suite(tmp_path: Path) -> Any:
    return load_suite(small.suite(tmp_path / "suite"), only=["home"])


@pytest.mark.parametrize("name", ["ground", "soni", "figures"])
def test_the_examples_are_right(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"understanding.{name}"))
    assert found.attempted
    assert not found.failed


def test_each_turn_follows_the_expected_conversation(suite: Any) -> None:
    turns = rehearsal.staged(suite)
    assert [each.key for each in turns] == [*(f"home-01/{n}" for n in range(1, 8)), "home-02/1", "home-02/2"]
    assert all(each.natural for each in turns)
    second, fourth, last = turns[1], turns[3], turns[6]
    assert second.turn.slots.as_dict() == {"title": "Emma", "until": "2026-06-01"}
    assert second.turn.confirming is not None
    assert (fourth.turn.awaiting, fourth.turn.paused) == ("card", ("borrow_book",))
    assert fourth.turn.history[-1].text == "Which card?"
    assert last.turn.history[-1].text == "Lend Emma until 2 June 2026?"
    assert [each.opening for each in turns] == [True, *[False] * 4, True, False, True, True]


def test_a_turn_is_right_where_the_state_after_it_is_the_expected_one(suite: Any) -> None:
    first, second, *_ = rehearsal.staged(suite)
    said = {
        first.key: [{"type": "start_flow", "flow": "borrow_book"}],
        second.key: [{"type": "correct_slot", "name": "until", "value": "June 2"}],
    }
    decisions = {
        each.key: rehearsal.decided(each.turn, [command(one) for one in said[each.key]])
        for each in (first, second)
    }
    # The second is judged after what was expected first, not after what this system made of it.
    assert rehearsal.judged(suite, [first, second], decisions) == {first.key: False, second.key: True}
    assert rehearsal.judged(suite, [first], {first.key: None}) == {first.key: False}


def test_what_is_asked_is_drawn_by_registry_and_stays_when_another_one_joins(tmp_path: Path) -> None:
    folder, data = small.suite(tmp_path / "suite"), small.dataset(tmp_path / "data")
    both = ground.Ground(folder, data, tmp_path)
    drawn = [each.key for each in both.suite_turns(4)]
    assert {key.split("/")[0] for key in drawn} == {"north-01", "north-02", "south-01", "south-02"}
    assert both.others_turns(2) == []
    small.suite(folder.parent / "deciding")
    others = ground.Ground(folder, data, tmp_path)
    assert {each.conversation.registry for each in others.others_turns(3)} == {"north", "south", "home"}
    tests = both.test_turns(9)
    assert len({each.conversation_id for each in tests}) == 9
    (folder / "unseen.txt").write_text("north\n", "utf-8")
    alone = ground.Ground(folder, data, tmp_path)
    assert [each.key for each in alone.suite_turns(2)] == drawn[:2]
    assert "bench-understanding" in (folder / ".opened.jsonl").read_text("utf-8")


def test_answers_of_other_systems_are_read_kindly() -> None:
    def read(*said: dict[str, Any]) -> list[dict[str, Any]]:
        return [each.model_dump(exclude_none=True) for each in peers.translated(said, TURN, FLOWS)]

    until = {"type": "set_slot", "name": "until", "value": "June 2"}
    assert read(until) == [{"type": "correct_slot", "name": "until", "value": "2026-06-02"}]
    # What is held already, what no flow has and what is nonsense is left out.
    held = {"type": "set_slot", "name": "title", "value": "Emma"}
    assert read(held, {"type": "set_slot", "name": "colour", "value": "red"}, {"type": "sing"}) == []
    # A paused flow cannot start: it is taken up, and values behind it are its own.
    card = {"type": "set_slot", "name": "card", "value": "4471"}
    assert read({"type": "start_flow", "name": "renew_card"}, card) == [
        {"type": "resume_flow", "flow": "renew_card"},
        {"type": "set_slot", "name": "card", "value": "4471"},
    ]
    assert read({"type": "affirm"}, {"type": "affirm"}) == [{"type": "affirm"}]


def test_other_systems_get_state_conversation_and_flows() -> None:
    state = peers.state_of(TURN)
    assert state == {
        "today": "Monday 2026-05-11", "running_flow": "borrow_book", "paused_flows": ["renew_card"],
        "slots": {"title": "Emma", "until": "2026-06-01"}, "asked_to_confirm": "Lend Emma?",
    }  # fmt: skip
    said = " ".join(soni.actions(TURN, FLOWS))
    for action in ("start_renew_card: ", "correct_until: ", "resume_renew_card: ", "affirm: ", "cancel: "):
        assert action in said
    assert "start_borrow_book" not in said


def test_an_action_of_sonis_answer_is_its_command() -> None:
    said = soni.read("deny, then correct_until", {"until": "June 2"}, TURN, FLOWS)
    assert [each["type"] for each in said] == ["deny", "set_slot"]
    assert [each["type"] for each in soni.read("renew_card; chitchat", {}, TURN, FLOWS)] == [
        "start_flow",
        "chitchat",
    ]
