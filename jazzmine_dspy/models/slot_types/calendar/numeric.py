"""Dates in digits, which every language writes: 2026-03-14, 14.3.2026, 3/4."""

from __future__ import annotations

import datetime as dt
import re
from typing import NamedTuple

from jazzmine_dspy.models.slot_types.calendar.context import DateContext, Reading, exact


class DateMatch(NamedTuple):
    """What a part of a text names: days, or why there is none; ``alone`` and ``after`` as in ``Reading``."""

    days: tuple[dt.date, ...] = ()
    why_not: str = ""
    alone: bool = False
    after: bool = False


NO_YEAR = "the year is missing"
"""Why a day without a year is no date of a slot that needs one."""

_ISO = re.compile(
    r"(?<![\d/.-])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[t ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:z|"
    r"[+-]\d\d:?\d\d)?)?(?![\d/-])"
)
_BASIC = re.compile(r"(?:19|20)\d{6}")
_SHORT = re.compile(
    r"(?<![\d/.,:€£$#-])(\d{1,2})( ?[/.-] ?)(\d{1,2})(?:\2(\d{4}|\d\d)(?!\d)|(\.)(?![\d]))?(?![\d/%:-]|"
    r"\.\d| ?%)"
)
_INTRODUCED = re.compile(
    r"\b(?:on|by|until|till|from|before|after|for|the|to|date|day|am|vom|bis|le|el|il|since|seit)[: ] ?$"
)
_MEASURED = re.compile(
    r" ?(?:€|£|\$|eur|gbp|usd|pounds?|euros?|kg|cm|inch|l\b|of\b|price|size|pm\b|am\b|h\b|uhr\b|hours?|"
    r"o'clock|star)"
)


def numeric_days(text: str, near: DateContext) -> list[Reading]:
    """All dates in digits in a simplified text."""
    found = [_iso(match) for match in _ISO.finditer(text)]
    if match := _BASIC.fullmatch(text.strip(" .!")):
        day, start = exact(int(match[0][:4]), int(match[0][4:6]), int(match[0][6:])), text.index(match[0])
        found += [Reading(start, start + 8, (day.isoformat(),))] if day else []
    return [*found, *(said for match in _SHORT.finditer(text) if (said := _short(match, near)) is not None)]


def _iso(match: re.Match[str]) -> Reading:
    day = exact(int(match[1]), int(match[3]), int(match[4]))
    why = "" if day else f"there is no day {match[1]}-{match[3]}-{match[4]}"
    return Reading(*match.span(), (day.isoformat(),) if day else (), why)


def _short(match: re.Match[str], near: DateContext) -> Reading | None:
    first, sign, second = int(match[1]), match[2].strip(), int(match[3])
    written = match[4]
    parted = written is None and (sign == "-" or " " in match[2])
    if parted or _MEASURED.match(match.string, match.end()):
        return None
    dotted = sign == "." and match[5] is not None
    allowed = ("dm",) if dotted else near.orders
    pairs = dict.fromkeys((first, second) if order == "dm" else (second, first) for order in allowed)
    if near.year_needed and written is None:
        return Reading(match.start(), match.end(), why_not=NO_YEAR, alone=True)
    days = [day for pair in pairs if pair[1] <= 12 and (day := _day(near, pair, written)) is not None]
    if not days and len(allowed) == 1 and not dotted and 0 < first <= 31 and 0 < second <= 31:
        # "14/3" in a region of months first has one reading only, and is meant.
        other = _day(near, (second, first) if allowed[0] == "dm" else (first, second), written)
        days += [other] if other is not None else []
    introduced = bool(_INTRODUCED.search(match.string[: match.start()]))
    alone = written is None and not introduced and not (dotted and match.end() < len(match.string.rstrip()))
    values = tuple(dict.fromkeys(day.isoformat() for day in days))
    why = "" if values else f"there is no day {match[0].strip(' .')}"
    return Reading(*match.span(), values, why, alone)


def _day(near: DateContext, pair: tuple[int, int], written: str | None) -> dt.date | None:
    """The day of a day and a month, and of a year in two or four digits."""
    day, month = pair
    if written is None:
        return near.on(day, month)
    return near.on(day, month, int(written) if len(written) == 4 else near.century(written, month, day))
