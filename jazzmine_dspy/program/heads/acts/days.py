"""Days and hours that a message moves, and the two days of a stay: "a day later", "Friday until Monday"."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.slot_types.calendar.context import exact, moved
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot
from jazzmine_dspy.program.heads.acts.readings import place_of, values_in

_PAIR = re.compile(
    r"-|\u2013|\b(?:to|until|till|through|thru|back|return(?:ing|s)?|coming home|come home|"
    r"leav(?:e|ing)|check(?:ing)? ?out|ending|ends?)\b",
    re.IGNORECASE,
)
"""What stands between the two days."""

_BETWEEN = re.compile(r"\bbetween\b.+\band\b", re.IGNORECASE)
_BACK_FIRST = re.compile(r"\b(?:back|return(?:ing|s)?)\b", re.IGNORECASE)
_BACK = re.compile(r"\b(?:back|bakc|abck|bak|bck|return\w*|home|coming home)\b", re.IGNORECASE)
_OUT = re.compile(r"\b(?:out|outward|outbound|leav\w+|depart\w*|going|setting off|there)\b", re.IGNORECASE)
_OF_BACK = re.compile(r"\b(?:back|return|home)\b", re.IGNORECASE)


def stay_days(slots: Sequence[Slot], text: str, at: ReadingContext = ANYWHERE) -> dict[str, str]:
    """The first and the last day that a message names, by slot; empty where it names no such pair.

    Args:
        slots: The flow's slots. Exactly two of them hold a date; the first of these begins the stay.
        text: The message.
        at: Where and when the values are read.

    Example:
        >>> import datetime as dt
        >>> slots = [Slot(name="arrive", type="date"), Slot(name="leave", type="date")]
        >>> at = ReadingContext(date=dt.date(2026, 10, 14))
        >>> stay_days(slots, "from 2 to 6 December, please", at)
        {'arrive': '2026-12-02', 'leave': '2026-12-06'}
        >>> stay_days(slots, "Friday or Monday", at)
        {}
    """
    dates = [slot for slot in slots if slot.type == "date"]
    if len(dates) != 2 or not is_english(at.locale):
        return {}
    first, last = dates
    days = values_in(first, text, at)
    if len(days) == 1 and _goes_back(last):
        before = text[: place_of(last, days[0], text, at)]
        if _BACK.search(before) and not _OUT.search(before):
            return {last.name: days[0]}
    if len(days) != 2 or days != values_in(last, text, at):
        return {}
    begins, ends = (place_of(first, day, text, at) for day in days)
    if (named := _named_days(first, last, text, dict(zip(days, (begins, ends), strict=True)))) is not None:
        return named
    if days[0] > days[1]:
        # "Back on the 7th, out on the 3rd" names the second day first; other pairs are no stay.
        days = days[::-1]
        is_pair = _BACK_FIRST.search(text[:begins]) is not None
    else:
        # The days of "2-6 December" are read at one place.
        apart = text[begins:ends]
        is_pair = not apart or bool(_PAIR.search(apart) or _BETWEEN.search(text[:ends]))
    return {first.name: days[0], last.name: days[1]} if is_pair else {}


def _named_days(first: Slot, last: Slot, text: str, places: dict[str, int]) -> dict[str, str] | None:
    """Two days by the words next to each: "home again 8 Nov, leaving 5 Nov"; None where the words do not tell."""
    if not _goes_back(last):
        return None
    (one, here), (other, there) = sorted(places.items(), key=lambda each: each[1])
    parts = text[:here], text[here:there]
    back, out = ([bool(words.search(part)) for part in parts] for words in (_BACK, _OUT))
    if back == [True, False] and out == [False, True]:
        return {first.name: other, last.name: one}
    if back == [False, True] and out == [True, False]:
        return {first.name: one, last.name: other}
    return None


def _goes_back(slot: Slot) -> bool:
    """Whether a slot holds the day of a return."""
    return _OF_BACK.search(f"{slot.name.replace('_', ' ')} {slot.description} {slot.ask}") is not None


def without_twins(
    slots: Mapping[str, Slot], found: Mapping[str, Any], held: Container[str]
) -> dict[str, Any]:
    """Values by slot, a day or an hour for one slot alone: for one that is changed, else for the first.

    Args:
        slots: The flow's slots by name.
        found: Values by slot.
        held: Names of the slots that hold a value already.
    """
    kept = dict(found)
    for name in found:
        twins = [other for other in slots if other in kept and other != name
                 and slots[other].type == slots[name].type and kept[other] == found[name]]  # fmt: skip
        if name in kept and twins and slots[name].type in ("date", "time") and name not in held:
            first = next(iter(slot for slot in slots if slot == name or slot in twins))
            if first != name or any(other in held for other in twins):
                del kept[name]
    return kept


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
    if match["half"]:
        return None
    count = _counted(match["count"]) * (-1 if match["sooner"] else 1)
    day = moved(start, count, match["unit"].lower().rstrip("s"))
    return None if day is None else day.isoformat()


def _of_month(text: str, start: dt.date, today: dt.date | None) -> str | None:
    """A day that is named by its number alone is of the month that was talked about."""
    if _MONTH.search(text) or _DIGITS.search(text):
        return None
    days = {
        int(match["day"]) for match in _OF_MONTH.finditer(text) if not _DENIED.search(text[: match.start()])
    }
    days.discard(start.day)
    found = exact(start.year, start.month, days.pop() if len(days) == 1 else 0)
    return None if found is None or (today is not None and found < today <= start) else found.isoformat()


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
