"""No action without a yes, no correction by a mention, no value in a question, no start of what is denied."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Turn, TurnProgram, load
from jazzmine_dspy.models.commands import Affirm, SetSlot, StartFlow
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.program.merge import merge

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "eval" / "benchmarks"))
from reports import CASES, Verdict, cases, judged  # noqa: E402

FLOWS = json.loads((CASES / "registries.json").read_text("utf-8"))

Decide = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def clinic() -> Decide:
    told = FLOWS["clinic"]
    program = load("support", flows=FlowRegistry(told["flows"], region="GB", currency="GBP"), lm=None)

    def decide(text: str, **turn: Any) -> list[dict[str, Any]]:
        decision = program.decide(Turn(text=text, date="2026-10-14", **turn))
        return [c.model_dump(mode="json", exclude_none=True) for c in decision.commands]

    return decide


@pytest.fixture(scope="module")
def given() -> list[Verdict]:
    return list(judged("given"))


@pytest.mark.row("U19")
def test_no_reported_case_does_what_nobody_wants(given: list[Verdict]) -> None:
    grave = [one for one in given if one.grave]
    assert not any("affirm" in one.kinds for one in grave)
    assert len(grave) <= 2, [one.case["id"] for one in grave]


@pytest.mark.row("U19", "U6", "U7")
def test_most_reported_cases_are_right(given: list[Verdict]) -> None:
    wrong = [one.case["id"] for one in given if not one.right]
    assert len(wrong) <= 25, wrong


@pytest.mark.row("U19", "U12")
def test_no_message_without_a_yes_becomes_one() -> None:
    for name in ("not_yes", "ways_no"):
        assert [one.case["turn"]["text"] for one in judged(name) if "affirm" in one.kinds] == []


@pytest.mark.row("U19", "U12")
def test_ways_to_say_yes_are_understood() -> None:
    found = list(judged("ways_yes"))
    missed = [one.case["turn"]["text"] for one in found if "affirm" not in one.kinds]
    assert len(missed) <= len(found) * 0.05, missed


@pytest.mark.row("U19")
def test_no_yes_that_takes_itself_back_runs_the_action() -> None:
    assert [one.case["turn"]["text"] for one in judged("take_back") if "affirm" in one.kinds] == []
    kinds = ("not_a_yes", "opposite_behind_a_yes", "yes_phrases")
    assert [one.case["id"] for one in judged("turn4") if one.grave and one.case["kind"] in kinds] == []


@pytest.mark.row("U19", "U12")
def test_a_yes_with_a_harmless_addition_is_understood_or_asked_for_again() -> None:
    verdicts = list(judged("harmless"))
    # "yes, he only has one birthday a year" is taken for another amount, and asked about again.
    assert len([one.case["turn"]["text"] for one in verdicts if one.grave]) <= 1
    assert sum("affirm" in one.kinds for one in verdicts) >= 65


@pytest.mark.row("U19", "U16")
@pytest.mark.parametrize("text", ["banana", "🛑", "yes please don't", "why"])
def test_nobody_reads_a_yes_into_a_message_without_one(text: str) -> None:
    registry = FlowRegistry(FLOWS["clinic"]["flows"])
    turn = Turn(
        text=text, status="awaiting_confirmation", flow="cancel_visit", confirming={"action": "Call it off?"}
    )
    _, _, commands = merge(turn, registry, Enhancement(enhanced_query=text), Selection(), [Affirm()])
    assert commands == []


BOOKING = {"status": "collecting_slots", "flow": "book_visit", "awaiting": "mobile",
           "slots": {"patient": "Priya", "visit_day": "2026-10-20", "visit_hour": "10:00"}}  # fmt: skip
PHONE = {"type": "set_slot", "name": "mobile", "value": "+447700900321"}


@pytest.mark.row("U19", "U6")
def test_a_mention_corrects_nothing_and_a_correction_does(clinic: Decide) -> None:
    assert clinic("I'm away until Friday, but you can ring 07700 900 321", **BOOKING) == [PHONE]
    day = {"type": "correct_slot", "name": "visit_day", "value": "2026-10-16"}
    assert clinic("actually make it Friday", **BOOKING) == [day]


@pytest.mark.row("U19", "U5")
def test_a_question_gives_no_value_and_a_suggestion_does(clinic: Decide) -> None:
    open_form = {
        "status": "collecting_slots",
        "flow": "book_visit",
        "awaiting": "visit_day",
        "slots": {"patient": "Ada"},
    }
    assert [c["type"] for c in clinic("are you open on Sunday?", **open_form)] == ["ask"]
    for text in ("can you do Friday?", "would Friday work?", "Friday?"):
        assert {"type": "set_slot", "name": "visit_day", "value": "2026-10-16"} in clinic(
            text, **open_form
        ), text


@pytest.mark.row("U19", "F9", "F10")
def test_what_is_denied_starts_nothing(clinic: Decide) -> None:
    assert not any(c["type"] == "start_flow" for c in clinic("please don't cancel my appointment"))
    assert {"type": "start_flow", "flow": "cancel_visit"} in clinic("cancel my appointment on Friday")


@pytest.mark.row("U19", "F10")
def test_two_wishes_of_new_flows_start_in_order_with_their_own_values() -> None:
    bank = FLOWS["bank"]
    program = load("support", flows=FlowRegistry(bank["flows"], region="US", currency="USD"), lm=None)
    commands = program.decide(text="block my card 4410 and send 30 dollars to Ann").commands
    told = [c.model_dump(mode="json", exclude_none=True) for c in commands]
    assert [c["flow"] for c in told if c["type"] == "start_flow"] == ["block_card", "send_money"]
    assert [c.value for c in commands if isinstance(c, SetSlot)] == ["4410", "30.00 USD", "Ann"]


@pytest.mark.row("U19", "F10")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I want an invoice for 9043, then cancel order 8812", [("request_invoice", "9043"), ("cancel_order", "8812")]),
        ("cancel order 5519 n get an invoice for 9043", [("cancel_order", "5519"), ("request_invoice", "9043")]),
        ("cancel order 5519 and make it quick", [("cancel_order", "5519")]),
        ("cancel order 5519, and do it fast please", [("cancel_order", "5519")]),
    ],
)  # fmt: skip
def test_two_wishes_of_learnt_flows_start_in_order_with_their_own_values(
    text: str, expected: list[tuple[str, str]]
) -> None:
    commands = load("support", lm=None).decide(text=text).commands
    started = [c.flow for c in commands if isinstance(c, StartFlow)]
    values = [c.value for c in commands if isinstance(c, SetSlot)]
    assert [*zip(started, values, strict=True)] == expected


@pytest.mark.row("U19", "U5")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("forget it, i want a human", ["cancel_flow", "handoff"]),
        ("never mind, agent please", ["cancel_flow", "handoff"]),
        ("forget it", ["cancel_flow"]),
    ],
)
def test_who_gives_a_task_up_for_a_person_gets_both(text: str, expected: list[str]) -> None:
    turn = Turn(text=text, status="collecting_slots", flow="return_item", awaiting="return_reason",
                slots={"order_id": "5520", "item": "kettle"})  # fmt: skip
    assert [c.type for c in load("support", lm=None).decide(turn).commands] == expected


SHIRT = {
    "name": "order_shirt", "description": "Order a shirt.", "confirm": "Shall I order it?",
    "slots": [
        {"name": "size", "type": "choice", "options": ["S", "M", "L"], "ask": "Which size?"},
        {"name": "quantity", "type": "number", "ask": "How many?"},
    ],
}  # fmt: skip
TRAIN = {
    "name": "book_train", "description": "Book a train.", "examples": ["i need a train", "book a train ticket"],
    "slots": [
        {"name": "destination", "type": "text", "ask": "Where to?"},
        {"name": "passengers", "type": "number", "ask": "For how many people?"},
    ],
}  # fmt: skip


@pytest.mark.row("U19", "U6")
@pytest.mark.parametrize(("text", "slot", "value"), [("no, 2", "quantity", 2), ("no, M", "size", "M")])
def test_a_bare_number_corrects_a_number_and_no_option(text: str, slot: str, value: Any) -> None:
    program = load("base", flows=FlowRegistry([SHIRT]))
    turn = Turn(text=text, status="awaiting_confirmation", flow="order_shirt", slots={"size": "L", "quantity": 1},
                confirming={"action": "One shirt in L. Shall I order it?"})  # fmt: skip
    told = [c.model_dump(mode="json", exclude_none=True) for c in program.decide(turn).commands]
    assert told == [{"type": "deny", "slot": slot}, {"type": "correct_slot", "name": slot, "value": value}]


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "value"), [("2 tickets to york", 2), ("one train ticket to york please", 1)]
)
def test_a_ticket_is_for_one_person(text: str, value: int) -> None:
    commands = load("base", flows=FlowRegistry([TRAIN])).decide(text=text).commands
    assert ("passengers", value) in [(c.name, c.value) for c in commands if isinstance(c, SetSlot)]


@pytest.mark.row("U19", "U5")
@pytest.mark.parametrize(
    ("text", "product"),
    [
        ("do you have the blue kettle in stock?", "blue kettle"),
        ("is my blue kettle back in stock", "blue kettle"),
        ("do you have it in stock", None),
    ],
)
def test_the_only_thing_that_an_opening_message_names_is_the_one_it_is_about(
    text: str, product: str | None
) -> None:
    commands = load("support", lm=None).decide(text=text).commands
    assert [c.value for c in commands if isinstance(c, SetSlot)] == ([product] if product else [])


@pytest.mark.row("U19", "W6")
def test_asking_for_time_at_a_confirmation_decides_nothing(clinic: Decide) -> None:
    turn = {"status": "awaiting_confirmation", "flow": "cancel_visit", "confirming": {"action": "Call it off?"},
            "slots": {"visit_day": "2026-10-20"}}  # fmt: skip
    for text in ("hang on", "one sec", "hold on, let me check"):
        assert not {c["type"] for c in clinic(text, **turn)} & {"affirm", "deny", "cancel_flow"}, text


@pytest.mark.row("U19", "U6")
@pytest.mark.parametrize(
    ("text", "value"),
    [("remove the falafel", ["hummus"]), ("add olives", ["hummus", "falafel", "olives"]),
     ("swap the hummus for baba ganoush", ["baba ganoush", "falafel"])],
)  # fmt: skip
def test_lists_are_added_to_and_taken_from(text: str, value: list[str]) -> None:
    lunch = FLOWS["lunch"]
    program: TurnProgram = load("support", flows=FlowRegistry(lunch["flows"]), lm=None)
    turn = Turn(text=text, status="collecting_slots", flow="order_lunch", awaiting="people",
                slots={"dishes": ["hummus", "falafel"]}, date="2026-10-14")  # fmt: skip
    told = [c.model_dump(mode="json", exclude_none=True) for c in program.decide(turn).commands]
    assert told == [{"type": "correct_slot", "name": "dishes", "value": value}]


@pytest.mark.row("U19")
def test_every_kind_of_report_has_cases() -> None:
    kinds = {case["kind"] for case in cases("given")}
    assert len(kinds) == 34
