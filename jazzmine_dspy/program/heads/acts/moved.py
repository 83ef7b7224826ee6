"""Days and hours that are told by another one: a week later, the Monday after, "the 23rd" where the 22nd was held."""

from __future__ import annotations

import calendar
import datetime as dt
import re

_UNITS = r"days?|weeks?|months?|hours?|hrs?|minutes?|mins?"
_COUNTS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "couple of": 2,
}  # fmt: skip
_COUNT = rf"\d{{1,2}}|{'|'.join(_COUNTS)}"
_ENDS = r"(?=\W*$|[,.;:!?]|\s+(?:please|pls|plz|then|instead|than|thanks|if|ok|okay|so|and|but)\b)"
"""What may follow: "the week after the fair" counts from the fair."""
_LATER = r"later|after(?:wards)?|further|on"
_SOONER = r"earlier|sooner|before"
_BY = re.compile(
    rf"(?<![\w.,-])(?:(?P<half>half an? hour|a half[- ]hour)|(?P<count>{_COUNT}) (?P<unit>{_UNITS}))"
    rf" (?:(?P<later>{_LATER})|(?P<sooner>{_SOONER}))\b{_ENDS}",
    re.IGNORECASE,
)
_NEXT = re.compile(
    r"\b(?:the (?P<unit>day|week) (?:(?P<later>after)|(?P<sooner>before))|(?P<next>the next day)|"
    rf"the following (?P<following>day|week))\b{_ENDS}",
    re.IGNORECASE,
)
_DAYS = [day.lower() for day in calendar.day_name]
_WEEKDAY = re.compile(
    rf"\bthe (?:following (?P<first>{'|'.join(_DAYS)})|"
    rf"(?P<day>{'|'.join(_DAYS)}) (?:after|following)(?: that)?)\b{_ENDS}",
    re.IGNORECASE,
)
_OF_MONTH = re.compile(r"\bthe (?P<day>\d{1,2})(?:st|nd|rd|th)\b" + _ENDS, re.IGNORECASE)
_DENIED = re.compile(r"\b(?:not|isn'?t|wasn'?t|no)\W+(?:on |for |from )?$", re.IGNORECASE)
_MONTHS = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in calendar.month_name[1:])
_MONTH = re.compile(
    rf"\b(?:{_MONTHS}|sept|month|next|last|this)\b",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+[/.-]\d+")


def moved_date(text: str, held: str, today: dt.date | None = None) -> str | None:
    """The day that a message tells by another one; None where it tells none.

    Args:
        text: The message.
        held: The day that it starts from, YYYY-MM-DD.
        today: No day before it is meant by its number alone.

    Example:
        >>> texts = ("a week later", "the day after", "the monday after", "not the 22nd, the 23rd", "make it may 2")
        >>> [moved_date(text, "2026-12-22") for text in texts]
        ['2026-12-29', '2026-12-23', '2026-12-28', '2026-12-23', None]
    """
    try:
        return _moved(text, dt.date.fromisoformat(held), today)
    except (ValueError, OverflowError):
        # It is no day, or one beyond the calendar.
        return None


def day_of_month(text: str, held: str, today: dt.date | None = None) -> str | None:
    """The day that a message names by its number alone, of the month of the one that is held; None where it names none.

    Example:
        >>> day_of_month("not the 22nd, the 23rd", "2026-12-22"), day_of_month("on the 4th floor", "2026-12-22")
        ('2026-12-23', None)
    """
    try:
        return _of_month(text, dt.date.fromisoformat(held), today)
    except ValueError:
        return None


def in_held_month(value: str, text: str, held: str) -> str:
    """A day that a message names by its number alone, in the month of the day that is held.

    Example:
        >>> in_held_month("2026-10-21", "out is the 21st actually", "2026-12-22")
        '2026-12-21'
    """
    day = int(value[-2:])
    said = re.search(rf"\bthe {day}(?:st|nd|rd|th)\b(?! (?:of )?(?:{_MONTHS})| of )", text, re.IGNORECASE)
    try:
        return value if said is None else dt.date.fromisoformat(held).replace(day=day).isoformat()
    except ValueError:
        return value


def _moved(text: str, start: dt.date, today: dt.date | None) -> str | None:
    if match := _BY.search(text):
        return _by(start, match)
    if match := _NEXT.search(text):
        days = 7 if "week" in (match["unit"] or match["following"] or "").lower() else 1
        return (start + dt.timedelta(-days if match["sooner"] else days)).isoformat()
    if match := _WEEKDAY.search(text):
        day = _DAYS.index((match["day"] or match["first"]).lower())
        return (start + dt.timedelta((day - start.weekday() - 1) % 7 + 1)).isoformat()
    return _of_month(text, start, today)


def _by(start: dt.date, match: re.Match[str]) -> str | None:
    if match["half"] or match["unit"].lower()[0] == "h" or match["unit"].lower().startswith("min"):
        return None
    count = _counted(match["count"]) * (-1 if match["sooner"] else 1)
    unit = match["unit"].lower()
    if unit.startswith("month"):
        month = start.month - 1 + count
        year, month = start.year + month // 12, month % 12 + 1
        day = min(start.day, calendar.monthrange(year, month)[1])
        return dt.date(year, month, day).isoformat()
    return (start + dt.timedelta(days=count * (7 if unit.startswith("week") else 1))).isoformat()


def _of_month(text: str, start: dt.date, today: dt.date | None) -> str | None:
    """A day that is named by its number alone is of the month that was talked about."""
    if _MONTH.search(text) or _DIGITS.search(text):
        return None
    days = {
        int(match["day"]) for match in _OF_MONTH.finditer(text) if not _DENIED.search(text[: match.start()])
    }
    days.discard(start.day)
    day = days.pop() if len(days) == 1 else 0
    if not 1 <= day <= calendar.monthrange(start.year, start.month)[1]:
        return None
    found = start.replace(day=day)
    return None if today is not None and found < today <= start else found.isoformat()


def moved_time(text: str, held: str) -> str | None:
    """The hour that a message tells by another one, HH:MM; None where it tells none, or one of another day.

    Example:
        >>> [moved_time(text, "14:45") for text in ("half an hour later", "an hour earlier please", "at 3")]
        ['15:15', '13:45', None]
    """
    match, said = _BY.search(text), re.fullmatch(r"(\d\d):(\d\d)", held)
    if match is None or said is None:
        return None
    unit = "h" if match["half"] else match["unit"].lower()
    if unit[0] != "h" and not unit.startswith("min"):
        return None
    minutes = 30 if match["half"] else _counted(match["count"]) * (60 if unit[0] == "h" else 1)
    at = int(said[1]) * 60 + int(said[2]) + (-minutes if match["sooner"] else minutes)
    return f"{at // 60:02}:{at % 60:02}" if 0 <= at < 24 * 60 else None


def _counted(said: str) -> int:
    return int(said) if said.isdigit() else _COUNTS[said.lower()]
