"""A message that only mentions a value stores none, and one that denies a task starts none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jazzmine_dspy import Turn

sys.path.append(str(Path(__file__).resolve().parents[2] / "eval" / "benchmarks"))

from reports import _program, judged

ASKED = {"status": "collecting_slots", "date": "2026-10-14"}


def commands(registry: str, text: str, **state: object) -> list[dict[str, object]]:
    """What a program without a language model understands."""
    asked = ASKED if state else {"date": ASKED["date"]}
    decision = _program(registry).decide(Turn.model_validate({"text": text, **asked, **state}))
    return [command.model_dump(mode="json", exclude_none=True) for command in decision.commands]


@pytest.mark.row("U19", "U14")
@pytest.mark.parametrize(
    ("registry", "flow", "slot", "text"),
    [
        ("clinic", "book_visit", "visit_day", "im busy on the 22nd"),
        ("clinic", "book_visit", "visit_hour", "anything before 11"),
        ("bank", "card_limit", "new_limit", "currently its 500, I'd like double"),
        ("bank", "dispute_charge", "merchant", "jeez its cold today"),
        ("lunch", "order_lunch", "people", "still counting, two ticks"),
        ("lunch", "order_lunch", "dishes", "anything without meat?"),
        ("lunch", "order_lunch", "lunch_day", "the food from today never came!"),
        ("ferry", "book_crossing", "travellers", "6 adults and a baby"),
        ("storage", "rent_unit", "insurance", "only if it's under 5 quid"),
    ],
)
def test_what_is_mentioned_is_no_value(registry: str, flow: str, slot: str, text: str) -> None:
    found = commands(registry, text, flow=flow, awaiting=slot)
    assert [one for one in found if "value" in one] == []


@pytest.mark.row("U19", "U14")
@pytest.mark.parametrize(
    ("registry", "flow", "slot", "text", "value"),
    [
        ("clinic", "book_visit", "visit_day", "monday's out, how's wednesday", "2026-10-21"),
        ("clinic", "book_visit", "patient", "its for my wife, Dana Pole", "Dana Pole"),
        ("storage", "rent_unit", "start_day", "my lease ends on the 30th so from the 31st", "2026-10-31"),
        ("bank", "send_money", "amount", "forty nine ninety five", "49.95 USD"),
        ("lunch", "order_lunch", "dishes", "tacos & nachos, theres 15 of us", ["tacos", "nachos"]),
        ("lunch", "order_lunch", "dishes", "burgers + chips, no onions", ["burgers", "chips"]),
    ],
)
def test_what_is_given_next_to_a_mention_is_stored(
    registry: str, flow: str, slot: str, text: str, value: object
) -> None:
    found = commands(registry, text, flow=flow, awaiting=slot)
    assert {one["name"]: one["value"] for one in found if "value" in one}[slot] == value


@pytest.mark.row("U19", "F9")
@pytest.mark.parametrize(
    ("registry", "text"),
    [
        ("storage", "nah we wont be needing a van"),
        ("bank", "my card isn't lost, i have it here"),
        ("bank", "nope not sending any cash today"),
        ("bank", "dont freeze it!! i found the card"),
        ("ferry", "\U0001f44d but only from monday"),
    ],
)
def test_a_denied_task_and_a_yes_to_nothing_start_nothing(registry: str, text: str) -> None:
    assert [one for one in commands(registry, text) if one["type"] == "start_flow"] == []


@pytest.mark.row("U19")
@pytest.mark.parametrize("name", ["ten_c", "ten_d"])
def test_the_newest_cases_by_others_hold_no_grave_one(name: str) -> None:
    assert [one.case["turn"]["text"] for one in judged(name) if one.grave] == []
