"""What the head of acts makes of likely acts: whose value is whose, which text is a value, and what must be sure."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.slots import ReadingContext, Slot
from jazzmine_dspy.program.heads.acts.compose import acts_on, compose
from jazzmine_dspy.program.heads.acts.free_texts import awaited_text, is_talk
from jazzmine_dspy.program.heads.acts.model import ACTS
from jazzmine_dspy.program.heads.acts.named import texts_in
from jazzmine_dspy.program.heads.acts.readings import Scene, lone_number

FLOWS = FlowRegistry(
    [
        {
            "name": "book_visit", "description": "Book a visit.", "confirm": "A visit to {guide}. Is that right?",
            "slots": [
                {"name": "code", "type": "text", "pattern": r"\d{4}", "ask": "What is your code?"},
                {"name": "phone", "type": "phone", "ask": "Which number can we ring?"},
                {"name": "guide", "type": "text", "description": "Who shows you around", "ask": "With whom?"},
                {"name": "garden_tour", "type": "boolean", "required": False, "ask": "With the garden?"},
            ],
        },
        {
            "name": "fix_machine", "description": "Send a mechanic.", "keywords": ["repair", "fix"],
            "slots": [
                {"name": "machine", "type": "text", "description": "The machine", "ask": "Which machine is it?"},
                {"name": "fault", "type": "text", "description": "What it does", "ask": "What is wrong with it?"},
            ],
        },
        {
            "name": "order_lunch", "description": "Bring lunch.",
            "slots": [
                {"name": "dishes", "type": "list", "description": "What is brought", "ask": "What may we bring?"},
                {"name": "town", "type": "text", "description": "Where it goes", "ask": "To which town?"},
            ],
        },
    ],
    region="US",
)  # fmt: skip


def likely(**shares: float) -> dict[str, float]:
    """Probabilities of acts, the others hardly likely."""
    return {**dict.fromkeys(ACTS, 0.02), **shares}


def told(turn: Turn, starting: tuple[str, ...] = (), **shares: float) -> list[dict[str, Any]]:
    """The commands that likely acts come to, next to the flows that start."""
    scene = Scene(turn, dict(FLOWS), starting, ReadingContext(region="US"))
    p = likely(**shares)
    commands = compose(p, scene, acts_on(p, scene), lambda: True)
    return [c.model_dump(exclude_none=True) for c in commands if c.type != "start_flow"]


def running(text: str, awaiting: str | None = "guide", **state: Any) -> Turn:
    """A message in the middle of booking a visit."""
    return Turn(text=text, flow="book_visit", awaiting=awaiting, status="collecting_slots", **state)


def confirming(text: str) -> Turn:
    """A message at an open yes or no."""
    held = {"code": "5511", "guide": "Ann"}
    asked = {"action": "A visit to Ann. Is that right?"}
    return Turn(text=text, flow="book_visit", status="awaiting_confirmation", slots=held, confirming=asked)  # type: ignore[arg-type]


@pytest.mark.row("U17")
def test_a_value_goes_to_the_slot_whose_type_tells_more_of_it() -> None:
    text = "a visit please, you can ring me on (415) 826-3309"
    values = told(Turn(text=text), ("book_visit",), start=0.9)
    assert values == [{"type": "set_slot", "name": "phone", "value": "+14158263309"}]
    both = told(Turn(text=f"{text}, my code is 7712"), ("book_visit",), start=0.9)
    assert {value["name"]: value["value"] for value in both} == {"phone": "+14158263309", "code": "7712"}


@pytest.mark.row("U14")
@pytest.mark.parametrize("text", ["yes", "No!", "thanks", "say that again", "forget it"])
def test_a_bare_act_is_no_text_whatever_was_asked(text: str) -> None:
    assert not [one for one in told(running(text), value=0.9) if one["type"] != "cancel_flow"]
    assert told(running(f"{text} Anders"), value=0.9) != []


@pytest.mark.row("U12")
def test_a_yes_must_be_likely_and_surer_still_beside_a_value() -> None:
    assert told(confirming("who knows"), affirm=0.39) == []
    assert told(confirming("go on"), affirm=0.6) == [{"type": "affirm"}]
    added = {"type": "set_slot", "name": "garden_tour", "value": True}
    assert told(confirming("with garden tour"), value=0.8, affirm=0.55) == [added]
    assert told(confirming("right, with garden tour"), value=0.8, affirm=0.95) == [added]
    # What the question has not said is put once more.
    assert told(confirming("go ahead. with garden tour"), value=0.8, affirm=0.95) == [added]


@pytest.mark.row("U12")
def test_who_wants_to_hear_it_again_or_leaves_does_not_say_yes() -> None:
    assert told(confirming("read it to me"), affirm=0.52, repeat=0.9) == [{"type": "repeat"}]
    assert told(confirming("yes drop it"), affirm=0.9, cancel_flow=0.6) == [{"type": "cancel_flow"}]
    assert told(confirming("drop it"), affirm=0.6, cancel_flow=0.9) == [{"type": "cancel_flow"}]


@pytest.mark.row("U11")
def test_what_cannot_be_taken_back_is_not_done_for_want_of_something_likelier() -> None:
    aside = Turn(text="what time do you open by the way", paused=("book_visit",))
    assert told(aside, resume_flow=0.45, ask=0.38)[0]["type"] == "ask"
    assert told(running("never mind all that"), cancel_flow=0.45) == [{"type": "cancel_flow"}]


@pytest.mark.row("C6")
@pytest.mark.parametrize(
    ("flow", "text", "values"),
    [
        ("book_visit", "a visit with Ann Lee on Monday", {"guide": "Ann Lee"}),
        ("book_visit", "a visit with our teacher", {"guide": "our teacher"}),
        ("book_visit", "a visit with lots of time", {}),
        ("book_visit", "a visit with Ann, or with Tom", {}),
        ("fix_machine", "could you repair the press, it leaks oil", {"machine": "press", "fault": "it leaks oil"}),
        ("fix_machine", "the drill makes no sound", {"fault": "drill makes no sound"}),
        ("fix_machine", "I need a repair", {}),
        ("fix_machine", "is the mechanic in today?", {}),
        ("order_lunch", "can I have two soups to Lund please", {"dishes": ["two soups"], "town": "Lund"}),
        ("order_lunch", "I'd like something for lunch", {}),
        ("order_lunch", "can I have it today", {}),
    ],
)  # fmt: skip
def test_free_text_is_found_where_the_words_around_it_leave_no_doubt(
    flow: str, text: str, values: dict[str, Any]
) -> None:
    assert texts_in(FLOWS[flow], text) == values


@pytest.mark.row("C6")
def test_a_text_is_looked_for_in_one_flow_only() -> None:
    text = "could you repair the old press, it leaks oil"
    assert {value["name"] for value in told(Turn(text=text), ("fix_machine",), start=0.9)} == {
        "machine",
        "fault",
    }
    assert told(Turn(text=text), ("fix_machine", "order_lunch"), start=0.9) == [
        {"type": "set_slot", "name": "machine", "value": "old press"}
    ]
    flow = FLOWS["book_visit"]
    assert texts_in(flow, "the visit is at Ann", opening=False) == {}
    assert texts_in(flow, "with Ann", opening=False) == {"guide": "Ann"}


@pytest.mark.row("U17")
@pytest.mark.parametrize("text", ["a table for 4, no 5", "4... no wait 5 of us", "4 sorry 5"])
def test_a_number_behind_a_correction_is_the_one(text: str) -> None:
    assert lone_number(Slot(name="guests", type="number"), text) == 5


@pytest.mark.row("U17")
def test_signs_are_no_text() -> None:
    assert is_talk("🛑")
    assert is_talk("😡!!")
    assert awaited_text(Slot(name="item", type="text"), "THE LAMP 😡") == "LAMP"
