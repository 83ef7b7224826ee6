"""Lengths of time: "two weeks", "a year and a half", "since christmas", "P2W"."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from fractions import Fraction
from typing import NamedTuple

from jazzmine_dspy.models.slot_types.calendar.context import DateContext, Reading, longest
from jazzmine_dspy.models.slot_types.calendar.days import english_days
from jazzmine_dspy.models.slot_types.calendar.english import MONTHS


class Unit(NamedTuple):
    """A unit of duration: its family, its size in that family, and its sign in ISO 8601."""

    family: str
    size: int
    sign: str


UNITS = {
    "decade": Unit("months", 120, ""),
    "year": Unit("months", 12, "Y"),
    "month": Unit("months", 1, "M"),
    "fortnight": Unit("minutes", 14 * 24 * 60, ""),
    "week": Unit("minutes", 7 * 24 * 60, "W"),
    "day": Unit("minutes", 24 * 60, "D"),
    "night": Unit("minutes", 24 * 60, "D"),
    "hour": Unit("minutes", 60, "TH"),
    "minute": Unit("minutes", 1, "TM"),
}
_SIGNED = {unit.sign: unit for unit in UNITS.values() if unit.sign}
_WRITTEN = {"months": ("year", "month"), "minutes": ("week", "day", "hour", "minute")}
_UNIT = "(?:" + "|".join(UNITS) + ")"
_NUMBER = r"(?:(?<![\d.,])\d{1,4}(?:[.,]\d{1,2})?(?: 1/[24]| 3/4)?|1/[24]|3/4)"
_PIECE = re.compile(
    rf"(?P<half>half (?:an? )?|(?:a )?half(?:-| of an? )?)(?P<u1>{_UNIT})\b"
    rf"|(?P<quarters>(?:a )?quarter|3 quarters)(?: of)?(?: an?)? (?P<u2>hour|year)\b"
    rf"|(?P<n>{_NUMBER}|an?|another|(?:a )?couple(?: of)?|the whole|a whole|a full|a good|"
    rf"all) ?(?:and (?:a|1) half |& a half |\+ ?)?"
    rf"(?P<more>)(?:whole |full |solid |more |good |long |extra |"
    rf"whole )?-?(?P<u3>{_UNIT}s?)\b(?P<plus> and (?:a|1) half\b| and (?:a )?quarter\b)?"
)
_HALVES = re.compile(r"(?:and (?:a|1) half|& a half)")
_LINK = re.compile(r",? (?:and )?|,")
_MINUTES_AFTER = re.compile(r" (?:and )?([1-5]\d)\b(?! ?(?:%|[€£$]))")
_LETTERS = re.compile(
    r"\W*(?=\w)"
    + "".join(rf"(?:(\d{{1,3}}) ?{unit})? ?" for unit in ("y", "mo", "w", "d", "h", "m?"))
    + r"\W*"
)
_ISO = re.compile(
    r"(?<!\w)p(?=[\dt])(?:(?P<Y>\d{1,9}(?:\.\d+)?)y)?(?:(?P<M>\d{1,9}(?:\.\d+)?)m)?(?:(?P<W>\d{1,9}(?:\.\d+)?)w)?(?:(?P<D>\d{1,9}(?:\.\d+)?)d)?"
    r"(?:t(?=\d)(?:(?P<TH>\d{1,9}(?:\.\d+)?)h)?(?:(?P<TM>\d{1,9}(?:\.\d+)?)m)?(?:(?P<TS>\d{1,9})s)?)?(?!\w)"
)
_NOT_LENGTH_BEFORE = re.compile(
    r"\b(?:once|twice|thrice|times|per|every|each|this|next|last|in|within|after|another|first|"
    r"\d+ ?(?:x|€|£|\$|euros?|pounds?|dollars?)|[€£$]\d[\d.,]*|\d(?:st|nd|rd|th))(?: (?:about|around))? $"
)
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_NOT_LENGTH_AFTER = re.compile(
    rf"^(?: (?:later|early|earlier|late|before|after|in advance|notice|old [a-z]|on (?:the )?{_WEEKDAY}|"
    rf"(?:from )?(?:now|today|tomorrow|{_WEEKDAY}))\b|'?s? time\b|-old)"
)
_NIGHTS_FROM = re.compile(r"nights? from\b")
_PERSON = re.compile(r"\d+[ -](?:year|month|week|day)[ -]olds?\b|all (?:day|night)\b|overnight")
_AGO = re.compile(r"^ (?:ago|back|since)\b")
_IDLE = re.compile(
    r"\b(?:just|give me|hang on|hold on|wait|one|in)? ?(?:a|1|another|couple of) (?:minute|second|sec|hour)$"
)
_GOES_ON = re.compile(r"\b(?:for|stay\w*|extend\w*|add|need|keep|take\w*|book|just) (?:\w+ )?$")
_A_DAY = ("a day", "a long day", "a good day", "1 day")
_WHAT_A = re.compile(r"\bwhat $|\bhave $")
_DAY_TRIP = re.compile(r"^ (?:trip|ticket|pass|return|out|off|i|we|when|you)\b")
_OR = re.compile(
    rf"(?P<a>{_NUMBER}|an?|couple of) ?(?:{_UNIT}s? )?(?:to|or|-|"
    rf"/) ?(?P<b>{_NUMBER}) ?(?P<u>{_UNIT})s?\b|(?:an? |1 )(?P<u2>{_UNIT}) or (?:2|so)\b"
)
_SINCE = re.compile(r"\bsince (?:about |around |roughly |before |just after |the )?")


def english_lengths(text: str, date: dt.date | None) -> list[Reading]:
    """Return all durations of a simplified English text."""
    since = [] if date is None else _since_readings(text, date)
    readings = longest([*iso_lengths(text), *_piece_readings(text), *since])
    lengths = [each for each in readings if not _AGO.match(text[each.end :])]
    return lengths or readings


def iso_lengths(text: str) -> list[Reading]:
    """Return durations in ISO 8601; empty ones are invalid."""
    readings = []
    for match in _ISO.finditer(text):
        parts = [(Fraction(match[sign]), unit) for sign, unit in _SIGNED.items() if match[sign]]
        if match["TS"]:
            parts.append((Fraction(int(match["TS"]), 60), UNITS["minute"]))
        value = written(parts)
        why = "" if value else "that is not a length of time"
        readings.append(Reading(match.start(), match.end(), (value,) if value else (), why))
    return readings


def written(parts: list[tuple[Fraction, Unit]]) -> str:
    """Format a duration in ISO 8601, in its only unit or else in the smallest unit of its parts.

    Example:
        >>> written([(Fraction(2), UNITS["week"])]), written([(Fraction(3, 2), UNITS["year"])])
        ('P2W', 'P18M')
        >>> written([(Fraction(1), UNITS["hour"]), (Fraction(30), UNITS["minute"])])
        'PT90M'
    """
    parts = [(number, unit) for number, unit in parts if number]
    if not parts:
        return ""
    months = [part for part in parts if part[1].family == "months"]
    rest = [part for part in parts if part[1].family != "months"]
    if months and rest:
        # A month has no fixed number of days, so years and months are written separately.
        minutes = sum((number * unit.size for number, unit in rest), Fraction())
        days = minutes / UNITS["day"].size
        after = f"{days}D" if days.denominator == 1 else written([(minutes, UNITS["minute"])])[1:]
        return written(months) + after
    units = [UNITS[name] for name in _WRITTEN[parts[0][1].family]]
    total = sum((number * unit.size for number, unit in parts), Fraction())
    smallest = min(unit.size for _, unit in parts)
    for unit in units:
        if unit.size <= smallest and (total / unit.size).denominator == 1:
            return _iso_duration(str(total // unit.size), unit)
    amount = total / units[-1].size
    digits = f"{float(amount):.2f}".rstrip("0").rstrip(".")
    return _iso_duration(digits, units[-1]) if amount >= Fraction(1, 100) else ""


def _iso_duration(number: str, unit: Unit) -> str:
    return f"P{unit.sign[0]}{number}{unit.sign[1]}" if len(unit.sign) == 2 else f"P{number}{unit.sign}"


def _piece_readings(text: str) -> list[Reading]:
    readings = [Reading(*match.span(), ("P1D",), alone=True) for match in re.finditer(r"\bovernight\b", text)]
    readings += [_either(match) for match in _OR.finditer(text)]
    start, parts = 0, list[tuple[Fraction, Unit]]()
    pieces = [*_PIECE.finditer(text)]
    for match, following in itertools.zip_longest(pieces, pieces[1:]):
        start, end = start if parts else match.start(), match.end()
        parts.append(_piece(match))
        unit = parts[-1][1]
        if (
            following
            and _LINK.fullmatch(text[end : following.start()])
            and _piece(following)[1].size < unit.size
        ):
            continue
        if unit.sign == "TH" and (tail := _MINUTES_AFTER.match(text, end)):
            parts.append((Fraction(tail[1]), UNITS["minute"]))
            end = tail.end()
        if not text[:start].endswith(("in ", "in about ", "in around ")):
            readings.append(_length(text, start, end, parts))
        parts = []
    if match := _LETTERS.fullmatch(text):
        names = ("year", "month", "week", "day", "hour", "minute")
        parts = [
            (Fraction(int(number)), UNITS[name])
            for number, name in zip(match.groups(), names, strict=True)
            if number
        ]
        if parts and re.search("[a-z]", text) and written(parts):
            readings.append(Reading(0, len(text), (written(parts),), alone=True))
    return readings


def _piece(match: re.Match[str]) -> tuple[Fraction, Unit]:
    if match["half"]:
        return Fraction(1, 2), UNITS[match["u1"]]
    if match["quarters"]:
        return Fraction(3 if match["quarters"].startswith("3") else 1, 4), UNITS[match["u2"]]
    parts = [Fraction(part.replace(",", ".")) for part in re.findall(r"[\d./,]+", match["n"])]
    number = sum(parts, Fraction()) if parts else Fraction(2 if "couple" in match["n"] else 1)
    if _HALVES.search(match[0]):
        number += Fraction(1, 2)
    elif match["plus"]:
        number += Fraction(1, 4)
    name = match["u3"]
    return number, UNITS[name if name in UNITS else name[:-1]]


def _length(text: str, start: int, end: int, parts: list[tuple[Fraction, Unit]]) -> Reading:
    before, after = text[:start], text[end:]
    value = written(parts)
    idle = _IDLE.search(text[:end]) is not None and not re.search(
        r"\b(?:for|about|took|takes|last\w*|lasts) (?:about )?$", before
    )
    other = (
        _NOT_LENGTH_BEFORE.search(before)
        or _PERSON.match(text[start:])
        or (_NOT_LENGTH_AFTER.match(after) and not _NIGHTS_FROM.match(text, text.rfind(" ", start, end) + 1))
    )
    rated = text.startswith("a ", start) and re.search(r"\d \w+ $", before) and not before.endswith(" for ")
    again = text[start:end].startswith(("another", "a ")) and re.search(
        r"\b(?:twice|once|times|\d) $", before
    )
    if not value:
        return Reading(start, end, why_not="that is not a length of time")
    # "another day" means a later day, "what a day" means a day, not a duration.
    words = text[start:end]
    day = words == "another day" and not _GOES_ON.search(before)
    day = day or (words in _A_DAY and bool(_WHAT_A.search(before) or _DAY_TRIP.match(after)))
    return Reading(start, end, (value,), alone=bool(idle or other or again or rated or day))


def _either(match: re.Match[str]) -> Reading:
    """Read ``2 or 3 weeks`` with two values."""
    if match["u2"]:
        unit, numbers = UNITS[match["u2"]], [Fraction(1), Fraction(2)]
        if match[0].endswith("so"):
            numbers = numbers[:1]
    else:
        unit = UNITS[match["u"]]
        first = match["a"]
        one = (
            Fraction(2)
            if "couple" in first
            else Fraction(1)
            if not re.search(r"\d", first)
            else Fraction(first.split()[0].replace(",", "."))
        )
        numbers = [one, Fraction(match["b"].split()[0].replace(",", "."))]
    values = dict.fromkeys(value for number in numbers if (value := written([(number, unit)])))
    return Reading(match.start(), match.end(), tuple(values))


def _since_readings(text: str, date: dt.date) -> list[Reading]:
    readings = []
    for match in _SINCE.finditer(text):
        rest = text[match.end() :]
        day, length = _first_day(rest, date)
        if day is None or day > date:
            continue
        readings.append(
            Reading(match.start(), match.end() + length, (passed(day, date),) if day < date else ())
        )
    return readings


def _first_day(rest: str, date: dt.date) -> tuple[dt.date | None, int]:
    """Return the past day at the beginning of a text, and the length of its words."""
    days = [
        each
        for each in english_days(rest, DateContext(date, ("dm",), past=True))
        if each.start == 0 and each.values
    ]
    if days:
        return dt.date.fromisoformat(days[0].values[0]), days[0].end
    month = re.match(
        rf"(?:last |early |late |the (?:start|beginning) of )?({'|'.join(MONTHS)})(?:,? (?:of )?((?:19|"
        rf"20)\d\d))?\b",
        rest,
    )
    if month:
        number = MONTHS.index(month[1]) + 1
        year = int(month[2]) if month[2] else None
        return (DateContext(date, past=True).on(1, number, year)), month.end()
    return None, 0


def passed(day: dt.date, date: dt.date) -> str:
    """Return how long ago a day is: in whole months from two on, in whole weeks from one on, else in days.

    Example:
        >>> passed(dt.date(2025, 12, 25), dt.date(2026, 3, 4)), passed(dt.date(2026, 2, 10), dt.date(2026, 3, 4))
        ('P2M', 'P3W')
    """
    months = (date.year - day.year) * 12 + date.month - day.month - (date.day < day.day)
    if months >= 2:
        return f"P{months}M"
    days = (date - day).days
    return f"P{days // 7}W" if days >= 7 else f"P{days}D"
