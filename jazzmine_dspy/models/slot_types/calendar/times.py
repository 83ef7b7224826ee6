"""Times of day: "half past six", "9:15 pm", "quarter to 8", "at 7", and in digits for every language."""

from __future__ import annotations

import re
from typing import NamedTuple

from jazzmine_dspy.models.slot_types.calendar.context import Reading, longest
from jazzmine_dspy.models.slot_types.calendar.days import GOES_ON
from jazzmine_dspy.models.slot_types.calendar.english import DAYS


class Hours(NamedTuple):
    """Which of two readings of "at 7" is meant: the one within these minutes of the day."""

    first: int = 7 * 60
    last: int = 19 * 60 - 1
    ambiguous: bool = True


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
    """All times that a simplified English text names."""
    if not _TIMELIKE.search(text):
        return []
    found = [_read(match, hours) for match in _CLOCK.finditer(text)]
    return longest([each for each in found if each is not None])


def plain_times(text: str) -> list[Reading]:
    """Times in digits, with a colon, a point or an h, as every language writes them; nothing in them is in doubt."""
    found = []
    for match in _DIGITS.finditer(text):
        hour, minute = int(match["h"]), int(match["m"] or match["n"] or 0)
        dotted = match["s"] == "." and not match["u"]
        if _PRICE.match(text[match.end() :]) or (dotted and minute > 59):
            continue
        found.append(_reading(match.start(), match.end(), hour, minute, (hour,), alone=dotted))
    return found


_DIGITS = re.compile(
    r"(?<![\d.,:/€£$-])(?:(?P<h>\d{1,2})(?:(?P<s>[:.])(?P<m>\d\d)(?::\d\d)?(?P<u> ?(?:uhr|h)\b)?|"
    r" ?(?:h(?:eures?)?|uhr)(?: ?(?P<n>\d\d))?))(?![\d:/]|\.\d)"
)


def _read(match: re.Match[str], hours: Hours) -> Reading | None:
    text, part = match.string, (match["part"] or "") + (match["pre"] or "")
    start = match.end("pre") if match["pre"] else match.start()
    end = match.end()
    if match["word"]:
        return Reading(start, end, ("00:00" if match["word"] == "midnight" else "12:00",))
    half = (match["ap"] or "").strip()[:1]
    certain = bool(half or (match["part"] and match["part"] != " night") or match["oc"])
    alone = False
    if match["rel"]:
        return _relative(match, start, end, half, part, hours)
    if match["h2"]:
        hour, minute = int(match["h2"]), 30
    elif match["h3"]:
        hour, minute = int(match["h3"]), int(match["m3"] or match["m4"] or 0)
        if _PRICE.match(text[end:]):
            return None
        if match["sep"] == "." and not certain:
            if minute > 59:
                return None
            alone = not (
                _LONE.search(text[max(0, start - 40) : start])
                or re.search(_DAY_WORD + ",? $", text[max(0, start - 40) : start])
                or match["pre"]
            )
            alone = alone or bool(_PRICED.search(text[max(0, start - 40) : start]))
    elif match["h5"]:
        hour, minute = int(match["h5"]), int(match["m5"].replace("oh ", ""))
        if _PRICE.match(text[end:]):
            return None
        if match["p5"]:
            start = match.start("h5")
        alone = not (match["p5"] or certain or match["pre"])
    elif match["h6"]:
        hour, minute = int(match["h6"]), int(match["m6"])
        if match["p6"]:
            start = match.start("h6")
        alone = not (
            certain or (match["p6"] and not re.fullmatch(r"(?:19|20)\d\d", match["h6"] + match["m6"]))
        )
        if _PRICE.match(text[end:]):
            return None
    else:
        hour, minute = int(match["h7"]), 0
        if not certain:
            if not _NOUN_AFTER.match(text, end) or _PRICED.search(text[max(0, start - 40) : start]):
                return None
            alone = not (
                _LONE.search(text[max(0, start - 40) : start])
                or match["pre"]
                or re.search(_DAY_WORD + ",? (?:at )?$", text[max(0, start - 40) : start])
            )
        elif not half and re.search(r"\b\d{1,2} $", text[max(0, start - 40) : start]):
            return None
    return _reading(start, end, hour, minute, _choices(match, hour, minute, half, part, hours), alone=alone)


def _choices(
    match: re.Match[str], hour: int, minute: int, half: str, part: str, hours: Hours
) -> tuple[int, ...]:
    """The hours of the day that an hour of the clock may mean, the one within the hours alone where it is one."""
    if half and hour <= 12:
        return (hour % 12 + (12 if half == "p" else 0),)
    written = next((match[name] for name in ("h3", "h5", "h6") if match[name]), "")
    if hour > 12 or hour == 0 or (len(written) == 2 and written[0] == "0"):
        return (hour,)
    if match["sh"] or match["h6"]:
        return (hour,)
    if part:
        if "morning" in part or "breakfast" in part:
            return (hour % 12,) if hour == 12 else (hour,)
        if "night" in part and "tonight" not in part and (hour == 12 or hour < 5):
            return (hour % 12,)
        if "lunch" in part or "midday" in part:
            return (hour if 10 <= hour <= 12 else hour % 12 + 12,)
        return (hour % 12 + 12,)
    both = (hour % 12, hour % 12 + 12)
    inside = tuple(each for each in both if hours.first <= each * 60 + minute <= hours.last)
    if len(inside) == 1:
        return inside
    return tuple(each for each in both if 7 * 60 <= each * 60 + minute < 19 * 60)


def _relative(
    match: re.Match[str], start: int, end: int, half: str, part: str, hours: Hours
) -> Reading | None:
    """``quarter to 8``: minutes beside an hour, which decides the half of the day with its minutes."""
    word, hour = match["rel"], int(match["h1"])
    minutes = next((value for name, value in _MINUTES.items() if word.startswith(name)), None)
    if minutes is None:
        minutes = int(word.split()[0])
    back = match["way"] in ("to", "before", "of", "till")
    if hour > 24 or minutes > 59 or (minutes == 0):
        return None
    # "2 to 3 people", "5 of 12", "2 before 9": numbers beside each other are times only in steps as people say them.
    spoken = not word.isdigit() or (minutes % 5 == 0 and match["way"] in ("to", "past"))
    if (not spoken and not half and not part) or (
        not _NOUN_AFTER.match(match.string, match.end("h1")) and not (half or part)
    ):
        return None
    shown = (hour * 60 - minutes) % (24 * 60) if back else hour * 60 + minutes
    if hour > 12 or hour == 0:
        return _reading(start, end, shown // 60 % 24, shown % 60, (shown // 60 % 24,))
    clock = shown % (12 * 60)
    said = clock // 60 or 12
    if half or part:
        # "quarter to 12 at night" is before midnight: the half of the day is that of the hour that is named.
        named = _choices(match, hour, 0, half, part, hours)[0] * 60
        total = (named - minutes if back else named + minutes) % (24 * 60)
        return _reading(start, end, total // 60, total % 60, (total // 60,))
    return _reading(start, end, said, clock % 60, _choices(match, said, clock % 60, half, part, hours))


def _reading(
    start: int, end: int, hour: int, minute: int, choices: tuple[int, ...], *, alone: bool = False
) -> Reading:
    if hour > 24 or minute > 59 or (hour == 24 and minute):
        return Reading(start, end, why_not=f"there is no time {hour}:{minute:02d}", alone=alone)
    values = tuple(f"{each % 24:02d}:{minute:02d}" for each in choices)
    return Reading(start, end, values, alone=alone)
