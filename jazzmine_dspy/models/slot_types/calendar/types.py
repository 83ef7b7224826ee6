"""The slot types ``date``, ``time`` and ``duration``."""

from __future__ import annotations

import datetime as dt
import re
from abc import abstractmethod
from typing import Any, ClassVar

from jazzmine_dspy.models.language import day_language
from jazzmine_dspy.models.slot_types.calendar.context import (
    DateContext,
    Reading,
    matches_in,
    only_match,
    orders,
    relates,
)
from jazzmine_dspy.models.slot_types.calendar.english import lowered, normalize_english
from jazzmine_dspy.models.slot_types.calendar.numeric import numeric_days
from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import (
    ANYWHERE,
    ReadingContext,
    Slot,
    breaks_pattern,
    pattern_match,
    slot_type,
)

# The grammars are imported where they are needed: compiling their expressions takes some 50 ms, and many programs
# have no slot of these types.
_SOME_DAY = dt.date(2026, 3, 4)
_DAY = 24 * 60
_LONGEST = 2000
"""Characters of a message that are read; further on people tell stories."""


class CalendarType(TextType):
    """What dates, times and durations have in common; each says how it finds its readings in a text."""

    example_shown = False
    form: ClassVar[re.Pattern[str]]
    """What a value looks like in normal form."""
    bounds: ClassVar[str] = ""
    """What ``min`` and ``max`` are, with an example."""

    @abstractmethod
    def readings(self, slot: Slot, text: str, at: ReadingContext) -> list[Reading]:
        """All readings in a simplified text, in its order."""

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The values that a text may be which says nothing else; the slot's own pattern comes first."""
        found = self._whole(slot, text, at)
        values = list(found.values) if found is not None else []
        if slot.pattern is not None:
            values = [value for value in values if not breaks_pattern(slot, value)]
            own = pattern_match(slot, text)
            return values or ([] if own is None else [own])
        return values

    def find_values(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """Values in a longer message, without those that it denies or takes back again."""
        said = _said(text, at)
        found = self.readings(slot, said, at)
        if _is_english(at):
            counted = self.ranged and relates(said, found, hours=self.name == "time")
            found = [] if counted else matches_in(said, found)
            if not found and (language := day_language(text[:_LONGEST])) is not None:
                return self.find_values(slot, text, at._replace(locale=language))
        else:
            from jazzmine_dspy.models.slot_types.calendar import foreign

            found = foreign.matches_in(said, found)
        return list(dict.fromkeys(value for each in found for value in each.values))

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """The normal form of a value however it is written; as it is where it has none or several."""
        if not isinstance(value, str) or (slot.pattern is not None and not breaks_pattern(slot, value)):
            return value
        values = self.candidates(slot, value, at) or self.find_values(slot, value, at)
        return values[0] if len(values) == 1 else value

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Why it is no value, why it is none that there is, or which of two it might be."""
        if slot.pattern is not None and isinstance(value, str) and not breaks_pattern(slot, value):
            return ""
        if not isinstance(value, str) or not value.strip():
            return f"{value!r} is no {self.name}"
        found = self._whole(slot, value, at)
        if found is not None and found.why_not:
            return found.why_not[0].upper() + found.why_not[1:]
        values = self.candidates(slot, value, at)
        if len(values) > 1:
            return f"{value!r} may be {' or '.join(values)}"
        return self._outside(slot, value, at) if values == [value] else f"{value!r} is no {self.name}"

    def is_attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """Also a text that names nothing but a value that there is not, or that lacks a part."""
        found = self._whole(slot, text, at)
        return (found is not None and bool(found.why_not)) or super().is_attempt(slot, text, at)

    def bound(self, given: Any, date: dt.date | None) -> Any:
        """What a slot's ``min`` or ``max``, or a value in normal form, is compared by; None where it is no bound."""
        return None

    def definition_error(self, slot: Slot) -> str:
        """Bounds that are none, or that leave no value."""
        first, last = self.bound(slot.min, _SOME_DAY), self.bound(slot.max, _SOME_DAY)
        if self.ranged and ((slot.min is None) < (first is None) or (slot.max is None) < (last is None)):
            return f"min and max of a {self.name} are {self.bounds}"
        return "min is after max" if first is not None and last is not None and first > last else ""

    def _outside(self, slot: Slot, value: str, at: ReadingContext) -> str:
        """Why a value in normal form is before ``min`` or after ``max``; "" where it is not."""
        first, last, own = (self.bound(each, at.date) for each in (slot.min, slot.max, value))
        unit = "time" if self.name == "time" else "day"
        if first is not None and own < first:
            return f"{value} is too early: the first {unit} is {_shown(first)}"
        return (
            f"{value} is too late: the last {unit} is {_shown(last)}"
            if last is not None and own > last
            else ""
        )

    def _whole(self, slot: Slot, text: str, at: ReadingContext) -> Reading | None:
        own = _said(text, at)
        found = self.readings(slot, own, at)
        if _is_english(at):
            if not found and (language := day_language(text[:_LONGEST])) is not None:
                return self._whole(slot, text, at._replace(locale=language))
            return only_match(own, found)
        from jazzmine_dspy.models.slot_types.calendar import foreign

        return foreign.only_match(own, found)


def _shown(bound: dt.date | int) -> str:
    return f"{bound // 60:02d}:{bound % 60:02d}" if isinstance(bound, int) else bound.isoformat()


def _said(text: str, at: ReadingContext) -> str:
    return normalize_english(text[:_LONGEST]) if _is_english(at) else lowered(text[:_LONGEST])


def _is_english(at: ReadingContext) -> bool:
    return at.locale.lower().replace("_", "-").split("-")[0] in ("en", "")


@slot_type("date")
class Date(CalendarType):
    """A day, as ``YYYY-MM-DD``; words count from the date of the turn.

    ``min`` and ``max`` are days, in words ("today") or as ``YYYY-MM-DD``. With a ``max`` of today or earlier, days
    without a year are those behind, and years in two digits are never ahead. ``year: required`` refuses a day without
    a year, so that the user is asked for it; this is the default of dates of birth.
    """

    example = "2026-03-14"
    ranged = ranged_in_words = dated = True
    bounds = "days, such as today or 2026-03-14"
    form = re.compile(r"\d{4}-\d\d-\d\d")

    def readings(self, slot: Slot, text: str, at: ReadingContext) -> list[Reading]:
        """Dates in words and digits; of those without a year in a text without a date, none."""
        if at.date is None:
            near = DateContext(dt.date(2000, 1, 1), orders(at.locale, at.region))
            return [
                each for each in numeric_days(text, near) if re.search(r"\d{4}", text[each.start : each.end])
            ]
        latest = bound(slot.max, at.date)
        past = latest is not None and latest <= at.date
        near = DateContext(at.date, orders(at.locale, at.region), past, _needs_year(slot, past=past))
        if _is_english(at):
            from jazzmine_dspy.models.slot_types.calendar.days import english_days

            return english_days(text, near)
        from jazzmine_dspy.models.slot_types.calendar import foreign

        return foreign.days(text, near, at.locale)

    def bound(self, given: Any, date: dt.date | None) -> dt.date | None:
        """A day."""
        return bound(given, date)


@slot_type("time")
class Time(CalendarType):
    """A time of day, as ``HH:MM`` of 24 hours.

    Of two readings ("at 7") the one between ``min`` and ``max`` is meant; without these the one from 07:00 to 18:59.
    """

    example = "18:30"
    ranged = ranged_in_words = True
    bounds = "times, such as 09:00"
    form = re.compile(r"\d\d:\d\d")

    def readings(self, slot: Slot, text: str, at: ReadingContext) -> list[Reading]:
        """Times in words and digits."""
        from jazzmine_dspy.models.slot_types.calendar.times import Hours, english_times, plain_times

        first, last = minutes(slot.min), minutes(slot.max)
        hours = Hours() if first is last is None else Hours(first or 0, 1440 if last is None else last)
        return english_times(text, hours) if _is_english(at) else plain_times(text)

    def bound(self, given: Any, date: dt.date | None) -> int | None:
        """Minutes since midnight."""
        time = minutes(given)
        return None if time is None or time > _DAY else time


@slot_type("duration")
class Duration(CalendarType):
    """A length of time in the unit in which it is said, as ISO 8601: ``P2W``, ``PT90M``."""

    example = "P2W"
    form = re.compile(r"P[\dT.YMWDHS]+")

    def readings(self, slot: Slot, text: str, at: ReadingContext) -> list[Reading]:
        """Lengths, and the time since a day that is named."""
        from jazzmine_dspy.models.slot_types.calendar.durations import english_lengths, iso_lengths

        if _is_english(at):
            return english_lengths(text, at.date)
        from jazzmine_dspy.models.slot_types.calendar import foreign

        return iso_lengths(text) or foreign.lengths(text, at.locale)


_OF_BIRTH = re.compile(r"\b(?:born|birth|birthdate|birthday|dob)\b", re.IGNORECASE)


def _needs_year(slot: Slot, *, past: bool) -> bool:
    """Whether a date must name its year: the slot says so, or it is a day behind and a date of birth by its name.

    Example:
        >>> born = Slot(name="born", type="date", max="today")
        >>> _needs_year(born, past=True), _needs_year(born.model_copy(update={"year": "optional"}), past=True)
        (True, False)
    """
    if slot.year is not None:
        return slot.year == "required"
    return past and _OF_BIRTH.search(f"{slot.name.replace('_', ' ')} {slot.description}") is not None


def bound(given: Any, date: dt.date | None) -> dt.date | None:
    """The day that a slot's ``min`` or ``max`` names, counted from the turn's date.

    Example:
        >>> bound("tomorrow", dt.date(2026, 3, 4)), bound("2026-05-01", None)
        (datetime.date(2026, 3, 5), datetime.date(2026, 5, 1))
    """
    if not isinstance(given, str):
        return None
    try:
        return dt.date.fromisoformat(given)
    except ValueError:
        from jazzmine_dspy.models.slot_types.calendar.days import english_days

        said = normalize_english(given)
        found = only_match(said, english_days(said, DateContext(date))) if date is not None else None
        return (
            dt.date.fromisoformat(found.values[0]) if found is not None and len(found.values) == 1 else None
        )


def minutes(given: Any) -> int | None:
    """Minutes since midnight of a time such as ``18:30``; YAML reads a bare ``9:30`` as 570, and 9 is nine o'clock.

    Example:
        >>> minutes("18:30"), minutes(570), minutes(9)
        (1110, 570, 540)
    """
    if isinstance(given, str):
        hour, colon, minute = given.partition(":")
        return int(hour) * 60 + int(minute) if colon and hour.isdecimal() and minute.isdecimal() else None
    if isinstance(given, int | float) and not isinstance(given, bool):
        return int(given) if given > 24 else int(given) * 60
    return None
