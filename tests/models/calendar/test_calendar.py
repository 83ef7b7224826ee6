"""Dates, times and durations: what customers say, what language models write, and what is none."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from jazzmine_dspy.models import FlowRegistry, ReadingContext, Slot
from spoken_values import DATES, DURATIONS, TIMES

WEDNESDAY = dt.date(2026, 3, 4)
HERE = ReadingContext(WEDNESDAY)
KINDS = ["date", "time", "duration"]


def slot(kind: str, **fields: Any) -> Slot:
    return Slot(name="it", type=kind, **fields)


def at(region: str = "", locale: str = "en") -> ReadingContext:
    return ReadingContext(WEDNESDAY, locale, region)


def understood(held: Slot, text: str, where: ReadingContext) -> Any:
    """As a rule reads it: the whole text, or else the only value in it."""
    value = held.kind.parse(held, text, where)
    found = held.kind.find_values(held, text, where)
    return value if value is not None else found[0] if len(found) == 1 else None


@pytest.mark.row("U7", "U17")
@pytest.mark.parametrize(
    ("kind", "text", "given", "wanted"),
    [(kind, *each) for kind, table in zip(KINDS, (DATES, TIMES, DURATIONS), strict=True) for each in table],
)
def test_what_customers_say(kind: str, text: str, given: Any, wanted: str | None) -> None:
    held = slot(kind, **(given if isinstance(given, dict) else {}))
    where = at(given if isinstance(given, str) else "")
    value = understood(held, text, where)
    assert value == wanted
    if value is not None:
        assert held.kind.normalize(held, value, where) == value


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("region", "locale", "text", "wanted"),
    [
        ("", "en", "3/4", ["2026-04-03", "2026-03-04"]), ("GB", "en", "3/4", ["2026-04-03"]),
        ("US", "en", "3/4", ["2026-03-04"]), ("", "en-US", "3/5", ["2026-03-05"]),
        ("", "de", "3/4", ["2026-04-03"]), ("CA", "en", "3/4", ["2026-04-03", "2026-03-04"]),
        ("US", "en", "14/3", ["2026-03-14"]), ("", "en", "14/3", ["2026-03-14"]),
        ("US", "en", "12.5.", ["2026-05-12"]), ("", "en", "fri 3/4", ["2026-04-03"]),
        ("", "ja", "3/4", ["2026-03-04"]), ("GB", "en", "31/4", []), ("", "en", "the weekend", []),
        ("", "en", "friday after next", ["2026-03-20", "2026-03-13"]),
    ],
)  # fmt: skip
def test_what_is_ambiguous_stays_so(region: str, locale: str, text: str, wanted: list[str]) -> None:
    held = slot("date")
    assert held.kind.candidates(held, text, at(region, locale)) == wanted
    assert held.kind.parse(held, text, at(region, locale)) == (wanted[0] if len(wanted) == 1 else None)


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("kind", "locale", "text", "wanted"),
    [
        ("date", "de", "übermorgen", "2026-03-06"), ("date", "de", "am 14. März", "2026-03-14"),
        ("date", "de", "Können Sie am Freitag liefern?", "2026-03-06"), ("date", "de", "nicht am Freitag", None),
        ("date", "de", "in zwei Wochen", "2026-03-18"), ("date", "de", "nächsten Freitag", None),
        ("date", "de", "Mai", None), ("date", "de", "5", None), ("date", "de", "eine Sekunde bitte", None),
        ("date", "fr", "le 1er avril", "2026-04-01"), ("date", "fr", "demain", "2026-03-05"),
        ("date", "fr", "pas vendredi", None), ("date", "fr", "vendredi prochain", None),
        ("date", "es", "pasado mañana", "2026-03-06"), ("date", "es", "por la mañana", None),
        ("date", "es", "el 14 de marzo de 2027", "2027-03-14"), ("date", "it", "il 3 aprile", "2026-04-03"),
        ("time", "de", "um 18 Uhr", "18:00"), ("time", "fr", "à 18h30", "18:30"),
        ("time", "es", "a las 7:15", "07:15"),
        ("time", "de", "nicht um 18:00", None),
        ("duration", "de", "seit zwei Jahren", "P2Y"), ("duration", "fr", "trois semaines", "P3W"),
        ("duration", "es", "dos meses", "P2M"), ("duration", "de", "in zwei Wochen", None),
        # No English rule in another language, whether there is a table of it or not.
        ("date", "de", "tomorrow", None), ("date", "xx", "tomorrow", None), ("time", "de", "half past six", None),
        ("duration", "xx", "2 weeks", None), ("date", "xx", "2026-05-01", "2026-05-01"),
        ("time", "xx", "18:30", "18:30"),
        ("date", "../de", "morgen", None),
    ],
)  # fmt: skip
def test_other_languages(kind: str, locale: str, text: str, wanted: str | None) -> None:
    assert understood(slot(kind), text, at(locale=locale)) == wanted


@pytest.mark.row("U7", "U17")
@pytest.mark.parametrize(
    ("kind", "written", "wanted"),
    [
        ("date", "14 March", "2026-03-14"), ("date", "in two weeks", "2026-03-18"),
        ("date", "next Friday", "2026-03-13"),
        ("date", "2026-03-14T18:00:00Z", "2026-03-14"), ("date", "Friday at 6 pm", "2026-03-06"),
        ("time", "6 pm", "18:00"), ("time", "18:30:00", "18:30"),
        ("time", "half past six", "18:30"), ("time", "9:05", "09:05"),
        ("duration", "two weeks", "P2W"), ("duration", "P1Y6M", "P18M"), ("duration", "PT1H30M", "PT90M"),
        ("duration", "1.5 hours", "PT90M"), ("duration", "P14D", "P14D"), ("duration", "P1W2D", "P9D"),
        ("duration", "three nights", "P3D"), ("duration", "P2M10D", "P2M10D"),
    ],
)  # fmt: skip
def test_what_a_language_model_writes_gets_its_normal_form(kind: str, written: str, wanted: str) -> None:
    held = slot(kind)
    assert held.kind.normalize(held, written, HERE) == wanted
    assert held.kind.check(held, wanted, HERE) == held.kind.label_error(held, wanted) == ""


@pytest.mark.row("U7", "U17")
@pytest.mark.parametrize(
    ("kind", "fields", "said", "why"),
    [
        ("date", {}, "31 February", "February has no day 31"),
        ("date", {}, "2026-02-30", "There is no day 2026-02-30"),
        ("date", {}, "Friday 14 March", "14 March 2026 is a Saturday, not a Friday"),
        ("date", {}, "3/4", "'3/4' may be 2026-04-03 or 2026-03-04"),
        ("date", {}, "soon", "'soon' is not a valid date"),
        ("date", {}, "", "'' is not a valid date"), ("date", {}, 14, "14 is not a valid date"),
        ("date", {}, "not friday", "'not friday' is not a valid date"),
        ("date", {"min": "today"}, "2026-03-03", "2026-03-03 is too early: the first day is 2026-03-04"),
        ("date", {"max": "in two months"}, "2026-05-05", "2026-05-05 is too late: the last day is 2026-05-04"),
        ("time", {}, "25:00", "There is no time 25:00"), ("time", {}, "9:75", "There is no time 9:75"),
        ("time", {}, "soonish", "'soonish' is not a valid time"),
        ("time", {"min": "09:00", "max": "18:00"}, "19:30", "19:30 is too late: the last time is 18:00"),
        ("time", {"min": "09:00"}, "08:59", "08:59 is too early: the first time is 09:00"),
        ("duration", {}, "0 days", "That is not a length of time"),
        ("duration", {}, "P0D", "That is not a length of time"),
        ("duration", {}, "2 or 3 weeks",
         "'2 or 3 weeks' may be P2W or P3W"),
        ("duration", {}, "ages", "'ages' is not a valid duration"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_with_a_reason(
    kind: str, fields: dict[str, Any], said: Any, why: str
) -> None:
    held = slot(kind, **fields)
    assert held.kind.normalize(held, said, HERE) == said
    assert held.kind.check(held, said, HERE) == why


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("date", {"min": "soon"}, "are days"), ("date", {"max": 5}, "are days"),
        ("date", {"min": "tomorrow", "max": "today"}, "min is after max"), ("time", {"min": "soon"}, "are times"),
        ("time", {"max": "09:75x"}, "are times"), ("time", {"min": "18:00", "max": "09:00"}, "min is after max"),
        ("number", {"min": "today"}, "are numbers"), ("duration", {"min": "today"}, "has no min and max"),
        ("date", {"min": True}, "a bound is"), ("date", {"min": ""}, "a bound is"),
    ],
)  # fmt: skip
def test_bounds_that_are_none_are_refused(kind: str, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        slot(kind, **fields)


def test_bounds_are_read_from_yaml_as_people_write_them() -> None:
    slots = "min: 2026-05-01, max: 2026-06-01}, {name: time, type: time, min: 9:00, max: 18:30}]"
    text = f"flows: [{{name: f, description: d, slots: [{{name: date, type: date, {slots}}}]"
    day, time = FlowRegistry.from_yaml_text(text, where="flows.yaml")["f"].slots
    assert (day.min, day.max, time.min, time.max) == ("2026-05-01", "2026-06-01", 540.0, 1110.0)
    assert (day.kind.check(day, "2026-05-01", HERE), time.kind.check(time, "18:30", HERE)) == ("", "")
    assert Slot.model_validate_json(day.model_dump_json()) == day


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("fields", "text", "wanted"),
    [
        ({}, "at 7", "07:00"), ({"min": "17:00", "max": "23:00"}, "at 7", "19:00"),
        ({"min": 17, "max": 23}, "seven", "19:00"),
        ({"min": 540, "max": 1080}, "3", "15:00"), ({"min": "00:00", "max": "23:59"}, "3", "15:00"),
    ],
)  # fmt: skip
def test_the_hours_of_the_slot_say_which_half_of_the_day(
    fields: dict[str, Any], text: str, wanted: str
) -> None:
    held = slot("time", **fields)
    assert held.kind.parse(held, text, HERE) == wanted


@pytest.mark.row("U7")
def test_without_a_date_nothing_is_counted_from_one() -> None:
    nowhere = ReadingContext()
    assert understood(slot("date"), "tomorrow", nowhere) is None
    assert understood(slot("date"), "14 March", nowhere) is None
    assert understood(slot("date"), "2026-03-14", nowhere) == "2026-03-14"
    assert understood(slot("duration"), "since christmas", nowhere) is None
    assert understood(slot("duration"), "2 weeks", nowhere) == "P2W"


def test_a_pattern_of_the_slot_s_own_holds() -> None:
    held = slot("date", pattern=r"\d{4}-\d\d-\d\d")
    assert held.kind.parse(held, "tomorrow", HERE) == "2026-03-05"
    coded = slot("time", pattern="early|late")
    assert (coded.kind.parse(coded, "late!", HERE), coded.kind.parse(coded, "18:00", HERE)) == ("late", None)
    assert (coded.kind.normalize(coded, "late", HERE), coded.kind.check(coded, "late", HERE)) == ("late", "")


DAYS = st.dates(dt.date(1990, 1, 1), dt.date(2090, 1, 1))
PLACES = st.builds(
    ReadingContext,
    st.none() | DAYS,
    st.sampled_from(["en", "en-GB", "de", "fr", "es", "ja", "xx", "en_US", ""]),
    st.sampled_from(["", "US", "GB", "CA", "DE"]),
)
WORDS = (  # noqa: SIM905
    "the a an in on at next this last not no or and half quarter past to of since ago week weeks months friday mon sat "
    "14th 31st march may 3/4 12.5. 2026 7 18h 6pm 25:00 noon tonight tomorrow christmas end year hour day after before "
    "couple second first P2W PT90M p0d ½ 9999-12-31 0001-01-01 00 999 years 1.5 zwei wochen demain"
).split()
TEXTS = st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)


@pytest.mark.row("U7", "U17")
@pytest.mark.fuzz
@settings(max_examples=80, deadline=None)
@given(text=TEXTS, where=PLACES)
def test_every_value_that_is_read_is_in_normal_form(text: str, where: ReadingContext) -> None:
    for kind in KINDS:
        held = slot(kind)
        values = [*held.kind.candidates(held, text, where), *held.kind.find_values(held, text, where)]
        for value in values:
            assert held.kind.form.fullmatch(value), (text, value)
            assert held.kind.candidates(held, value, where) == [value]
            assert held.kind.find_values(held, f"{value}", where) == [value]
            assert held.kind.normalize(held, value, where) == value
            assert held.kind.check(held, value, where) == ""
        assert isinstance(held.kind.check(held, held.kind.normalize(held, text, where), where), str)


@pytest.mark.row("U7")
@pytest.mark.fuzz
@settings(max_examples=30, deadline=None)
@given(
    each=st.sampled_from(
        [(kind, *row) for kind, table in zip(KINDS, (DATES, TIMES, DURATIONS), strict=True) for row in table]
    ),
    ending=st.sampled_from(["", ".", "!", " ?", "...", "\n"]),
    change=st.sampled_from(
        [str.upper, str.lower, str.title, "  {}".format, lambda text: text.replace(" ", "  ")]
    ),
)
def test_case_and_punctuation_change_nothing(each: tuple[Any, ...], ending: str, change: Any) -> None:
    kind, text, given_, wanted = each
    held = slot(kind, **(given_ if isinstance(given_, dict) else {}))
    where = at(given_ if isinstance(given_, str) else "")
    assert understood(held, change(text) + ending, where) == wanted


@pytest.mark.row("U7")
@settings(max_examples=40, deadline=None)
@given(day=DAYS, length=st.integers(1, 400), minute=st.integers(0, 1439))
def test_dates_are_written_in_many_ways_and_read_in_one(day: dt.date, length: int, minute: int) -> None:
    date, time, duration = (slot(kind) for kind in KINDS)
    for written in ("%d %B %Y", "%B %d, %Y", "%A %d %B %Y", "%Y-%m-%d", "%Y/%m/%d", "%d-%b-%Y"):
        assert date.kind.parse(date, day.strftime(written), HERE) == day.isoformat()
    for region, written in (("GB", "%d/%m/%Y"), ("US", "%m/%d/%Y"), ("DE", "%d.%m.%Y")):
        assert date.kind.parse(date, day.strftime(written), at(region)) == day.isoformat()
    shown = dt.time(minute // 60, minute % 60)
    for written in ("%I:%M %p", "%I.%M%p", "%Hh%M", "%I:%M %p sharp"):
        assert time.kind.parse(time, shown.strftime(written).lower(), HERE) == f"{shown:%H:%M}"
    for unit, value in (
        ("days", f"P{length}D"),
        ("weeks", f"P{length}W"),
        ("minutes", f"PT{length}M"),
        ("yrs", f"P{length}Y"),
    ):
        assert duration.kind.parse(duration, f"{length} {unit}", HERE) == value


@pytest.mark.row("U17")
@pytest.mark.parametrize(("said", "kept"), [("99999 hours", []), ("1000½ weeks", ["PT168084H"])])
def test_no_digit_of_a_long_number_is_lost(said: str, kept: list[str]) -> None:
    held = slot("duration")
    assert held.kind.candidates(held, said) == held.kind.find_values(held, said) == kept
    assert [held.kind.normalize(held, each) for each in kept] == kept
