"""Times of day: "half past six", "9:15 pm", "quarter to 8", "at 7", and in digits for every language."""

from __future__ import annotations

import re
from typing import NamedTuple

from jazzmine_dspy.models.slot_types.calendar.context import Reading, longest
from jazzmine_dspy.models.slot_types.calendar.days import GOES_ON
from jazzmine_dspy.models.slot_types.calendar.english import DAYS


class Hours(NamedTuple):
    """The minutes of the day that decide between two readings of "at 7"."""

    first: int = 7 * 60
    last: int = 19 * 60 - 1


_MERIDIEM = r"(?P<ap> ?(?:[ap]\.? ?m\b\.?)|(?<=\d)[ap]\b)"
_DAY_WORD = rf"(?:today|tomorrow|(?:on |next |this )?(?:{'|'.join(DAYS)}))"
_PART = (
    rf"(?P<part>,? (?:{_DAY_WORD} )?(?:(?:in|at|of) )?(?:the )?(?:this |early |late |tomorrow )?"
    r"(?:morning|afternoon|evening|night|tonight|midday|lunchtime))\b"
)
_BEFORE = (
    r"(?P<pre>\b(?:(?:in )?(?:the |this |early |late )?(?:morning|afternoon|evening|night|tonight|lunch|"
    r"dinner|supper|breakfast))"
    r"(?: please)?,? ?(?:at |around |about |by |from |say |maybe |for )*)"
)
_PREP = (
    r"(?:(?:\b(?:at|by|around|about|before|after|from|till|until|approx|circa|say|between|than|make it|"
    r"for about|towards|ca\.?|landing|lands|"
    r"arriving|arrives|arrive|collect)|@) ?(?:about |around |roughly |exactly |like |say |maybe |approx )?)"
)
_SPACED = r"\b\d{1,2} [0-5]\d(?: ?[ap]\.?m\b| in the| tonight| morning| afternoon| evening| night)"
_MINUTES = {"quarter": 15, "half": 30, "a quarter": 15}
_NO_HOUR = (
    r"(?! ?(?:%|€|£|\$|/|st\b|nd\b|rd\b|th\b|[.,:]\d|-\d|x\b|kg|cm|km|mm|euros?|pounds?|dollars?|bucks|"
    r"quid|eur|gbp|usd|"
    r"people|persons?|guests|adults|kids|children|of|days?|nights?|weeks?|months?|years?|hours?|minutes?|"
    r"times|rooms?|"
    r"items?|more|other|or so people|january|february|march|april|may|june|july|august|september|october|"
    r"november|december)\b)" + GOES_ON
)

_CLOCK = re.compile(
    rf"(?:{_BEFORE})?(?:"
    # half past six, quarter to 8, 20 to 2, 5 minutes past 7
    r"(?<![\d.,:/])\b(?P<rel>(?:a )?quarter|half|\d{1,2}(?: minutes?)?) (?P<way>past|to|after|before|of|"
    r"till) (?:about )?(?P<h1>\d{1,2})(?![\d:]|\.\d)"
    r"|\bhalf (?P<h2>\d{1,2})(?![\d:]|\.\d| ?(?:hours?|days?|months?|years?|weeks?)\b)"
    # 9:15, 9.15, 18h30, 18h
    r"|(?<![\d.,:/€£$#+-])(?P<h3>\d{1,2})(?:(?P<sep>[:.]) ?(?P<m3>\d\d)(?::\d\d)?(?: ?h\b)?|"
    r"(?P<sh>h)(?P<m4>\d\d)?(?:rs?|ours)?)(?![\d]|[.:/]\d)"
    # 7 30, 4 50
    rf"|(?:(?P<p5>{_PREP})|^|(?<=, )|(?={_SPACED}))(?<![\d.,:/€£$#+-])(?P<h5>\d{{1,2}}) (?P<m5>[0-5]\d|"
    rf"oh \d)(?![\d:/]|\.\d|(?:st|nd|rd|th)\b)"
    # 1830
    rf"|(?:(?P<p6>{_PREP})|^)(?<![\d.,:/€£$#+-])(?P<h6>[01]\d|2[0-3])(?P<m6>[0-5]\d)(?: ?(?:hours|hrs|"
    rf"h))?(?![\d.:/])"
    # 6 o'clock, 7, at 7
    r"|(?<![\d.,:/€£$#+])\b(?P<h7>\d{1,2})(?P<oc> ?o'? ?clock| ?oclock|[ -]?ish)?(?![\d:/]|\.\d)"
    r"|\b(?:12 )?(?P<word>noon|midday|midnight)\b)"
    rf"(?: ?o'? ?clock| ?oclock)?(?:[ -]?ish)?(?: sharp)?(?:{_MERIDIEM})?(?:{_PART})?",
)
_LONE = re.compile(rf"(?:{_PREP})$")
_NOUN_AFTER = re.compile(_NO_HOUR)
_DAY_BEFORE = re.compile(_DAY_WORD + ",? (?:at )?$")
_NUMBER_BEFORE = re.compile(r"\b\d{1,2} $")
_YEAR = re.compile(r"(?:19|20)\d\d")
_TIMELIKE = re.compile(r"\d|noon|midday|midnight")
_PRICE = re.compile(
    r"^ ?(?:%|€|£|\$|euros?\b|pounds?\b|dollars?\b|bucks\b|quid\b|eur\b|gbp\b|usd\b|kg|cm|km|m\b|mm|l\b|"
    r"litres?|inch|stars?\b|years?\b|months?\b|weeks?\b|days?\b|hours?\b|minutes?\b|percent)"
)
_PRICED = re.compile(
    r"(?:[€£$]|eur|gbp|usd|costs?|paid|price|version|size|order|number|booking|room|no\.?|row|gate|"
    r"flight|for) ?$"
)


def english_times(text: str, hours: Hours) -> list[Reading]:
    """Return all times of a simplified English text."""
    if not _TIMELIKE.search(text):
        return []
    readings = [_clock_reading(match, hours) for match in _CLOCK.finditer(text)]
    return longest([each for each in readings if each is not None])


def plain_times(text: str) -> list[Reading]:
    """Return times in digits with a colon, a point or an h, the same in every language and unambiguous."""
    readings = []
    for match in _DIGITS.finditer(text):
        hour, minute = int(match["h"]), int(match["m"] or match["n"] or 0)
        dotted = match["s"] == "." and not match["u"]
        if _PRICE.match(text[match.end() :]) or (dotted and minute > 59):
            continue
        readings.append(_reading(match.start(), match.end(), hour, minute, (hour,), alone=dotted))
    return readings


_DIGITS = re.compile(
    r"(?<![\d.,:/€£$-])(?:(?P<h>\d{1,2})(?:(?P<s>[:.])(?P<m>\d\d)(?::\d\d)?(?P<u> ?(?:uhr|h)\b)?|"
    r" ?(?:h(?:eures?)?|uhr)(?: ?(?P<n>\d\d))?))(?![\d:/]|\.\d)"
)


def _clock_reading(match: re.Match[str], hours: Hours) -> Reading | None:
    text, end, part = match.string, match.end(), (match["part"] or "") + (match["pre"] or "")
    start = match.end("pre") if match["pre"] else match.start()
    if match["word"]:
        return Reading(start, end, ("00:00" if match["word"] == "midnight" else "12:00",))
    half = (match["ap"] or "").strip()[:1]
    certain = bool(half or (match["part"] and match["part"] != " night") or match["oc"])
    if match["rel"]:
        return _relative(match, start, half, part, hours)
    form = next(name for name in ("h2", "h3", "h5", "h6", "h7") if match[name])
    digits = match["m3"] or match["m4"] or match["m5"] or match["m6"] or "0"
    hour, minute = int(match[form]), 30 if form == "h2" else int(digits.replace("oh ", ""))
    preposition = match["p5"] or match["p6"]
    start = match.start(form) if preposition else start
    before = text[max(0, start - 40) : start]
    lead = match["pre"] or _LONE.search(before) or _DAY_BEFORE.search(before)
    dotted = match["sep"] == "." and not certain
    is_price = _PRICED.search(before) is not None
    if form == "h7":
        is_other = (
            (not half and _NUMBER_BEFORE.search(before))
            if certain
            else is_price or not _NOUN_AFTER.match(text, end)
        )
    else:
        is_other = (dotted and minute > 59) or (form != "h2" and _PRICE.match(text[end:]))
    if is_other:
        return None
    alone = (dotted or (form == "h7" and not certain)) and (not lead or is_price)
    if form == "h5":
        alone = not (preposition or certain or match["pre"])
    elif form == "h6":
        alone = not (certain or (preposition and not _YEAR.fullmatch(match["h6"] + match["m6"])))
    return _reading(start, end, hour, minute, _choices(match, hour, minute, half, part, hours), alone=alone)


def _choices(
    match: re.Match[str], hour: int, minute: int, half: str, part: str, hours: Hours
) -> tuple[int, ...]:
    """Return the possible hours of the day for an hour of the clock; one if only one is within ``hours``."""
    if half and hour <= 12:
        return (hour % 12 + (12 if half == "p" else 0),)
    digits = match["h3"] or match["h5"] or match["h6"] or ""
    if hour > 12 or hour == 0 or re.fullmatch("0.", digits) or match["sh"] or match["h6"]:
        return (hour,)
    late = "night" in part and "tonight" not in part and (hour == 12 or hour < 5)
    if "morning" in part or "breakfast" in part or late:
        return (hour % 12,)
    if part:
        noon = ("lunch" in part or "midday" in part) and hour >= 10
        return (hour if noon else hour % 12 + 12,)
    both = (hour % 12, hour % 12 + 12)
    inside = tuple(each for each in both if hours.first <= each * 60 + minute <= hours.last)
    return (
        inside if len(inside) == 1 else tuple(each for each in both if 7 * 60 <= each * 60 + minute < 19 * 60)
    )


def _relative(match: re.Match[str], start: int, half: str, part: str, hours: Hours) -> Reading | None:
    """Read ``quarter to 8``; the resulting time decides between morning and evening."""
    word, hour, end = match["rel"], int(match["h1"]), match.end()
    minutes = next((value for name, value in _MINUTES.items() if word.startswith(name)), 0) or int(
        word.split()[0]
    )
    step = -minutes if match["way"] in ("to", "before", "of", "till") else minutes
    # "2 to 3 people", "5 of 12", "2 before 9": two numbers are a time only in steps of five minutes.
    idiomatic = not word.isdigit() or (minutes % 5 == 0 and match["way"] in ("to", "past"))
    clear = half or part or (idiomatic and _NOUN_AFTER.match(match.string, match.end("h1")))
    if hour > 24 or not 0 < minutes < 60 or not clear:
        return None
    twelve = 0 < hour <= 12
    if twelve and not (half or part):
        clock = (hour * 60 + step) % (12 * 60)
        clock_hour = clock // 60 or 12
        return _reading(
            start, end, clock_hour, clock % 60, _choices(match, clock_hour, clock % 60, half, part, hours)
        )
    # "quarter to 12 at night" is before midnight: the named hour decides between morning and evening.
    day_hour = _choices(match, hour, 0, half, part, hours)[0] if twelve else hour
    total = (day_hour * 60 + step) % (24 * 60)
    return _reading(start, end, total // 60, total % 60, (total // 60,))


def _reading(
    start: int, end: int, hour: int, minute: int, choices: tuple[int, ...], *, alone: bool = False
) -> Reading:
    if hour > 24 or minute > 59 or (hour == 24 and minute):
        return Reading(start, end, why_not=f"there is no time {hour}:{minute:02d}", alone=alone)
    values = tuple(f"{each % 24:02d}:{minute:02d}" for each in choices)
    return Reading(start, end, values, alone=alone)
