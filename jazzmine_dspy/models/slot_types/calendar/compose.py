"""Compose dates of parts: a weekday next to a day, offsets from a day, and offsets from the previous date."""

from __future__ import annotations

import datetime as dt
import re

from jazzmine_dspy.models.slot_types.calendar.context import (
    DateContext,
    Reading,
    counted_by,
    exact,
    moved,
    shifted,
)
from jazzmine_dspy.models.slot_types.calendar.english import DAYS, MONTHS

_DAY = "|".join(DAYS)


def compose_dates(text: str, readings: list[Reading], near: DateContext) -> list[Reading]:
    """Compose the readings of a simplified text into dates."""
    following = _apply_after(text, _apply_offsets(text, _join_pairs(text, readings), near))
    return _order_ranges(text, _with_ends(text, following), near)


_PAIR_GAP = re.compile(r"(?:,|\.)? ?(?:on |the |on the )?")
_PAIR_AFTER = re.compile(r",? ?\(?(?:which is |that's |thats |which falls on |so |being )?(?:a |the )?")


def _join_pairs(text: str, readings: list[Reading]) -> list[Reading]:
    """Join a weekday and a day next to it; if they contradict each other the date is invalid."""
    result: list[Reading] = []
    for each in readings:
        last = result[-1] if result else None
        if last is not None and _is_weekday(text, last) != _is_weekday(text, each):
            day, weekday = (each, last) if _is_weekday(text, last) else (last, each)
            fits = (_PAIR_GAP if weekday is last else _PAIR_AFTER).fullmatch(text[last.end : each.start])
            pair = _join_weekday(text, day, weekday) if fits and weekday.values else None
            if pair is not None:
                result.pop()
                each = pair._replace(start=last.start, end=each.end)
        result.append(each)
    return result


def _join_weekday(text: str, day: Reading, weekday: Reading) -> Reading | None:
    if not day.values:
        return day if day.why_not else None
    weekday_number = dt.date.fromisoformat(weekday.values[0]).weekday()
    values = tuple(value for value in day.values if dt.date.fromisoformat(value).weekday() == weekday_number)
    if values:
        return day._replace(values=values, alone=False)
    if not re.search(r"\d", text[day.start : day.end]):
        return None
    first = dt.date.fromisoformat(day.values[0])
    label = f"{first.day} {MONTHS[first.month - 1].capitalize()} {first.year}"
    why = f"{label} is a {DAYS[first.weekday()].capitalize()}, not a {DAYS[weekday_number].capitalize()}"
    return day._replace(values=(), why_not=why)


def _is_weekday(text: str, each: Reading) -> bool:
    return bool(re.search(rf"(?:{_DAY})(?: after)?$", text[each.start : each.end])) and not re.search(
        r"\d", text[each.start : each.end]
    )


_STAY = re.compile(r"\b(?:for|stay|book|stays) $")
_OFFSET = re.compile(
    r"(?:\b(?P<n>\d{1,3}|an?|another|a couple of|the) )?\b(?P<u>day|night|week|fortnight|"
    r"month)s?(?: (?P<way>after|before|from|on|following|past))? (?:the )?$"
)


def _apply_offsets(text: str, readings: list[Reading], near: DateContext) -> list[Reading]:
    """Apply offsets: "the day after tomorrow", "a week on monday", "friday week"."""
    result: list[Reading] = []
    for each in readings:
        offset = _OFFSET.search(text[: each.start]) if each.values else None
        if offset and (not result or offset.start() >= result[-1].end) and _is_offset(text, offset):
            number = counted_by(offset["n"] or "a") * (-1 if offset["way"] == "before" else 1)
            each = _shift_reading(each, number, offset["u"])._replace(start=offset.start())
        if result and each.values and result[-1].values and _is_weekday(text, result[-1]):
            relation = re.fullmatch(r" (?P<way>after|before) (?:the )?", text[result[-1].end : each.start])
            if relation:
                weekday = dt.date.fromisoformat(result[-1].values[0]).weekday()
                base = near._replace(
                    date=dt.date.fromisoformat(each.values[0]), past=relation["way"] == "before"
                )
                result[-1] = each._replace(
                    start=result[-1].start, values=(base.weekday(weekday).isoformat(),)
                )
                continue
        result.append(each)
    return result


def _is_offset(text: str, offset: re.Match[str]) -> bool:
    """Whether the words before a day are an offset from it, not the length of a stay."""
    way, unit, lead = offset["way"], offset["u"], text[: offset.start()]
    plain = way in (None, "on")
    stay = unit == "night" or lead.endswith("not ") or _STAY.search(lead)
    if stay and (plain or way in ("from", "before")):
        return False
    return not plain or (unit in ("week", "fortnight") and offset["n"] not in (None, "the"))


def _shift_reading(each: Reading, number: int, unit: str) -> Reading:
    days = (moved(dt.date.fromisoformat(value), number, unit) for value in each.values)
    return each._replace(values=tuple(day.isoformat() for day in days if day is not None))


_RETURNS = re.compile(r"\b(?:back|return\w*|home|until|till|to|through)\b")


def _apply_after(text: str, readings: list[Reading]) -> list[Reading]:
    """Count "the Monday after" from the previous date, which is dropped unless it begins a range."""
    result: list[Reading] = []
    for each in readings:
        last = result[-1] if result and len(result[-1].values) == 1 else None
        if each.after and last is not None:
            if not (each.values and _RETURNS.search(text[last.end : each.start])):
                result.pop()
            base = DateContext(dt.date.fromisoformat(last.values[0]))
            day_after = _shift_reading(last, 1, "day")
            if each.values:
                weekday = dt.date.fromisoformat(each.values[0]).weekday()
                day_after = each._replace(values=(base.weekday(weekday).isoformat(),))
            each = day_after._replace(start=each.start, end=each.end)
        if each.values or not each.after:
            result.append(each)
    return result


_TO = r"(?: ?- ?| (?:to|until|till|through|thru) )"
_GAP = re.compile(rf"{_TO}(?:the |on )?")
_BACK = re.compile(
    r"[ ,.;]*(?:(?:and|n|&|then) )?(?:(?:we're |i'm )?(?:coming |going )?(?:back|home|return\w*))(?: on)? (?:the )?"
)
"""The words between the days of a trip."""

_MONTH = "|".join(MONTHS)
_NUMBER_OF_DAY = r"(?:the )?(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_FIRST = re.compile(
    rf"(?:(?P<between>\bbetween )|(?<![\d/.,:€£$#-])){_NUMBER_OF_DAY}(?:{_TO}|(?P<and> and ))(?:the )?$"
)
_IDENTIFIER = re.compile(r"\b(?:order|number|no\.?|booking|room|table|flight|unit|line|platform|invoice) $")
_LAST = re.compile(
    rf"{_TO}{_NUMBER_OF_DAY}(?=$|[,.;!?)](?!\d)| (?:please|pls|and|or|for|if|with|in|at|is|would|works?|thanks|instead|"
    r"then|now)\b)"
)
_ORDINAL = re.compile(r"(?:the )?\d{1,2}(?:st|nd|rd|th)")
_DAY_OF_MONTH = re.compile(
    rf"(?:the )?\d{{1,2}}(?:st|nd|rd|th)?[ -]?(?:day )?(?:of )?(?:the )?(?:{_MONTH})\b"
)
_MONTH_DAY = re.compile(rf"(?:{_MONTH})(?: the|,)?[ -]?\d{{1,2}}(?:st|nd|rd|th)?")


def _with_ends(text: str, readings: list[Reading]) -> list[Reading]:
    """Add the end of a range that shares its month: the 2nd of "2 to 6 december", the 6th of "december 2-6"."""
    result: list[Reading] = []
    for each in readings:
        words = text[each.start : each.end]
        if len(each.values) == 1 and _DAY_OF_MONTH.match(words):
            first = _FIRST.search(text[: each.start])
            is_identifier = first is not None and _IDENTIFIER.search(text[: first.start()])
            if first and not is_identifier and bool(first["between"]) == bool(first["and"]):
                start = first.start("d")
                result = [other for other in result if other.end <= start and other.start < start]
                result += _of_same_month(each, int(first["d"]), start, first.end("d"))
        result.append(each)
        if len(each.values) == 1 and _MONTH_DAY.fullmatch(words) and (last := _LAST.match(text, each.end)):
            result += _of_same_month(each, int(last["d"]), last.start("d"), last.end(), later=True)
    return [
        each
        for place, each in enumerate(result)
        if not any(other.start <= each.start and each.end <= other.end for other in result[:place])
    ]


def _of_same_month(other: Reading, day: int, start: int, end: int, *, later: bool = False) -> list[Reading]:
    """Return the day that begins or ends a range with another day; empty if there is no such day."""
    other_date = dt.date.fromisoformat(other.values[0])
    month = other_date.replace(day=1)
    if not later and day > other_date.day:
        month = shifted(month, months=-1) or month
    date = exact(month.year, month.month, day)
    if date is None or (later and date < other_date):
        return []
    return [Reading(start, end, (date.isoformat(),))]


def _order_ranges(text: str, readings: list[Reading], near: DateContext) -> list[Reading]:
    """Move a weekday or a day without a month that ends a range to the first one after its beginning."""
    result: list[Reading] = []
    for each in readings:
        if result and _is_reversed(text, result[-1], each):
            if near.past:
                result[-1] = _nearest_day(text, result[-1], each, near)
            else:
                each = _nearest_day(text, each, result[-1], near)
        result.append(each)
    return result


def _is_reversed(text: str, first: Reading, last: Reading) -> bool:
    """Whether two days form a range with the later day first."""
    if len(first.values) != 1 or len(last.values) != 1 or first.values <= last.values:
        return False
    gap = text[first.end : last.start]
    return _GAP.fullmatch(gap) is not None or _BACK.fullmatch(gap) is not None


def _nearest_day(text: str, each: Reading, other: Reading, near: DateContext) -> Reading:
    """Return the same weekday or day of a month nearest to the other end; other days do not change."""
    words, day = text[each.start : each.end], dt.date.fromisoformat(each.values[0])
    near = near._replace(date=dt.date.fromisoformat(other.values[0]))
    day_of_month = near.on(day.day) if _ORDINAL.fullmatch(words) else None
    date = near.weekday(day.weekday()) if words in DAYS else day_of_month
    return each._replace(values=(date.isoformat(),)) if date else each
