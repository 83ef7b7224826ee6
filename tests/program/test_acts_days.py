"""Two days for two slots, a year that comes after its day, and ordinals that are days."""

from __future__ import annotations

import datetime as dt

import pytest

from jazzmine_dspy.models import ReadingContext, Slot, Turn
from jazzmine_dspy.program.heads.acts.days import stay_days
from jazzmine_dspy.program.heads.acts.readings import part_value
from jazzmine_dspy.program.heads.acts.referred import referred_value

HERE = ReadingContext(dt.date(2026, 10, 14), region="GB")
SLOTS = [Slot(name="out", type="date"), Slot(name="guests", type="number"), Slot(name="back", type="date")]


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("from 2 to 6 December", ("2026-12-02", "2026-12-06")), ("2-6 Dec", ("2026-12-02", "2026-12-06")),
        ("Friday until Monday", ("2026-10-16", "2026-10-19")), ("friday - monday", ("2026-10-16", "2026-10-19")),
        ("tomorrow, returning on Sunday", ("2026-10-15", "2026-10-18")),
        ("the ferry out on 3 November and back on 7 November", ("2026-11-03", "2026-11-07")),
        ("back on 7 November, out on 3 November", ("2026-11-03", "2026-11-07")),
    ],
)  # fmt: skip
def test_two_days_fill_two_slots(text: str, days: tuple[str, str]) -> None:
    assert stay_days(SLOTS, text, HERE) == dict(zip(("out", "back"), days, strict=True))


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    "text",
    [
        "Friday or Monday",
        "I'm away until Friday, but Monday works",
        "move it from Friday to Monday",
        "on Friday",
    ],
)
def test_other_days_are_no_stay(text: str) -> None:
    assert stay_days(SLOTS, text, HERE) == {}
    assert stay_days(SLOTS[:2], "Friday until Monday", HERE) == {}


@pytest.mark.row("U7")
def test_a_year_completes_the_day_before_it() -> None:
    born = Slot(name="born", type="date", year="required")
    history = [
        {"role": "user", "text": "July 9th"},
        {"role": "assistant", "text": "The year is missing. What is the date of birth?"},
    ]
    for text, day in (("1988", "1988-07-09"), ("it was 1988.", "1988-07-09"), ("in '91", "1991-07-09")):
        assert referred_value(born, Turn(text=text, history=history), HERE, asked=True) == day
    for text in ("88", "room 1988", "no"):
        assert referred_value(born, Turn(text=text, history=history), HERE, asked=True) is None


@pytest.mark.row("U7", "U17")
def test_an_ordinal_that_is_a_day_is_no_number() -> None:
    guests = SLOTS[1]
    assert part_value(guests, "the 4th", HERE) == 4
    assert part_value(guests, "the 4th", HERE, taken=["2026-11-04"]) is None
    assert part_value(guests, "oh wait, the 4th", HERE, taken=["2026-11-04"]) is None
    assert part_value(guests, "4", HERE, taken=["2026-11-04"]) == 4
