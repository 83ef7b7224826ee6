"""Years of days that are behind, dates of birth, and both days of a range."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine_dspy.models import ReadingContext, Slot

HERE = ReadingContext(dt.date(2026, 10, 14), region="GB")


def slot(name: str = "day", **fields: Any) -> Slot:
    return Slot(name=name, type="date", **fields)


def read(held: Slot, text: str, at: ReadingContext = HERE) -> Any:
    return held.kind.candidates(held, text, at)


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("the 9th of July", "2026-07-09"), ("15 March 88", "1988-03-15"), ("March 15, 88", "1988-03-15"),
        ("15-mar-88", "1988-03-15"), ("5.6.51", "1951-06-05"), ("9 July '26", "2026-07-09"), ("1/2/26", "2026-02-01"),
        ("end of december", "2025-12-31"),
    ],
)  # fmt: skip
def test_a_day_that_is_behind_is_never_ahead(text: str, day: str) -> None:
    assert read(slot("lost_on", max="today"), text) == [day]


@pytest.mark.row("U7", "U17")
@pytest.mark.parametrize(
    "text", ["July 9th", "the 9th of July", "the 9th", "3/4", "Friday 9 July", "Boxing day"]
)
@pytest.mark.parametrize(
    "held",
    [
        slot("d", year="required"),
        slot("born", max="today"),
        slot("d", max="today", description="Date of birth"),
    ],
    ids=lambda held: held.name,
)
def test_a_date_of_birth_needs_its_year(held: Slot, text: str) -> None:
    assert read(held, text) == [] == held.kind.find_values(held, text, HERE)
    assert held.kind.is_attempt(held, text, HERE)
    assert held.kind.check(held, held.kind.normalize(held, text, HERE), HERE) == "The year is missing"


@pytest.mark.row("U7")
def test_a_date_of_birth_with_its_year() -> None:
    born = slot("born", year="required")
    said = ("9 July 1988", "15 March 88", "3/4/1990", "5.6.51", "9.7.2026", "yesterday")
    assert [read(born, text) for text in said] == [
        ["1988-07-09"], ["1988-03-15"], ["1990-04-03"], ["1951-06-05"], ["2026-07-09"], ["2026-10-13"],
    ]  # fmt: skip
    german = ReadingContext(dt.date(2026, 10, 14), locale="de")
    assert read(born, "9. Juli", german) == []
    assert read(born, "9. Juli 1988", german) == ["1988-07-09"]


@pytest.mark.row("U7")
def test_only_a_date_has_a_year_and_it_may_be_optional() -> None:
    assert read(slot("born", max="today", year="optional"), "July 9th") == ["2026-07-09"]
    # A birthday that is ahead is no date of birth.
    assert read(slot("birthday_party"), "July 9th") == ["2027-07-09"]
    with pytest.raises(ValidationError, match="a slot of the type text has no year"):
        Slot(name="it", type="text", year="required")
    assert "year" not in slot().model_dump(mode="json")


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("from 2 to 6 December", ["2026-12-02", "2026-12-06"]), ("2-6 Dec", ["2026-12-02", "2026-12-06"]),
        ("December 2-6", ["2026-12-02", "2026-12-06"]), ("28 to 3 December", ["2026-11-28", "2026-12-03"]),
        ("from the 2nd to the 6th of December", ["2026-12-02", "2026-12-06"]),
        ("between 2 and 6 December", ["2026-12-02", "2026-12-06"]), ("29 dec - 3 jan", ["2026-12-29", "2027-01-03"]),
        ("Friday until Monday", ["2026-10-16", "2026-10-19"]), ("Monday until Friday", ["2026-10-19", "2026-10-23"]),
        ("from the 10th to the 16th", ["2026-11-10", "2026-11-16"]),
        ("move it from 2 to 6 December", ["2026-12-06"]), ("order 12 to 6 December", ["2026-12-06"]),
        ("Dec 2 to 6 people", ["2026-12-02"]), ("3 to 4 people on 6 December", ["2026-12-06"]),
    ],
)  # fmt: skip
def test_both_days_of_a_range(text: str, days: list[str]) -> None:
    assert slot().kind.find_values(slot(), text, HERE) == days


@pytest.mark.row("U7")
def test_a_range_that_is_behind() -> None:
    lost = slot("lost_on", max="today")
    assert lost.kind.find_values(lost, "monday to friday", HERE) == ["2026-10-05", "2026-10-09"]
