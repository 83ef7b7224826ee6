"""Dates made of parts: a weekday beside a day, days counted from a named one, and from the date before it."""

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


def composed(text: str, found: list[Reading], near: DateContext) -> list[Reading]:
    """The dates of a simplified text, of which the parts have been found."""
    following = _following(text, _counted(text, _paired(text, found), near))
    return _ordered(text, _with_ends(text, following), near)


_PAIR_GAP = re.compile(r"(?:,|\.)? ?(?:on |the |on the )?")
_PAIR_AFTER = re.compile(r",? ?\(?(?:which is |that's |thats |which falls on |so |being )?(?:a |the )?")


def _paired(text: str, found: list[Reading]) -> list[Reading]:
    """A weekday beside a day makes one date, and refuses it where they contradict each other."""
    kept: list[Reading] = []
    for each in found:
        last = kept[-1] if kept else None
        if last is not None and _is_weekday(text, last) != _is_weekday(text, each):
            day, weekday = (each, last) if _is_weekday(text, last) else (last, each)
            fits = (_PAIR_GAP if weekday is last else _PAIR_AFTER).fullmatch(text[last.end : each.start])
            joined = _joined(text, day, weekday) if fits and weekday.values else None
            if joined is not None:
                kept.pop()
                each = joined._replace(start=last.start, end=each.end)
        kept.append(each)
    return kept


def _joined(text: str, day: Reading, weekday: Reading) -> Reading | None:
    if not day.values:
        return day if day.why_not else None
    wanted = dt.date.fromisoformat(weekday.values[0]).weekday()
    fitting = tuple(value for value in day.values if dt.date.fromisoformat(value).weekday() == wanted)
    if fitting:
        return day._replace(values=fitting, alone=False)
    if not re.search(r"\d", text[day.start : day.end]):
        return None
    first = dt.date.fromisoformat(day.values[0])
    said = f"{first.day} {MONTHS[first.month - 1].capitalize()} {first.year}"
    why = f"{said} is a {DAYS[first.weekday()].capitalize()}, not a {DAYS[wanted].capitalize()}"
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


def _counted(text: str, found: list[Reading], near: DateContext) -> list[Reading]:
    """Days counted from a named one: "the day after tomorrow", "a week on monday", "friday week"."""
    kept: list[Reading] = []
    for each in found:
        before = _OFFSET.search(text[: each.start]) if each.values else None
        if before and (not kept or before.start() >= kept[-1].end) and _counts(text, before):
            number = counted_by(before["n"] or "a") * (-1 if before["way"] == "before" else 1)
            each = _moved(each, number, before["u"])._replace(start=before.start())
        if kept and each.values and kept[-1].values and _is_weekday(text, kept[-1]):
            relation = re.fullmatch(r" (?P<way>after|before) (?:the )?", text[kept[-1].end : each.start])
            if relation:
                weekday = dt.date.fromisoformat(kept[-1].values[0]).weekday()
                base = near._replace(
                    date=dt.date.fromisoformat(each.values[0]), past=relation["way"] == "before"
                )
                kept[-1] = each._replace(start=kept[-1].start, values=(base.weekday(weekday).isoformat(),))
                continue
        kept.append(each)
    return kept


def _counts(text: str, before: re.Match[str]) -> bool:
    """Whether what stands before a day counts from it, and is no length of a stay."""
    way, unit, lead = before["way"], before["u"], text[: before.start()]
    plain = way in (None, "on")
    stay = unit == "night" or lead.endswith("not ") or _STAY.search(lead)
    if stay and (plain or way in ("from", "before")):
        return False
    return not plain or (unit in ("week", "fortnight") and before["n"] not in (None, "the"))


def _moved(each: Reading, number: int, unit: str) -> Reading:
    days = (moved(dt.date.fromisoformat(value), number, unit) for value in each.values)
    return each._replace(values=tuple(day.isoformat() for day in days if day is not None))


_RETURNS = re.compile(r"\b(?:back|return\w*|home|until|till|to|through)\b")


def _following(text: str, found: list[Reading]) -> list[Reading]:
    """ "the Monday after" counts from the date before it, which is none of its own but where it is a beginning."""
    kept: list[Reading] = []
    for each in found:
        last = kept[-1] if kept and len(kept[-1].values) == 1 else None
        if each.after and last is not None:
            if not (each.values and _RETURNS.search(text[last.end : each.start])):
                kept.pop()
            base = DateContext(dt.date.fromisoformat(last.values[0]))
            moved_to = _moved(last, 1, "day")
            if each.values:
                weekday = dt.date.fromisoformat(each.values[0]).weekday()
                moved_to = each._replace(values=(base.weekday(weekday).isoformat(),))
            each = moved_to._replace(start=each.start, end=each.end)
        if each.values or not each.after:
            kept.append(each)
    return kept


_TO = r"(?: ?- ?| (?:to|until|till|through|thru) )"
_GAP = re.compile(rf"{_TO}(?:the |on )?")
_BACK = re.compile(
    r"[ ,.;]*(?:(?:and|n|&|then) )?(?:(?:we're |i'm )?(?:coming |going )?(?:back|home|return\w*))(?: on)? (?:the )?"
)
"""What stands between the days of a trip."""

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
_NUMBERED = re.compile(r"(?:the )?\d{1,2}(?:st|nd|rd|th)")
_DAY_OF_MONTH = re.compile(
    rf"(?:the )?\d{{1,2}}(?:st|nd|rd|th)?[ -]?(?:day )?(?:of )?(?:the )?(?:{_MONTH})\b"
)
_MONTH_DAY = re.compile(rf"(?:{_MONTH})(?: the|,)?[ -]?\d{{1,2}}(?:st|nd|rd|th)?")


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
    return [
        each
        for place, each in enumerate(kept)
        if not any(other.start <= each.start and each.end <= other.end for other in kept[:place])
    ]


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


def _ordered(text: str, found: list[Reading], near: DateContext) -> list[Reading]:
    """A weekday or a day without a month that ends a range is the next one after its beginning."""
    kept: list[Reading] = []
    for each in found:
        if kept and _is_reversed(text, kept[-1], each):
            if near.past:
                kept[-1] = _nearest(text, kept[-1], each, near)
            else:
                each = _nearest(text, each, kept[-1], near)
        kept.append(each)
    return kept


def _is_reversed(text: str, first: Reading, last: Reading) -> bool:
    """Whether two days stand as a range, the later one first."""
    if len(first.values) != 1 or len(last.values) != 1 or first.values <= last.values:
        return False
    gap = text[first.end : last.start]
    return _GAP.fullmatch(gap) is not None or _BACK.fullmatch(gap) is not None


def _nearest(text: str, each: Reading, other: Reading, near: DateContext) -> Reading:
    """The same weekday, or day of a month, nearest to the other end of the range; other days as they are."""
    said, day = text[each.start : each.end], dt.date.fromisoformat(each.values[0])
    near = near._replace(date=dt.date.fromisoformat(other.values[0]))
    numbered = near.on(day.day) if _NUMBERED.fullmatch(said) else None
    moved = near.weekday(day.weekday()) if said in DAYS else numbered
    return each._replace(values=(moved.isoformat(),)) if moved else each
