"""Dates in English: "the 14th", "March 3", "friday week", "in a fortnight", "end of the month", "christmas"."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import regex

from jazzmine_dspy.models.slot_types.calendar.compose import compose_dates
from jazzmine_dspy.models.slot_types.calendar.context import (
    NO_YEAR,
    DateContext,
    Reading,
    counted_by,
    exact,
    last_day,
    longest,
    moved,
    numeric_days,
    shifted,
)
from jazzmine_dspy.models.slot_types.calendar.english import DAYS, MONTHS

_MONTHS = "|".join(MONTHS)
_MONTH = f"(?P<m>{_MONTHS})"
_DAY = "|".join(DAYS)
_YEAR = r"(?:(?:,? (?:of |in )?|[-/]|, ?)(?P<y>(?:19|20)\d\d)\b(?![:.]\d)|,? '(?P<yy>\d\d)\b)?"
_COUNT = r"(?P<n>\d{1,3}|an?|another|a couple of|a couple|couple of|couple)"
_UNIT = r"(?P<u>day|night|week|fortnight|month|year|decade)s?"

GOES_ON = (
    r"(?= ?(?:$|[.,;:!?)(/-])| (?:at|around|about|before|after|by|from|to|until|till|for|please|pls|plz|"
    r"and|or|not|but|if|"
    r"would|will|is|are|was|were|works?|suits?|in|on|of|then|thanks|thank|that|so|as|how|what|which|why|"
    r"who|today|tomorrow|tonight|morning|evening|afternoon|night|noon|"
    r"midday|between|i|i'm|i'll|we|we'll|you|he|she|they|it|it's|its|lunch|instead|would|can|could|when|"
    r"where|because|cos|coz|cause|"
    r"since|through|thru|onwards?|too|ok|okay|good|great|fine|best|perfect|with|my|our|the|a|this|next|"
    r"no|wait|sorry|actually|"
    r"rather|only|latest|has|have|had|yes|do|does|doesn't|doesnt|won't|wont|isn't|isnt|cheers|should|"
    r"back|out|going|return|returning|leaving|n|til|thru|sry|mob|mobile|"
    r"might|may|be|it|me|us|"
    r"\d+|early|late|lol|x|xx|maybe|preferably|possible|if|though|tho|again|just|also|deliver|bring|send|"
    r"book|at|week|"
    rf"{_DAY})\b)"
)
"""Words that may follow a day; "the 2nd floor" and "a christmas present" are not days."""

_LATER = (
    r" (?:in (?P<ln>\d{1,2}|a) (?P<lu>week|fortnight)s?|(?P<lu2>week|fortnight))\b(?:'s?)?(?: time)?"
    r"(?! (?:after|before|next|of)\b)"
)

_HOLIDAYS = {
    r"christmas eve": (24, 12),
    r"christmas(?: day)?": (25, 12),
    r"boxing day": (26, 12),
    r"new year'?s'? eve|nye|old year'?s night|hogmanay": (31, 12),
    r"new year'?s?'?(?: day)?": (1, 1),
    r"(?:st\.? )?valentine'?s?'?(?: day)?": (14, 2),
    r"hallow'?een": (31, 10),
    r"(?:st|saint)\.? (?:patrick|paddy)'?s?'? day|paddy'?s day": (17, 3),
    r"(?:bonfire|guy fawkes) night": (5, 11),
    r"april fool'?s?'? day": (1, 4),
    r"may day": (1, 5),
    r"(?:the )?4th of july": (4, 7),
    r"epiphany": (6, 1),
}


def english_days(text: str, near: DateContext) -> list[Reading]:
    """Return all dates of a simplified text, in order."""
    readings = numeric_days(text, near)
    for needed, pattern, value in _GRAMMAR:
        applies = not needed or any(word in text for word in needed)
        for match in pattern.finditer(text) if applies else ():
            if (result := value(match, near)) is not None:
                readings.append(result._replace(start=match.start(), end=match.end()))
    return compose_dates(text, longest(readings), near) if readings else []


def _month_day(match: re.Match[str], near: DateContext) -> Reading | None:
    """Read ``14 March``, with or without a year."""
    day, month = int(match["d"]), MONTHS.index(match["m"]) + 1
    year = int(match["y"]) if match["y"] else near.century(match["yy"], month, day) if match["yy"] else None
    if month == 5 and not (match["o"] or year) and _is_verb(match):
        return None
    if near.year_needed and year is None:
        return Reading(why_not=NO_YEAR)
    date = near.on(day, month, year)
    why = f"{MONTHS[month - 1].capitalize()} {year or ''}".strip() + f" has no day {day}"
    return Reading.of(date) if date else Reading(why_not=why)


def _is_verb(match: re.Match[str]) -> bool:
    """Whether "may" is a verb: "order 12 may be lost", "we may 3 times"."""
    text = match.string
    return bool(
        re.match(
            r" (?:be|have|not|also|come|need|take|i|we|you|get|arrive|well|want|still|only)\b",
            text[match.end() :],
        )
        or re.search(r"\b(?:i|we|you|he|she|they|it|that|this|there|which|who) $", text[: match.start()])
    )


def _day_of_month(match: re.Match[str], near: DateContext) -> Reading | None:
    """Read ``the 14th``, of this month or another one."""
    day, which = int(match["d"]), match["k"]
    if which and re.search("every|each|any", which):
        return None
    if near.year_needed and which is None:
        return Reading(why_not=NO_YEAR, alone=True)
    if which is None or which == "the month":
        date = near.on(day)
    else:
        months = {"next": 1, "last": -1, "following": 1, "coming": 1}.get(which.split()[-2], 0)
        first = shifted(near.date.replace(day=1), months=months)
        date = exact(first.year, first.month, day) if first else None
    if date is None:
        return Reading(
            why_not=f"there is no day {day} in " + ("that month" if day < 32 else "a month"), alone=True
        )
    padded = match["d"].startswith("0") and not which
    return Reading.of(date)._replace(alone=padded and not _DAY_BEFORE.search(match.string[: match.start()]))


_DAY_BEFORE = re.compile(rf"(?:\b(?:on|by|from|until|till|before|for)|\b(?:{_DAY}),?) $")
_WORDS = {"today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "later on today": 0,
          "later today": 0, "tomorrow": 1, "overmorrow": 2, "yesterday": -1, "last night": -1}  # fmt: skip


def _relative(match: re.Match[str], near: DateContext) -> Reading:
    if match["same"]:
        return _one_day(shifted(near.date, days=7))
    return _later(match, shifted(near.date, days=_WORDS[match["r"]]))


def _weekday(match: re.Match[str], near: DateContext) -> Reading | None:
    """Read ``friday`` as the next one, and ``next friday`` as the one of the next week."""
    day, before = DAYS.index(match["w"]), match["q"] or ""
    week = match["k"] or match["j"] or ""
    if match["s"] or before in ("every", "each", "any", "other", "most", "every other", "alternate"):
        return None
    if week == "after next":
        return Reading.of(*filter(None, (near.in_week(2, day), shifted(near.weekday(day), days=7))))
    if week:
        if week == "coming":
            return Reading.of(near._replace(past=False).weekday(day))
        weeks = (
            2
            if "after next" in week
            else 1
            if re.search("next|after|following", week)
            else -1
            if "last" in week
            else 0
        )
        return _one_day(near.in_week(weeks, day))
    if before == "next":
        return _one_day(near.in_week(1, day))
    if before in ("last", "past", "previous"):
        return _one_day(near._replace(past=True).weekday(day))
    after = before == "following" or bool(match["a"])
    date = near._replace(past=False).weekday(day) if before else near.weekday(day)
    return _later(match, date)._replace(after=after)


def _later(match: re.Match[str], day: dt.date | None) -> Reading:
    """Read ``friday week``, ``tomorrow in a fortnight``."""
    unit = match["lu"] or match["lu2"]
    return _one_day(moved(day, counted_by(match["ln"] or "a"), unit) if unit and day is not None else day)


def _days_away(match: re.Match[str], near: DateContext) -> Reading:
    """Read ``in two weeks``, ``3 days from now``, ``a month ago``."""
    back = -1 if match["way"] in ("ago", "back") else 1
    return (
        Reading() if match["half"] else _one_day(moved(near.date, back * counted_by(match["n"]), match["u"]))
    )


def _boundary(match: re.Match[str], near: DateContext) -> Reading | None:
    """Read ``end of the month``, ``start of June``, ``the last day of next month``."""
    at_end = match["b"].startswith(("end", "last", "month"))
    month, which = match["m"], match["k"] or ""
    if month:
        number, year = MONTHS.index(month) + 1, int(match["y"]) if match["y"] else None
        if not at_end:
            return _one_day(near.on(1, number, year))
        # Future days include this month, past days only months that have ended.
        tomorrow = (shifted(near.date, days=1) or near.date).replace(day=1)
        month_of = shifted(tomorrow, months=-1) if near.past else near.date.replace(day=1)
        first = near._replace(date=month_of or near.date).on(1, number, year)
        return _one_day(first and last_day(first))
    step = 1 if "next" in which else 0
    if "year" in which:
        year = near.date.year + (step if at_end or step else 1)
        return _one_day(exact(year, 12, 31) if at_end else exact(year, 1, 1))
    if "week" in which:
        if not at_end:
            return _one_day(near.in_week(step or 1, 0))
        return Reading.of(*(day for n in (4, 6) if (day := near.in_week(step, n)) and day >= near.date))
    first = shifted(near.date.replace(day=1), months=step if at_end or step else 1)
    return _one_day(last_day(first) if first and at_end else first)


def _nth(match: re.Match[str], near: DateContext) -> Reading:
    """Read ``the first Monday in April``."""
    day, number = DAYS.index(match["w"]), 0 if match["i"] == "last" else int(match["i"][:-2])
    if match["m"]:
        this_month = near._replace(past=False, date=near.date.replace(day=1))
        first = this_month.on(1, MONTHS.index(match["m"]) + 1)
    else:
        first = shifted(near.date.replace(day=1), months=1 if "next" in match["k"] else 0)
    if first is None:
        return Reading()
    if number == 0:
        last = last_day(first)
        return _one_day(shifted(last, days=-((last.weekday() - day) % 7)))
    return _one_day(shifted(first, days=(day - first.weekday()) % 7 + 7 * (number - 1)))


def _holiday(match: re.Match[str], near: DateContext) -> Reading | None:
    for pattern, (day, month) in _HOLIDAYS.items():
        if re.fullmatch(pattern, match["h"]):
            if near.year_needed and not match["y"]:
                return Reading(why_not=NO_YEAR)
            return _one_day(near.on(day, month, int(match["y"]) if match["y"] else None))
    return None


def _one_day(day: dt.date | None) -> Reading:
    return Reading.of(day) if day is not None else Reading(why_not="that day is not in the calendar")


_GRAMMAR: tuple[tuple[tuple[str, ...], Any, Callable[[re.Match[str], DateContext], Reading | None]], ...] = (
    (
        tuple(MONTHS),
        re.compile(
            rf"\b(?:the )?(?P<d>\d{{1,2}})(?P<o>st|nd|rd|th)?[ -]?(?:day )?(?:of )?(?:the )?{_MONTH}\b{_YEAR}"
        ),
        _month_day,
    ),
    (
        tuple(MONTHS),
        re.compile(
            rf"\b{_MONTH}(?: the|,)?[ -]?(?P<d>\d{{1,2}})(?P<o>st|nd|rd|th)?\b(?![:.h]\d| ?(?:am|pm|a\.m|"
            rf"p\.m|o'clock|"
            rf"weeks?|days?|months?|years?|nights?|people|guests|times|euros?|pounds?|dollars?|%|€)){_YEAR}"
        ),
        _month_day,
    ),
    (
        tuple(MONTHS),
        regex.compile(
            rf"\b(?:(?:the )?(?P<d>\d{{1,2}})(?P<o>st|nd|rd|th)?[ -]?(?:of )?{_MONTH}|"
            rf"{_MONTH} (?:the )?(?P<d>\d{{1,2}})(?P<o>st|nd|rd|th)?)"
            r"(?:,? |[-/])(?P<yy>\d\d)(?P<y>)(?=$|[.,;!?)](?!\d)| (?:please|pls|and|is|i|in|thanks)\b)"
        ),
        # "15 march 88", if days in the past are intended.
        lambda match, near: _month_day(match, near) if near.past or near.year_needed else None,
    ),
    (
        (),
        re.compile(
            r"\b(?:the )?(?P<d>\d{1,2})(?:st|nd|rd|th)\b(?:,? (?:of )?(?P<k>(?:this|next|the|last|every|"
            r"each|any|the next|the following|"
            rf"the coming|the same) month))?{GOES_ON}(?! of (?:{'|'.join(MONTHS)}))"
        ),
        _day_of_month,
    ),
    (
        (),
        re.compile(
            r"\b(?:(?P<r>today|tonight|this (?:morning|afternoon|evening)|later (?:on )?today|tomorrow|"
            r"overmorrow|yesterday|"
            rf"last night)\b(?:{_LATER})?|(?P<same>(?:the )?(?:same|this) (?:day|time) next week))\b"
        ),
        _relative,
    ),
    (
        ("day",),
        re.compile(
            r"\b(?:(?P<j>(?:the )?(?:next week|this week|week after next|following week|week after|"
            r"last week)),?(?: on)?(?: the)? )?"
            r"(?:(?P<q>this coming|this|next|coming|upcoming|last|past|previous|following|every other|"
            r"every|each|any|other|most|alternate) )?"
            rf"(?P<w>{_DAY})(?P<s>s?)\b(?! (?:of|in) (?:{_MONTHS}|(?:the|this|next) month)\b)"
            r"(?:,? (?:of |in |on )?(?P<k>this week|next week|coming|"
            rf"(?:the )?week after next|"
            r"(?:the )?week after|after next|(?:the )?following week|last week)\b)?"
            rf"(?P<a> after(?! (?:the|an?|\d|next|lunch|work|school|dinner|noon|christmas|new|my|our|"
            rf"your|i|we|you|he|she|they|"
            rf"hours|{_DAY}|{_MONTHS})\b))?(?:{_LATER})?"
        ),
        _weekday,
    ),
    (
        ("day", "night", "week", "month", "year", "decade"),
        regex.compile(
            rf"\b(?:in (?:about |around |roughly |exactly |"
            rf"just )?{_COUNT} {_UNIT}(?P<half> and a half)?(?:'s?)?(?: time)?(?P<way>)"
            rf"(?! (?:of|before|after|early|late)\b))"
            rf"|\b{_COUNT} {_UNIT}(?P<half> and a half)?'?s? (?P<way>from (?:now|today)|ago|back|from this day)\b"
        ),
        _days_away,
    ),
    (
        ("day",),
        re.compile(
            r"\b(?:the )?(?:day after|next day|following day)\b(?=$|[.,;!?]| (?:would|is|works?|please|"
            r"then|instead|if|and|or)\b)"
        ),
        lambda *_: Reading(after=True),
    ),
    (
        ("end", "last", "start", "beginning", "first", "1st"),
        re.compile(
            r"\b(?:the )?(?P<b>end|last day|last(?= of)|start|beginning|first day|0?1st day|month end|"
            r"month-end)(?: of| in)?(?: the)? "
            rf"(?:{_MONTH}(?: (?P<y>20\d\d))?|(?P<k>(?:this |next |the )?(?:month|year|week)))\b(?!'s|"
            rf" from| \d)"
        ),
        _boundary,
    ),
    (
        ("day",),
        re.compile(
            rf"\b(?:the )?(?P<i>0?1st|0?2nd|0?3rd|0?4th|last) (?P<w>{_DAY}) (?:of|in) (?:{_MONTH}|"
            rf"(?P<k>(?:the|this|next|the next) month))\b"
        ),
        _nth,
    ),
    (
        ("christmas", "day", "year", "valentine", "hallow", "night", "july", "epiphany", "nye", "hogmanay"),
        re.compile(rf"(?<![\w'])(?P<h>{'|'.join(_HOLIDAYS)})(?![\w'])(?: (?P<y>20\d\d)\b)?{GOES_ON}(?! 1\b)"),
        _holiday,
    ),
)
