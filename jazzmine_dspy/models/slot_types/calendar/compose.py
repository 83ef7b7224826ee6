"""Dates made of parts: a weekday beside a day, days counted from a named one, and ."""

from __future__ import annotations

import datetime as dt
import re

from jazzmine_dspy.models.slot_types.calendar.context import Reading
from jazzmine_dspy.models.slot_types.calendar.english import DAYS, MONTHS
from jazzmine_dspy.models.slot_types.calendar.near import Near, counted_by, moved
from jazzmine_dspy.models.slot_types.calendar.ranges import ranged

_DAY = "|".join(DAYS)


def composed(text: str, found: list[Reading], near: Near) -> list[Reading]:
    """The dates of a simplified text, of which the parts have been found."""
    return ranged(text, _following(_counted(text, _paired(text, found))), near)


_PAIR_GAP = re.compile(r"(?:,|\.)? ?(?:on |the |on the )?")
_PAIR_AFTER = re.compile(r",? ?\(?(?:which is |that's |thats |which falls on |so |being )?(?:a |the )?")


def _paired(text: str, found: list[Reading]) -> list[Reading]:
    """A weekday beside a day makes one date, and refuses it where they contradict each other."""
    kept: list[Reading] = []
    for each in found:
        last = kept[-1] if kept else None
        if last is not None and _is_weekday(text, last) != _is_weekday(text, each):
            day, weekday = (each, last) if _is_weekday(text, last) else (last, each)
            gap = text[last.end : each.start]
            fits = (_PAIR_GAP if weekday is last else _PAIR_AFTER).fullmatch(gap)
            joined = None
            if fits and weekday.values:
                joined = _joined(text, day, weekday) if day.values else day if day.why_not else None
            if joined is not None:
                kept[-1] = joined._replace(start=last.start, end=each.end)
                continue
        kept.append(each)
    return kept


def _joined(text: str, day: Reading, weekday: Reading) -> Reading | None:
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


_STAY = re.compile(r"\b(?:for|stay|book|stays) $|not $")
_OFFSET = re.compile(
    r"(?:\b(?P<n>\d{1,3}|an?|another|a couple of|the) )?\b(?P<u>day|week|fortnight|month)s? "
    r"(?:(?P<way>after|before|from|on|following|past) (?:the )?)?$"
)


def _counted(text: str, found: list[Reading]) -> list[Reading]:
    """Days counted from a named one: "the day after tomorrow", "two days before christmas", "a week on monday"."""
    kept: list[Reading] = []
    for each in found:
        before = _OFFSET.search(text[: each.start])
        if before and each.values and not (_STAY.search(text[: before.start()]) and before["way"] != "after"):
            number = 1 if before["n"] in (None, "the") else counted_by(before["n"])
            if before["way"] not in (None, "on") or (
                before["n"] not in (None, "the") and before["u"] in ("week", "fortnight")
            ):
                each = _moved(each, -number if before["way"] == "before" else number, before["u"])
                each = each._replace(start=before.start())
        kept.append(each)
    return kept


def _moved(each: Reading, number: int, unit: str) -> Reading:
    days = (moved(dt.date.fromisoformat(value), number, unit) for value in each.values)
    return each._replace(values=tuple(day.isoformat() for day in days if day is not None))


def _following(found: list[Reading]) -> list[Reading]:
    """The dates that count from the one before them, in its place: "friday, or the day after", "the Monday after"."""
    kept: list[Reading] = []
    for each in found:
        if each.after and kept and len(kept[-1].values) == 1:
            base = Near(dt.date.fromisoformat(kept.pop().values[0]))
            weekday = (
                dt.date.fromisoformat(each.values[0]).weekday() if each.values else base.date.weekday() + 1
            )
            each = each._replace(values=(base.weekday(weekday % 7).isoformat(),))
        kept.append(each)
    return kept
