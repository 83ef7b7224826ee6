"""Dates in digits, the same in every language: 2026-03-14, 14.3.2026, 3/4."""

from __future__ import annotations

import datetime as dt
import re

from jazzmine_dspy.models.slot_types.calendar.context import DateContext, Reading, exact

NO_YEAR = "the year is missing"
"""The reason if a slot needs a year and the day has none."""

_ISO = re.compile(
    r"(?<![\d/.-])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[t ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:z|"
    r"[+-]\d\d:?\d\d)?)?(?![\d/-])"
)
_BASIC = re.compile(r"(?:19|20)\d{6}")
_SHORT = re.compile(
    r"(?<![\d/.,:€£$#-])(\d{1,2})( ?[/.-] ?)(\d{1,2})(?:\2(\d{4}|\d\d)(?!\d)|(\.)(?![\d]))?(?![\d/%:-]|"
    r"\.\d| ?%)"
)
_PREPOSITION = re.compile(
    r"\b(?:on|by|until|till|from|before|after|for|the|to|date|day|am|vom|bis|le|el|il|since|seit)[: ] ?$"
)
_UNIT = re.compile(
    r" ?(?:€|£|\$|eur|gbp|usd|pounds?|euros?|kg|cm|inch|l\b|of\b|price|size|pm\b|am\b|h\b|uhr\b|hours?|"
    r"o'clock|star)"
)


def numeric_days(text: str, near: DateContext) -> list[Reading]:
    """Return all dates in digits of a simplified text."""
    readings = [_iso(match) for match in _ISO.finditer(text)]
    if match := _BASIC.fullmatch(text.strip(" .!")):
        day, start = exact(int(match[0][:4]), int(match[0][4:6]), int(match[0][6:])), text.index(match[0])
        readings += [Reading(start, start + 8, (day.isoformat(),))] if day else []
    return [
        *readings,
        *(reading for match in _SHORT.finditer(text) if (reading := _short(match, near)) is not None),
    ]


def _iso(match: re.Match[str]) -> Reading:
    day = exact(int(match[1]), int(match[3]), int(match[4]))
    why = "" if day else f"there is no day {match[1]}-{match[3]}-{match[4]}"
    return Reading(*match.span(), (day.isoformat(),) if day else (), why)


def _short(match: re.Match[str], near: DateContext) -> Reading | None:
    first, sign, second = int(match[1]), match[2].strip(), int(match[3])
    year = match[4]
    is_range = year is None and (sign == "-" or " " in match[2])
    if is_range or _UNIT.match(match.string, match.end()):
        return None
    is_dotted = sign == "." and match[5] is not None
    allowed = ("dm",) if is_dotted else near.orders
    pairs = dict.fromkeys((first, second) if order == "dm" else (second, first) for order in allowed)
    if near.year_needed and year is None:
        return Reading(match.start(), match.end(), why_not=NO_YEAR, alone=True)
    days = [day for pair in pairs if pair[1] <= 12 and (day := _day(near, pair, year)) is not None]
    if not days and len(allowed) == 1 and not is_dotted and 0 < first <= 31 and 0 < second <= 31:
        # "14/3" is valid in one order only, so it is accepted where months come first.
        other = _day(near, (second, first) if allowed[0] == "dm" else (first, second), year)
        days += [other] if other is not None else []
    has_preposition = bool(_PREPOSITION.search(match.string[: match.start()]))
    alone = (
        year is None and not has_preposition and not (is_dotted and match.end() < len(match.string.rstrip()))
    )
    values = tuple(dict.fromkeys(day.isoformat() for day in days))
    why = "" if values else f"there is no day {match[0].strip(' .')}"
    return Reading(*match.span(), values, why, alone)


def _day(near: DateContext, pair: tuple[int, int], year: str | None) -> dt.date | None:
    """Return the date of a pair of day and month, with an optional year of two or four digits."""
    day, month = pair
    if year is None:
        return near.on(day, month)
    return near.on(day, month, int(year) if len(year) == 4 else near.century(year, month, day))
