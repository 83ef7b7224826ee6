"""Sources of rewrites: what each format's rows become."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import FIXTURES

pytestmark = pytest.mark.row("D5")


def users(data: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(turn["text"], turn.get("labels")) for turn in data["turns"] if turn["role"] == "user"]


def test_canard_has_the_answers_between_and_the_page_as_an_entity(imported: Any) -> None:
    report, found = imported("canard", FIXTURES / "canard")
    data = found["canard-train-K1"]
    assert [turn["text"] for turn in data["turns"]] == [
        "What are they for?",
        "They keep a kite steady.",
        "How long is one?",
    ]
    assert users(data)[1] == ("How long is one?", {"enhanced": "How long is the tail of a kite?"})
    assert data["turns"][2]["before"]["entities"] == [{"name": "Kites", "attributes": ["Tails and lines"]}]
    assert report.flows == 0


def test_treccast_of_both_years(imported: Any) -> None:
    _, found = imported("treccast", FIXTURES / "treccast")
    assert users(found["treccast-train-81"])[1] == (
        "And when do they fall?",
        {"enhanced": "When do kites fall?"},
    )
    assert users(found["treccast-train-31"])[1] == (
        "Do they sleep?",
        {"enhanced": "Do animals in ponds sleep?"},
    )


def test_disfl_qa_gives_the_question_that_was_meant(labels: Any) -> None:
    assert labels("disfl_qa")["Who sells I mean rents boats?"] == {"enhanced": "Who rents boats?"}


def test_tiage_says_whether_the_users_messages_go_on(imported: Any) -> None:
    _, found = imported("tiage", FIXTURES / "tiage")
    data = found["tiage-train-1"]
    assert [turn["role"] for turn in data["turns"]] == ["user", "assistant", "user", "assistant", "user"]
    assert users(data) == [
        ("hello you", None),
        ("nice , big ones ?", {"is_continuation": True}),
        ("do you have a dog ?", {"is_continuation": False}),
    ]


def test_gecor_has_incomplete_messages_and_the_changes_of_the_state(imported: Any) -> None:
    _, found = imported("gecor", FIXTURES / "gecor" / "CamRest676_annotated.json")
    said = users(found["gecor-train-0"])
    assert said[0][1]["commands"] == [
        {"type": "start_flow", "flow": "find_restaurant"},
        {"type": "set_slot", "name": "food", "value": "thai"},
    ]
    assert said[1][1]["commands"] == [
        {"type": "set_slot", "name": "area", "value": "north"},
        {"type": "skip_slot", "name": "pricerange"},
    ]
    assert said[2] == (
        "And the phone?",
        {
            "enhanced": "What is the phone number of Sala?",
            "flows": [],
            "commands": [{"type": "ask", "topic": "phone"}],
        },
    )
    assert said[3][1]["commands"] == [{"type": "correct_slot", "name": "area", "value": "south"}]
    assert "commands" not in said[4][1]
