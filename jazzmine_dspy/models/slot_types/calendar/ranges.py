"""Ranges of two days in English: "from 2 to 6 December", "2-6 Dec", "Friday until Monday"."""

from __future__ import annotations

import datetime as dt
import re

from jazzmine_dspy.models.slot_types.calendar.context import Reading
from jazzmine_dspy.models.slot_types.calendar.english import DAYS, MONTHS
from jazzmine_dspy.models.slot_types.calendar.near import Near, exact, shifted

_TO = r"(?: ?- ?| (?:to|until|till|through|thru) )"
_GAP = re.compile(rf"{_TO}(?:the |on )?")
_BACK = re.compile(
    r"[ ,.;]*(?:(?:and|n|&|then) )?(?:(?:we're |i'm )?(?:coming |going )?(?:back|home|return\w*))(?: on)? (?:the )?"
)
"""What stands between the days of a trip."""

_MONTH = "|".join(MONTHS)
_DAY = r"(?:the )?(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_FIRST = re.compile(
    rf"(?:(?P<between>\bbetween )|(?<![\d/.,:€£$#-])){_DAY}(?:{_TO}|(?P<and> and ))(?:the )?$"
)
_IDENTIFIER = re.compile(r"\b(?:order|number|no\.?|booking|room|table|flight|unit|line|platform|invoice) $")
_LAST = re.compile(
    rf"{_TO}{_DAY}(?=$|[,.;!?)](?!\d)| (?:please|pls|and|or|for|if|with|in|at|is|would|works?|thanks|instead|"
    r"then|now)\b)"
)
_NUMBERED = re.compile(r"(?:the )?\d{1,2}(?:st|nd|rd|th)")
_DAY_OF_MONTH = re.compile(
    rf"(?:the )?\d{{1,2}}(?:st|nd|rd|th)?[ -]?(?:day )?(?:of )?(?:the )?(?:{_MONTH})\b"
)
_MONTH_DAY = re.compile(rf"(?:{_MONTH})(?: the|,)?[ -]?\d{{1,2}}(?:st|nd|rd|th)?")


def ranged(text: str, found: list[Reading], near: Near) -> list[Reading]:
    """The dates of a simplified text with both ends of its ranges, the second not before the first."""
    return _ordered(text, _with_ends(text, found), near)


def _with_ends(text: str, found: list[Reading]) -> list[Reading]:
    """With the end that shares the month of the other: of "2 to 6 december" the 2nd, of "december 2-6" the 6th."""
    kept: list[Reading] = []
    for each in found:
        said = text[each.start : each.end]
        if len(each.values) == 1 and _DAY_OF_MONTH.match(said):
            before = _FIRST.search(text[: each.start])
            counts = before is not None and _IDENTIFIER.search(text[: before.start()])
            if before and not counts and bool(before["between"]) == bool(before["and"]):
                start = before.start("d")
                kept = [other for other in kept if other.end <= start and other.start < start]
                kept += _of_same_month(each, int(before["d"]), start, before.end("d"))
        kept.append(each)
        if len(each.values) == 1 and _MONTH_DAY.fullmatch(said) and (after := _LAST.match(text, each.end)):
            kept += _of_same_month(each, int(after["d"]), after.start("d"), after.end(), later=True)
    return [each for place, each in enumerate(kept) if not _is_inside(each, kept[:place])]


def _of_same_month(other: Reading, day: int, start: int, end: int, *, later: bool = False) -> list[Reading]:
    """The day of that number that begins or ends a range with another day; none where it cannot."""
    known = dt.date.fromisoformat(other.values[0])
    month = known.replace(day=1)
    if not later and day > known.day:
        month = shifted(month, months=-1) or month
    found = exact(month.year, month.month, day)
    if found is None or (later and found < known):
        return []
    return [Reading(start, end, (found.isoformat(),))]


def _is_inside(each: Reading, others: list[Reading]) -> bool:
    return any(other.start <= each.start and each.end <= other.end for other in others)


def _ordered(text: str, found: list[Reading], near: Near) -> list[Reading]:
    """A weekday or a day without a month that ends a range is the next one after its beginning."""
    kept: list[Reading] = []
    for each in found:
        last = kept[-1] if kept else None
        if last is not None and _is_reversed(text, last, each):
            start, end = (dt.date.fromisoformat(one.values[0]) for one in (last, each))
            if near.past:
                moved = _nearest(text, last, start, near._replace(date=end))
                kept[-1] = last._replace(values=(moved.isoformat(),)) if moved else last
            else:
                moved = _nearest(text, each, end, near._replace(date=start))
                each = each._replace(values=(moved.isoformat(),)) if moved else each
        kept.append(each)
    return kept


def _is_reversed(text: str, first: Reading, last: Reading) -> bool:
    """Whether two days stand as a range, the later one first."""
    if len(first.values) != 1 or len(last.values) != 1 or first.values <= last.values:
        return False
    gap = text[first.end : last.start]
    return _GAP.fullmatch(gap) is not None or _BACK.fullmatch(gap) is not None


def _nearest(text: str, each: Reading, day: dt.date, near: Near) -> dt.date | None:
    """The same weekday, or day of a month, nearest to the other end of the range."""
    said = text[each.start : each.end]
    if said in DAYS:
        return near.weekday(day.weekday())
    return near.on(day.day) if _NUMBERED.fullmatch(said) else None
