"""The slot types ``date``, ``time`` and ``duration``."""

from __future__ import annotations

import datetime as dt
import re
from abc import abstractmethod
from typing import Any, ClassVar

from jazzmine_dspy.models.language import foreign_language, is_english
from jazzmine_dspy.models.slot_types.calendar.context import (
    DateContext,
    Reading,
    matches_in,
    numeric_days,
    only_match,
    orders,
    relates,
)
from jazzmine_dspy.models.slot_types.calendar.english import lowered, normalize_english
from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import (
    ANYWHERE,
    ReadingContext,
    Slot,
    breaks_pattern,
    pattern_match,
    slot_type,
)

# The grammars are imported on first use: compiling them takes about 50 ms, and many programs have no such slots.
_SOME_DAY = dt.date(2026, 3, 4)
_DAY = 24 * 60
_LONGEST = 2000
"""Characters of a message that are parsed."""


class CalendarType(TextType):
    """Base of dates, times and durations; subclasses implement :meth:`readings`."""

    example_shown = False
    form: ClassVar[re.Pattern[str]]
    """The pattern of a value in normal form."""
    bounds: ClassVar[str] = ""
    """Describes ``min`` and ``max``, with an example."""

    @abstractmethod
    def readings(self, slot: Slot, text: str, at: ReadingContext) -> list[Reading]:
        """Return all readings of a simplified text, in order."""

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """Return the possible values of a bare text; the pattern of the slot comes first."""
        reading = self._whole(slot, text, at)
        values = list(reading.values) if reading is not None else []
        if slot.pattern is not None:
            values = [value for value in values if not breaks_pattern(slot, value)]
            own = pattern_match(slot, text)
            return values or ([] if own is None else [own])
        return values

    def find_values(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """Return values of a longer message that it does not negate or correct."""
        simplified = _simplify(text, at)
        readings = self.readings(slot, simplified, at)
        if is_english(at.locale or "en"):
            is_relative = self.ranged and relates(simplified, readings, hours=self.name == "time")
            readings = [] if is_relative else matches_in(simplified, readings)
            if not readings and (language := foreign_language(text[:_LONGEST], "days")) is not None:
                return self.find_values(slot, text, at._replace(locale=language))
        else:
            from jazzmine_dspy.models.slot_types.calendar import foreign

            readings = foreign.matches_in(simplified, readings)
        return list(dict.fromkeys(value for each in readings for value in each.values))

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """Convert a value to its normal form; it does not change if it has none or several."""
        if not isinstance(value, str) or (slot.pattern is not None and not breaks_pattern(slot, value)):
            return value
        values = self.candidates(slot, value, at) or self.find_values(slot, value, at)
        return values[0] if len(values) == 1 else value

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Return why a value is invalid or which values it may mean; "" if it is valid."""
        if slot.pattern is not None and isinstance(value, str) and not breaks_pattern(slot, value):
            return ""
        if not isinstance(value, str) or not value.strip():
            return f"{value!r} is not a valid {self.name}"
        reading = self._whole(slot, value, at)
        if reading is not None and reading.why_not:
            return reading.why_not[0].upper() + reading.why_not[1:]
        values = self.candidates(slot, value, at)
        if len(values) > 1:
            return f"{value!r} may be {' or '.join(values)}"
        return (
            self._outside(slot, value, at) if values == [value] else f"{value!r} is not a valid {self.name}"
        )

    def is_attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """Also accept a bare text with an invalid or incomplete value."""
        reading = self._whole(slot, text, at)
        return (reading is not None and bool(reading.why_not)) or super().is_attempt(slot, text, at)

    def bound(self, value: Any, date: dt.date | None) -> Any:
        """Convert ``min``, ``max`` or a value in normal form for comparison; None if it is not a bound."""
        return None

    def definition_error(self, slot: Slot) -> str:
        """Return why the bounds are invalid or exclude every value."""
        first, last = self.bound(slot.min, _SOME_DAY), self.bound(slot.max, _SOME_DAY)
        if self.ranged and ((slot.min is None) < (first is None) or (slot.max is None) < (last is None)):
            return f"min and max of a {self.name} are {self.bounds}"
        return "min is after max" if first is not None and last is not None and first > last else ""

    def _outside(self, slot: Slot, value: str, at: ReadingContext) -> str:
        """Return why a value in normal form is out of bounds; "" if it is within them."""
        first, last, own = (self.bound(each, at.date) for each in (slot.min, slot.max, value))
        unit = "time" if self.name == "time" else "day"
        if first is not None and own < first:
            return f"{value} is too early: the first {unit} is {_format_bound(first)}"
        return (
            f"{value} is too late: the last {unit} is {_format_bound(last)}"
            if last is not None and own > last
            else ""
        )

    def _whole(self, slot: Slot, text: str, at: ReadingContext) -> Reading | None:
        simplified = _simplify(text, at)
        readings = self.readings(slot, simplified, at)
        if is_english(at.locale or "en"):
            if not readings and (language := foreign_language(text[:_LONGEST], "days")) is not None:
                return self._whole(slot, text, at._replace(locale=language))
            return only_match(simplified, readings)
        from jazzmine_dspy.models.slot_types.calendar import foreign

        return foreign.only_match(simplified, readings)


def _format_bound(bound: dt.date | int) -> str:
    return f"{bound // 60:02d}:{bound % 60:02d}" if isinstance(bound, int) else bound.isoformat()


def _simplify(text: str, at: ReadingContext) -> str:
    return normalize_english(text[:_LONGEST]) if is_english(at.locale or "en") else lowered(text[:_LONGEST])


@slot_type("date")
class Date(CalendarType):
    """A day, as ``YYYY-MM-DD``; words count from the date of the turn.

    ``min`` and ``max`` are days, in words ("today") or as ``YYYY-MM-DD``. With a ``max`` of today or earlier, days
    without a year are in the past, and years in two digits are never in the future. ``year: required`` rejects a day
    without a year, so that the assistant asks for it; this is the default for dates of birth.
    """

    example = "2026-03-14"
    ranged = ranged_in_words = dated = True
    bounds = "days, such as today or 2026-03-14"
    form = re.compile(r"\d{4}-\d\d-\d\d")

    def readings(self, slot: Slot, text: str, at: ReadingContext) -> list[Reading]:
        """Return dates in words and digits; without a date of the turn only numeric dates with a year."""
        if at.date is None:
            near = DateContext(dt.date(2000, 1, 1), orders(at.locale, at.region))
            return [
                each for each in numeric_days(text, near) if re.search(r"\d{4}", text[each.start : each.end])
            ]
        latest = self.bound(slot.max, at.date)
        past = latest is not None and latest <= at.date
        near = DateContext(at.date, orders(at.locale, at.region), past, _needs_year(slot, past=past))
        if is_english(at.locale or "en"):
            from jazzmine_dspy.models.slot_types.calendar.days import english_days

            return english_days(text, near)
        from jazzmine_dspy.models.slot_types.calendar import foreign

        return foreign.days(text, near, at.locale)

    def bound(self, value: Any, date: dt.date | None) -> dt.date | None:
        """A day, relative to the date of the turn.

        Example:
            >>> day = dt.date(2026, 3, 4)
            >>> Date("date").bound("tomorrow", day), Date("date").bound("2026-05-01", None)
            (datetime.date(2026, 3, 5), datetime.date(2026, 5, 1))
        """
        if not isinstance(value, str):
            return None
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            if date is None:
                return None
        from jazzmine_dspy.models.slot_types.calendar.days import english_days

        simplified = normalize_english(value)
        reading = only_match(simplified, english_days(simplified, DateContext(date)))
        values = () if reading is None else reading.values
        return dt.date.fromisoformat(values[0]) if len(values) == 1 else None


@slot_type("time")
class Time(CalendarType):
    """A time of day, as ``HH:MM`` of 24 hours.

    An ambiguous time ("at 7") is the one between ``min`` and ``max``; without them the one from 07:00 to 18:59.
    """

    example = "18:30"
    ranged = ranged_in_words = True
    bounds = "times, such as 09:00"
    form = re.compile(r"\d\d:\d\d")

    def readings(self, slot: Slot, text: str, at: ReadingContext) -> list[Reading]:
        """Return times in words and digits."""
        from jazzmine_dspy.models.slot_types.calendar.times import Hours, english_times, plain_times

        first, last = minutes(slot.min), minutes(slot.max)
        hours = Hours() if first is last is None else Hours(first or 0, 1440 if last is None else last)
        return english_times(text, hours) if is_english(at.locale or "en") else plain_times(text)

    def bound(self, value: Any, date: dt.date | None) -> int | None:
        """Minutes since midnight."""
        time = minutes(value)
        return None if time is None or time > _DAY else time


@slot_type("duration")
class Duration(CalendarType):
    """A duration in ISO 8601, in the unit of the message: ``P2W``, ``PT90M``."""

    example = "P2W"
    form = re.compile(r"P[\dT.YMWDHS]+")

    def readings(self, slot: Slot, text: str, at: ReadingContext) -> list[Reading]:
        """Return durations, and the time since a named day."""
        from jazzmine_dspy.models.slot_types.calendar.durations import english_lengths, iso_lengths

        if is_english(at.locale or "en"):
            return english_lengths(text, at.date)
        from jazzmine_dspy.models.slot_types.calendar import foreign

        return iso_lengths(text) or foreign.lengths(text, at.locale)


_OF_BIRTH = re.compile(r"\b(?:born|birth|birthdate|birthday|dob)\b", re.IGNORECASE)


def _needs_year(slot: Slot, *, past: bool) -> bool:
    """Whether a date must name its year: the slot requires it, or it is a date of birth in the past.

    Example:
        >>> born = Slot(name="born", type="date", max="today")
        >>> _needs_year(born, past=True), _needs_year(born.model_copy(update={"year": "optional"}), past=True)
        (True, False)
    """
    if slot.year is not None:
        return slot.year == "required"
    return past and _OF_BIRTH.search(f"{slot.name.replace('_', ' ')} {slot.description}") is not None


def minutes(value: Any) -> int | None:
    """Convert a time such as ``18:30`` to minutes since midnight; YAML reads ``9:30`` as 570, and 9 is nine o'clock.

    Example:
        >>> minutes("18:30"), minutes(570), minutes(9)
        (1110, 570, 540)
    """
    if isinstance(value, str):
        hour, colon, minute = value.partition(":")
        return int(hour) * 60 + int(minute) if colon and hour.isdecimal() and minute.isdecimal() else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if value > 24 else int(value) * 60
    return None
