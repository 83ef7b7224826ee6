"""What stands in a message and is no value: days that others count from, measures, names, denied yeses (U5, U9)."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from jazzmine_dspy.models import Slot
from jazzmine_dspy.models.language import foreign_language
from jazzmine_dspy.models.slots import ReadingContext

AT = ReadingContext(date=dt.date(2026, 10, 14), currency="USD", region="GB")
DAY = Slot(name="visit_day", type="date", min="today")
HOUR = Slot(name="visit_hour", type="time", min="08:00", max="19:00")
GUESTS = Slot(name="guests", type="number", ask="For how many people?")
PRICE = Slot(name="price", type="money")
COVER = Slot(name="insurance", type="boolean")


def within(slot: Slot, text: str) -> list[Any]:
    """The values that a slot's type reads inside a message."""
    return list(slot.kind.find_values(slot, text, AT))


@pytest.mark.row("U5", "U9")
@pytest.mark.parametrize(
    "text",
    [
        "day after my scan. scan's the 22nd", "the day before we fly (26 Oct)", "2 days ahead of the 28th",
        "contract runs to 1st Nov, we'll be gone the day before that", "a week before the wedding, that's 7 nov",
        "Sunday before last", "the saturday before the holiday weekend", "a week earlier than the 30th",
        "my flight is on the 12th so 2 days prior", "ideally within a week of the 3rd", "the morning after halloween",
    ],
)  # fmt: skip
def test_a_day_that_another_one_is_counted_from_is_no_value(text: str) -> None:
    assert within(DAY, text) == []


@pytest.mark.row("U9")
@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("the day after tomorrow", "2026-10-16"), ("three weeks after the 16th", "2026-11-06"),
        ("the monday before christmas", "2026-12-21"), ("friday after 3", "2026-10-16"),
        ("not a day before the 25th please", "2026-10-25"), ("Thursday week", "2026-10-22"),
        ("the day before the 1st", "2026-10-31"),
    ],
)  # fmt: skip
def test_a_day_that_is_computed_stays_one(text: str, day: str) -> None:
    assert within(DAY, text) == [day]


@pytest.mark.row("U5")
def test_an_hour_that_another_one_is_counted_from_is_no_value() -> None:
    told = ("an hour before my 3pm bus", "half an hour after the school run at 9", "20 mins later than 9")
    assert [within(HOUR, text) for text in told] == [[], [], []]
    assert within(HOUR, "straight after my class so half eleven") == ["11:30"]


@pytest.mark.row("U5")
def test_how_are_you_today_is_no_answer() -> None:
    assert DAY.kind.parse(DAY, "how are you today", AT) is None
    assert DAY.kind.parse(DAY, "today please", AT) == "2026-10-14"


@pytest.mark.row("U5")
@pytest.mark.parametrize(
    "text",
    [
        "give me 5 mins",
        "in 20 minutes",
        "3 quid a head",
        "in a 7 seater",
        "10 sandwiches",
        "2 trays",
        "the 9 sailing",
    ],
)
def test_what_measures_or_labels_counts_nobody(text: str) -> None:
    assert GUESTS.kind.parse(GUESTS, text, AT) is None


@pytest.mark.row("U7")
def test_a_unit_that_the_slot_asks_for_is_counted() -> None:
    nights = Slot(name="stay", type="number", ask="How many nights?")
    assert nights.kind.parse(nights, "3 nights", AT) == 3
    assert [GUESTS.kind.parse(GUESTS, text, AT) for text in ("the 4 of us", "12 hungry people")] == [
        4,
        12,
    ]


@pytest.mark.row("U9")
def test_words_and_names_are_no_foreign_days_and_numbers() -> None:
    assert [
        foreign_language(text, "numbers") for text in ("label it Sept", "quince paste", "for Otto", "a venti")
    ] == [None] * 4
    assert foreign_language("tickets for Mardi Gras", "days") is None
    assert foreign_language("am Freitag passt es", "days") == "de"
    assert foreign_language("on sera douze", "numbers") == "fr"


@pytest.mark.row("U5")
@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("locker from sat, dont need insurance", [False]), ("we wont want insurance", [False]),
        ("nah skip the insurance", [False]), ("insurance isnt necessary", [False]), ("insurance not needed", [False]),
        ("no insurance ta", [False]), ("didnt ask for insurance", [False]), ("without the insurance", [False]),
        ("i already have insurance", []), ("not sure about insurance", []), ("medium w insurance", [True]),
        ("no wait, insurance yes", [True]),
    ],
)  # fmt: skip
def test_a_denied_name_is_never_a_yes(text: str, yes: list[bool]) -> None:
    assert within(COVER, text) == yes


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("hundred n fifty bucks a pop", ["150.00 USD"]), ("hundred & twenty bucks", ["120.00 USD"]),
        ("two hundred n ten dollars", ["210.00 USD"]), ("thousand and twenty dollars", ["1020.00 USD"]),
        ("one n a half grand dollars", ["1500.00 USD"]), ("twenty n ten dollars", []),
        ("all hundred n twenty dollars", ["120.00 USD"]),
    ],
)  # fmt: skip
def test_joined_amounts_are_read_whole_or_not_at_all(text: str, amounts: list[str]) -> None:
    assert within(PRICE, text) == amounts
