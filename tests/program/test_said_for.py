"""Whose a text is by the words around it, what undoes, and what another language says in an English conversation."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.models import Flow, FlowRegistry, Turn
from jazzmine_dspy.models.patterns import pattern_match
from jazzmine_dspy.models.slots import ReadingContext, Slot
from jazzmine_dspy.program.denials import is_denied, is_opposite, undoes, undoes_unasked
from jazzmine_dspy.program.heads.acts.days import stay_days
from jazzmine_dspy.program.heads.acts.free_texts import awaited_items, awaited_text, only_answers
from jazzmine_dspy.program.heads.acts.named import named_texts
from jazzmine_dspy.program.heads.acts.readings import lone_number, values_in

AT = ReadingContext(date=dt.date(2026, 10, 14))
FLOWS = FlowRegistry(
    [
        {
            "name": "book_trip",
            "description": "Book a trip.",
            "keywords": ["book"],
            "slots": [
                {"name": "from_town", "type": "text", "ask": "From which town?"},
                {"name": "to_town", "type": "text", "ask": "To which town?"},
                {"name": "out_day", "type": "date", "ask": "On which day do you leave?"},
                {"name": "back_day", "type": "date", "ask": "On which day do you come back?"},
            ],
        },
        {
            "name": "order_meal",
            "description": "Order a meal.",
            "slots": [
                {"name": "dishes", "type": "list", "ask": "Which dishes?"},
                {"name": "allergies", "type": "list", "ask": "Are there any allergies?"},
            ],
        },
        {"name": "cancel_trip", "description": "Call off a trip."},
        {
            "name": "pay",
            "description": "Pay somebody.",
            "keywords": ["pay", "send"],
            "slots": [
                {"name": "payee", "type": "text", "ask": "Who is it for?"},
                {"name": "reference", "type": "text", "ask": "What shall the reference say?"},
            ],
        },
    ]
)


@pytest.mark.row("U17")
@pytest.mark.parametrize(
    ("flow", "text", "values"),
    [
        ("book_trip", "Bergen to Oslo, pls", {"from_town": "Bergen", "to_town": "Oslo"}),
        ("book_trip", "we leave from Bergen. going to Oslo", {"from_town": "Bergen", "to_town": "Oslo"}),
        ("book_trip", "Oslo is where we wanna end up", {"to_town": "Oslo"}),
        ("book_trip", "somewhere warm", {}),
        ("pay", "put thx for lunch as the reference", {"reference": "thx for lunch"}),
        ("pay", "reference should say may rent", {"reference": "may rent"}),
        ("pay", "send Marta 50 bucks", {"payee": "Marta"}),
        ("order_meal", "no nuts in anything!! soup and rice", {"allergies": ["nuts"]}),
        ("order_meal", "for allergies put shellfish n sesame", {"allergies": ["shellfish", "sesame"]}),
    ],
)
def test_a_text_that_a_message_names_the_slot_of(flow: str, text: str, values: dict[str, Any]) -> None:
    assert named_texts(FLOWS[flow], text).values == values


@pytest.mark.row("U17")
@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("home again nov 8, leaving nov 5", {"out_day": "2026-11-05", "back_day": "2026-11-08"}),
        ("out mon 19th back thurs 22nd", {"out_day": "2026-10-19", "back_day": "2026-10-22"}),
        ("out 5 december, home on the 8th", {"out_day": "2026-12-05", "back_day": "2026-12-08"}),
        ("i only know we're back on the 2nd of Nov, way out idk", {"back_day": "2026-11-02"}),
    ],
)
def test_days_of_a_trip_by_the_words_beside_them(text: str, days: dict[str, str]) -> None:
    assert stay_days(FLOWS["book_trip"].slots, text, AT) == days


@pytest.mark.row("U14")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("umm i think its called Lochranza??", "Lochranza"),
        ("it says Okay Coffee on the statement", "Okay Coffee"),
        ("that'd be for No Limits Gym", "No Limits Gym"),
        ("rent oct. yeah no thats good", "rent oct"),
        ("payday cant come soon enough", None),
        ("new bike, 1200 in 8 months", "new bike"),
    ],
)
def test_a_sentence_is_no_name(text: str, value: str | None) -> None:
    assert awaited_text(Slot(name="shop", type="text", ask="Which shop was it?"), text) == value


@pytest.mark.row("U7")
def test_items_end_where_numbers_and_days_begin() -> None:
    assert awaited_items("wraps and a fruit platter for 16 tomorrow") == ["wraps", "fruit platter"]
    assert awaited_items("gluten n dairy") == ["gluten", "dairy"]
    assert awaited_items("brb asking round the office") is None


@pytest.mark.row("F9")
@pytest.mark.parametrize(
    ("flow", "text", "opposite"),
    [
        ("cancel_trip", "can i travel tomorrow at nine?", True),
        ("cancel_trip", "we can't make it tomorrow", False),
        ("cancel_trip", "canel my trip", False),
        ("book_trip", "not coming on friday, sorry", True),
        ("book_trip", "a trip on friday please", False),
        ("pay", "not coming on friday, sorry", False),
    ],
)
def test_what_undoes_is_started_where_the_message_says_so(flow: str, text: str, opposite: bool) -> None:
    assert is_opposite(FLOWS[flow], Turn(text=text), FLOWS) is opposite


ACCOUNTS: list[dict[str, Any]] = [
    {
        "name": "block_card",
        "description": "Block a bank card.",
        "examples": ["block my card", "my card is lost", "freeze my card"],
    },
    {
        "name": "order_card",
        "description": "Order a new bank card.",
        "examples": ["a new card please", "order a card", "send me a card"],
    },
    {
        "name": "balance",
        "description": "Tell the balance.",
        "examples": ["what is my balance", "how much money do I have"],
    },
]


@pytest.mark.row("F9", "U19")
@pytest.mark.parametrize("text", ["activate my card", "unblock my card", "is my card ready?"])
def test_what_undoes_something_unasked_is_at_most_asked_about(text: str) -> None:
    program = load("base", flows=FlowRegistry(ACCOUNTS), lm=None)
    assert "block_card" not in program.decide(text=text).selection.flows
    assert program.decide(text="please freeze my card").selection.flows == ["block_card"]


CARD = Flow(name="charge_card", description="Charge a card.", examples=("charge my card",))


@pytest.mark.row("F9", "U19")
@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("please don't charge my card", True),
        ("i don't want you to charge my card", True),
        ("I'm not charging this card", True),
        ("I never charged a card", True),
        ("actually I didn't charge a card", True),
        ("make sure you don't charge my card", True),
        ("you won't charge my card", True),
        ("there is something I don't charge", False),
        ("i don't think the charges are right", False),
        ("I wasn't charged the right rate", False),
        ("my card won't charge", False),
        ("there is money that I didn't charge", False),
    ],
)
def test_a_complaint_denies_no_wish(text: str, denied: bool) -> None:
    assert is_denied(Turn(text=text), CARD) is denied


REFUND = Flow(
    name="request_refund", description="Request a refund.", examples=("I want a refund", "refund my order")
)


@pytest.mark.row("F9", "U19")
@pytest.mark.parametrize(
    ("flow", "text"),
    [
        (FLOWS["cancel_trip"], "i don't want my trip cancelled"),
        (FLOWS["cancel_trip"], "I won't have my trip cancelled"),
        (FLOWS["cancel_trip"], "she will not cancel the trip"),
        (FLOWS["cancel_trip"], "I don't think you should cancel my trip"),
        (FLOWS["cancel_trip"], "my trip is not being cancelled"),
        (FLOWS["cancel_trip"], "a trip I didn't cancel"),
        (CARD, "my wife will not charge a card"),
        (CARD, "don't have my card charged"),
        (REFUND, "I really didn't request a refund"),
        (REFUND, "i dont think a refund is necessary"),
    ],
)
def test_what_sounds_like_a_complaint_may_be_a_denial(flow: Flow, text: str) -> None:
    assert is_denied(Turn(text=text), flow)


@pytest.mark.row("F9")
@pytest.mark.parametrize(
    ("text", "unasked"),
    [
        ("I want to revert a trip", False),
        ("booked the wrong one", False),
        ("deactivate it", False),
        ("I entered the wrong address", True),
        ("something went wrong with my trip", True),
    ],
)
def test_words_for_undoing(text: str, unasked: bool) -> None:
    assert undoes_unasked(FLOWS["cancel_trip"], Turn(text=text)) is unasked


@pytest.mark.row("F9")
@pytest.mark.parametrize(
    ("name", "description", "undoing"),
    [
        ("cancel_trip", "A trip.", True),
        ("call_off_trip", "A trip.", True),
        ("trip_over", "Call off a trip.", True),
        ("CALL_CENTER", "Call center", False),
        ("call_me", "Call the customer back.", False),
        ("_", "A trip.", False),
    ],
)
def test_only_calling_off_undoes(name: str, description: str, undoing: bool) -> None:
    assert undoes(Flow(name=name, description=description)) is undoing


@pytest.mark.row("F9")
@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("stolen bike fund", True),
        ("Check Deposit Express", True),
        ("block my card", False),
        ("can you block the card", False),
        ("also I need a trip", False),
    ],
)
def test_where_a_text_is_asked_for_a_name_starts_nothing(text: str, only: bool) -> None:
    assert only_answers(Slot(name="goal", type="text", ask="What are you saving for?"), text) is only


@pytest.mark.row("U7")
@pytest.mark.parametrize(("text", "code"), [("win 250", "WIN-250"), ("WIN250", "WIN-250"), ("win 25", None)])
def test_a_pattern_with_separators_is_met_without_them(text: str, code: str | None) -> None:
    assert pattern_match(Slot(name="code", type="text", pattern=r"[A-Z]{3}-\d{3}"), text) == code


@pytest.mark.row("U17")
def test_days_and_numbers_of_another_language() -> None:
    day, count = Slot(name="day", type="date"), Slot(name="people", type="number")
    assert values_in(day, "am Freitag passt's", AT) == ("2026-10-16",)
    assert values_in(day, "ciao, I need the van per sabato", AT) == ("2026-10-17",)
    assert (lone_number(count, "on sera douze", AT), lone_number(count, "wir sind zu fünft", AT)) == (12, 5)
    assert lone_number(count, "once in a while", AT) is None
