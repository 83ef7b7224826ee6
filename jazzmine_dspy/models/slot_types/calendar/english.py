"""Simplify English messages: numbers become digits, names of days and months are spelt out."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

SMALL_NUMBERS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = {
    word: 10 * n
    for n, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2
    )
}
_ORDINALS = {
    word: n
    for n, word in enumerate(
        [
            "zeroth",
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
            "thirteenth",
            "fourteenth",
            "fifteenth",
            "sixteenth",
            "seventeenth",
            "eighteenth",
            "nineteenth",
        ]
    )
} | {"twentieth": 20, "thirtieth": 30}
_NUMBERS = {word: n for n, word in enumerate(SMALL_NUMBERS)} | _TENS | {"fourty": 40}

_SPELLINGS = {
    "tomorow": "tomorrow", "tommorow": "tomorrow", "tommorrow": "tomorrow", "tomorro": "tomorrow",
    "tmrw": "tomorrow", "tmr": "tomorrow", "tmw": "tomorrow", "tomoz": "tomorrow", "tmoro": "tomorrow",
    "tomoro": "tomorrow", "2morrow": "tomorrow", "2moro": "tomorrow", "2mrw": "tomorrow",
    "tmoz": "tomorrow", "tomorrows": "tomorrow", "tomorrow's": "tomorrow", "tomorrw": "tomorrow",
    "2day": "today", "2nite": "tonight", "tonite": "tonight", "2night": "tonight", "todays": "today",
    "today's": "today", "tday": "today", "xmas": "christmas", "chrimbo": "christmas", "crimbo": "christmas",
    "xmass": "christmas", "noel": "christmas", "chrismas": "christmas", "tue": "tuesday", "tues": "tuesday",
    "teusday": "tuesday", "tuseday": "tuesday", "wensday": "wednesday", "wendsday": "wednesday",
    "wednsday": "wednesday", "wedensday": "wednesday", "weds": "wednesday", "wednes": "wednesday",
    "wednessday": "wednesday", "thu": "thursday", "thur": "thursday", "thurs": "thursday",
    "thrusday": "thursday", "thursady": "thursday", "thurday": "thursday", "fri": "friday",
    "firday": "friday", "fridy": "friday", "saterday": "saturday", "satuday": "saturday",
    "saturady": "saturday", "sundy": "sunday", "mondy": "monday", "munday": "monday", "jan": "january",
    "feb": "february", "febuary": "february", "febr": "february", "janurary": "january",
    "janury": "january", "apr": "april", "aug": "august", "agust": "august", "sept": "september",
    "sep": "september", "septmber": "september", "setember": "september", "oct": "october",
    "octber": "october", "nov": "november", "novemeber": "november", "dec": "december",
    "decmber": "december", "jul": "july", "jun": "june", "mar": "march", "yr": "year", "yrs": "years",
    "mth": "month", "mths": "months", "mnth": "month", "mnths": "months", "mo": "month", "mos": "months",
    "wk": "week", "wks": "weeks", "weeek": "week", "dys": "days", "hr": "hour", "hrs": "hours",
    "min": "minute", "mins": "minutes", "minuets": "minutes", "minuite": "minute", "minuites": "minutes",
    "secs": "seconds", "nite": "night", "nites": "nights", "morn": "morning", "mornin": "morning",
    "evng": "evening", "aft": "afternoon", "arvo": "afternoon", "qtr": "quarter", "quater": "quarter",
    "haf": "half", "midnite": "midnight", "noonish": "noon", "nxt": "next", "b4": "before", "til": "till",
    "untill": "until",
}  # fmt: skip

_SPELLINGS |= {f"{name}'s": name for name in DAYS + MONTHS} | {f"{name}s": f"{name}s" for name in DAYS}

_WORD = re.compile(r"[a-z0-9]*[a-z]+(?:'[a-z]+)?")
_COMPOUND = re.compile(
    rf"\b(twenty|thirty|forty|fourty|fifty|sixty|seventy|eighty|ninety)[ -]({'|'.join(SMALL_NUMBERS[1:10])}|"
    rf"first|second|third|fourth|fifth|sixth|seventh|eighth|ninth)\b"
)
_ABBREVIATED = re.compile(r"\b(mon|wed|sat|sun)\b\.?")
_ABBREVIATIONS = {"mon": "monday", "wed": "wednesday", "sat": "saturday", "sun": "sunday"}
_DAY_BEFORE = re.compile(
    r"(?:^|[.,;!?:(/-] ?|\b(?:on|this|next|last|coming|for|by|until|till|from|before|after|to|or|and|not|"
    r"no|it|is|be|say|about|wait|"
    r"mean|meant|actually|maybe|please|pls|come|deliver|arrive|today|tomorrow|for|week|"
    r"monday|tuesday|wednesday|thursday|friday|\d(?:st|nd|rd|th)?) )$"
)
_NO_DAY_AFTER = re.compile(
    r" ?(?:cream|screen|glasses|shine|terrace|lounger|bed|deck|hat|set|rise|is (?:shining|out)|nav|"
    r"through|down|there|here|"
    r"around|on my|in (?:the|my|front)|outside|waiting|comes? up|goes)\b"
)
_TWELVE = re.compile(r"\b((?:quarter|half|\d{1,2}(?: minutes)?) (?:past|to)) (midnight|noon|midday)\b")
_SECOND = re.compile(
    r"(?:(?<=the )|(?<=january )|(?<=february )|(?<=march )|(?<=april )|(?<=may )|(?<=june )|(?<=july )|"
    r"(?<=august )|(?<=september )|(?<=october )|(?<=november )|(?<=december ))second\b|\bsecond(?= of )"
)


def normalize_english(text: str) -> str:
    """Lower-case a text, with numbers in digits and one spelling for days, months and units.

    "First" to "ninth" become "01st" to "09th", because they are rarely days: "the second is broken".

    Example:
        >>> normalize_english("Tues the twenty-first, at half past SIX")
        'tuesday the 21st, at half past 6'
    """
    text = lowered(text)
    text = _COMPOUND.sub(_compound_number, text)
    text = _SECOND.sub("02nd", text)
    text = _WORD.sub(_normalize_word, text)
    text = re.sub(r"\b(\d{1,3}) hundred(?: and)? (\d\d?)\b", lambda m: str(100 * int(m[1]) + int(m[2])), text)
    text = re.sub(r"\b(a|\d{1,2}) hundred\b", lambda m: "100" if m[1] == "a" else f"{m[1]}00", text)
    text = _TWELVE.sub(lambda m: f"{m[1]} {0 if m[2] == 'midnight' else 12}", text)
    return _ABBREVIATED.sub(_day, text)


def lowered(text: str) -> str:
    """Lower-case a text of any language, with plain quotes, dashes and spaces."""
    text = unicodedata.normalize("NFKC", text.replace("½", " 1/2")).casefold()
    text = re.sub("[\u2018\u2019\u02bc\u0060\u00b4]", "'", text).replace("\u2044", "/")
    return " ".join(re.sub("[\u2010-\u2015\u2212]", "-", text).split())


def _compound_number(match: re.Match[str]) -> str:
    tens, unit = _NUMBERS[match[1]], match[2]
    return str(tens + _NUMBERS[unit]) if unit in _NUMBERS else ordinal(tens + _ORDINALS[unit])


_NO_DAY = frozenset(("sundae", "sundry", "frida", "sundays", "mundane", "octobre", "holiday", "payday"))
_MISSPELT = [name for name in DAYS + MONTHS if len(name) >= 6]


@lru_cache(maxsize=4096)
def _misspelt(word: str) -> str | None:
    """Return the day or month that a word misspells by one slip: "fryday", "thurdsay"."""
    if not 5 <= len(word) <= 10 or word in _NO_DAY:
        return None
    from rapidfuzz.distance import OSA

    near = [
        name for name in _MISSPELT if name[0] == word[0] and OSA.distance(word, name, score_cutoff=1) == 1
    ]
    return near[0] if len(near) == 1 else None


def _normalize_word(match: re.Match[str]) -> str:
    word, bare = match[0], match[0].removesuffix("ish")
    if word in _SPELLINGS:
        return _SPELLINGS[word]
    if bare in _NUMBERS:
        return f"{_NUMBERS[bare]}{word.removeprefix(bare)}"
    if word in _ORDINALS and word not in ("second", "zeroth"):
        return ordinal(_ORDINALS[word]).rjust(4, "0")
    return _misspelt(word) or word


def _day(match: re.Match[str]) -> str:
    text, start = match.string, match.start()
    if not _DAY_BEFORE.search(text[max(0, start - 14) : start]) or _NO_DAY_AFTER.match(text, match.end()):
        return match[0]
    return _ABBREVIATIONS[match[1]]


def ordinal(number: int) -> str:
    """Format an ordinal: ``21st``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
