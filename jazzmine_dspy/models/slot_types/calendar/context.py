"""The context of a value: the date that words count from, and words that introduce, negate or correct a value.

Also dates in digits, which are the same in every language: 2026-03-14, 14.3.2026, 3/4.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Sequence
from typing import NamedTuple

from jazzmine_dspy.models.slot_types.calendar.english import DAYS


class Reading(NamedTuple):
    """A part of a text that names a value.

    Args:
        start, end: Its position in the simplified text.
        values: Its values in normal form; several if it is ambiguous, none if it is invalid.
        why_not: Why it is invalid, for the user.
        alone: Whether it is a value only as a bare answer: in a longer message the words mean something else.
        after: Whether it counts from the value before it in the message ("the Monday after").
    """

    start: int = 0
    end: int = 0
    values: tuple[str, ...] = ()
    why_not: str = ""
    alone: bool = False
    after: bool = False

    @classmethod
    def of(cls, *days: dt.date) -> Reading:
        """Days, whose place in the text is set later."""
        return cls(values=tuple(dict.fromkeys(day.isoformat() for day in days)))


_AROUND = re.compile(
    r"[\s.,;:!?()\"'/#*~-]+|\b(?:on|for|at|by|in|from|since|of|is|it|its|it's|the|a|um+|uh+|er+m?|hm+|oh|ah|ok|okay|well|so|"
    r"please|pls|plz|thanks|thank|thx|ta|cheers|you|maybe|perhaps|probably|preferably|possibly|let's|"
    r"lets|say|saying|make|"
    r"that|that's|thats|this|would|will|be|good|great|fine|perfect|best|ideal|ideally|ok|work|works|"
    r"working|suit|suits|"
    r"me|us|i|i'd|id|i'll|i'm|we|we'd|we'll|think|guess|like|love|prefer|want|need|if|possible|how|what|"
    r"about|around|"
    r"approximately|approx|roughly|circa|nearly|almost|just|only|over|under|exactly|sharp|then|there|can|"
    r"could|do|"
    r"does|yes|yeah|yep|yup|ya|sure|hi|hello|some|sometime|total|altogether|more|less|than|least|up|to|"
    r"until|till|til|starting|beginning|start|begin|delivery|arrive|arriving|arrival|date|day|time|now|"
    r"have|had|been|"
    r"should|may|might|come|book|set|go|with|going|are|am|was|were|use|put|down|latest|earliest|and|or|"
    r"so|all|whole|of|long|"
    r"my|our|answer|as|well|too|also|better|would've|lol|sorry|near|enough|actually|nice|hours?|clock|"
    r"longer|any|stay|staying|got|we're|we've|i've|ive)\b"
)
"""Words that may surround a value in a bare answer."""

_GREETS = re.compile(r"\bhow (?:are|r|have|was|were|is it)\b|\bhow's it\b")
_NOT_BEFORE = re.compile(
    r"(?:\b(?:not|never|neither|nor|except|excluding|without|besides|anything but|any \w+ but|all but|"
    r"rather than|"
    r"instead of|as opposed to|no longer|forget|scrap|scratch|scrub|skip|avoid|can't|cannot|cant|"
    r"couldn't|won't|wont|don't|dont|isn't|"
    r"isnt|wasn't)(?: (?:do|make|manage|have|want|come|let|land|deliver|send|bring|book|arrive|for|on|at|"
    r"the|this|next|a|in|good|it|them|us|be|"
    r"home|here|free|available|around|possible|works?|about))*)[ ,]*$"
)
_NOT_BUT_LIMIT = re.compile(r"\b(?:before|until|till|til|earlier than|later than|only|just)\b[ \w']{0,20}$")
_NOT_AFTER = re.compile(
    r"^[ ,]*(?:(?:really|actually|sadly|unfortunately) )?(?:(?:does ?n[o']?t|doesnt|wo ?n[o']?t|wont|"
    r"will not|can ?n[o']t|cant|"
    r"did ?n[o']?t|isn'?t|is not|is never|not)(?: (?:really|actually))? (?:work|do|suit|good|possible|ok|"
    r"okay|great|fine|"
    r"an option|going to|convenient|right|any ?more)|is (?:no good|bad|out\b|wrong|impossible|no use)|"
    r"(?:no good|is too (?:early|late|soon|short|long)|was wrong)\b)"
)
_CORRECTION = re.compile(
    r"\b(?:no+|nope|nah|wait|sorry|sry|soz|actually|rather|i mean|i meant|make (?:it|that)|scrap that|"
    r"correction|"
    r"oops|better|hang on|hold on|instead|changed my mind|on second thoughts?|or rather|scratch that)\b"
)
_RANGE = re.compile(r" ?(?:-|\b(?:to|until|till|through|thru)\b) ?(?:the |on )?")
_FROM_TO = re.compile(
    r"\b(?:mov|chang|switch|shift|push|reschedul|postpon|bring|swap|extend)\w*\b.{0,60}\bfrom (?:the )?$"
)


_DAY = "|".join(DAYS)
_HOUR = (
    r"(?! (?:about |around )?(?:\d{1,2}(?!\d|st|nd|rd|th)|noon|midday|lunch|work\b|school\b|one|two|three|four|"
    r"five|six|"
    r"seven|eight|nine|ten|eleven|twelve|half)\b)"
)
_DATE_RELATION = re.compile(
    r"\b(?:days?|weeks?|nights?|months?|fortnights?|weekends?)(?: or (?:two|three|so))? (?:before|after|prior|"
    r"ahead|earlier|later|sooner|"
    rf"beforehand|afterwards?|following|preceding|previous){_HOUR}\b|"
    rf"\b(?:the|that) (?:{_DAY}) (?:before|after|prior|following|preceding)\b{_HOUR}|"
    rf"\b(?:{_DAY}|weekend) (?:before last|after next)\b|\b(?:previous|preceding) (?:day|night|week|month|{_DAY})\b|"
    rf"\b(?:morning|evening|afternoon) (?:before|after){_HOUR}\b|\beither side of\b|"
    r"\bwithin (?:an?|\d+|two|three) \w+ of\b"
)
_TIME_RELATION = re.compile(
    r"\b(?:hours?|hrs?|minutes?|mins?|half an hour|a bit) "
    r"(?:before|after|prior|ahead|earlier|later|sooner|beforehand|afterwards?)\b"
)
"""Words for an offset from another day or hour: "the day after my scan", "an hour before my bus"."""

_UNRELATED = re.compile(r"\b(?:back|return\w*|home)\b[^,.;!?]*$|\bnot (?:even )?(?:an?|one|the)? ?$")


def relates(text: str, readings: Sequence[Reading] = (), *, hours: bool = False) -> bool:
    """Whether a text has an offset that no reading includes, so that the named day is not the value.

    Args:
        text: The message, in small letters.
        readings: The readings of the text.
        hours: Whether to look for offsets in hours instead of days.

    Example:
        >>> relates("the day after my scan, the 22nd"), relates("back two days later"), relates("friday after 3")
        (True, False, False)
    """
    return any(
        not any(each.start <= match.start() + 4 and match.end() <= each.end for each in readings)
        and _UNRELATED.search(text[: match.start()]) is None
        for match in (_TIME_RELATION if hours else _DATE_RELATION).finditer(text)
    )


def only_match(text: str, readings: Sequence[Reading]) -> Reading | None:
    """Return the only reading of a bare text; None if it has several readings or other words."""
    if len(readings) != 1:
        return None
    before, after = text[: readings[0].start], text[readings[0].end :]
    more = _AROUND.sub("", before) or _AROUND.sub("", after)
    return None if more or is_negated(before, after) or _GREETS.search(before) else readings[0]


def matches_in(text: str, readings: Sequence[Reading]) -> list[Reading]:
    """Return the unambiguous readings of a longer message that it does not negate or correct."""
    result: list[Reading] = []
    for reading in readings:
        before, after = text[: reading.start], text[reading.end :]
        if is_negated(before, after):
            result = [other for other in result if other.values != reading.values]
            continue
        if reading.alone:
            continue
        if re.match(r"[ ,]*instead\b(?! of)", after):
            result = result[-1:] if result and _RANGE.fullmatch(text[result[-1].end : reading.start]) else []
        if (
            result
            and _CORRECTION.search(text[result[-1].end : reading.start])
            and reading.start - result[-1].end < 60
        ):
            result.clear()
        following = [other for other in readings if other.start >= reading.end]
        if following and _FROM_TO.search(before) and re.match(r" to\b", after):
            continue
        result.append(reading)
    return [reading for reading in result if len(reading.values) == 1]


def is_negated(before: str, after: str) -> bool:
    """Whether the words around a value negate it.

    Example:
        >>> is_negated("anything but ", ""), is_negated("", " doesn't work"), is_negated("not before ", "")
        (True, True, False)
    """
    negated_before = _NOT_BEFORE.search(before) is not None and _NOT_BUT_LIMIT.search(before[-24:]) is None
    return negated_before or _NOT_AFTER.search(after) is not None


def longest(readings: list[Reading]) -> list[Reading]:
    """Return the longest of overlapping readings, in the order of the text.

    Example:
        >>> longest([Reading(0, 3, ("a",)), Reading(0, 8, ("b",)), Reading(9, 12, ("c",))])[0].values
        ('b',)
    """
    result: list[Reading] = []
    for reading in sorted(readings, key=lambda each: (each.start - each.end, each.start)):
        if all(reading.end <= other.start or reading.start >= other.end for other in result):
            result.append(reading)
    return sorted(result)


MONTH_FIRST = frozenset(["US", "PH", "FM", "MH", "PW", "GU", "AS", "PR", "VI", "MP", "UM"])
"""Regions that write the month before the day."""
EITHER_FIRST = frozenset({"CA"})
YEAR_FIRST = frozenset(["zh", "ja", "ko", "hu", "lt", "mn", "eu"])
"""Languages that write the year, then the month, then the day."""


class DateContext(NamedTuple):
    """What the reading of a date depends on.

    Args:
        date: The day that words count from.
        orders: The orders of day and month that numbers may have: ``dm``, ``md``.
        past: Whether days in the past are intended.
        year_needed: Whether a date must name its year, as a date of birth does.
    """

    date: dt.date
    orders: tuple[str, ...] = ("dm", "md")
    past: bool = False
    year_needed: bool = False

    def century(self, digits: str, month: int, day: int) -> int:
        """Return the year of two digits; never in the future if ``past`` or ``year_needed`` is set.

        Example:
            >>> near = DateContext(dt.date(2026, 3, 4))
            >>> near.century("27", 3, 15), near._replace(past=True).century("27", 3, 15)
            (2027, 1927)
        """
        year = 2000 + int(digits)
        ahead = (year, month, day) > (self.date.year, self.date.month, self.date.day)
        return year - 100 if ahead and (self.past or self.year_needed) else year

    def on(self, day: int, month: int | None = None, year: int | None = None) -> dt.date | None:
        """Return a day; without month or year the next one, or the last one if ``past`` is set."""
        if year is not None:
            return exact(year, month or self.date.month, day)
        start, step = self.date.year * 12 + self.date.month - 1, -1 if self.past else 1
        months = (divmod(start + ahead, 12) for ahead in range(0, 12 * 9 * step, step))
        days = (exact(at, of + 1, day) for at, of in months if month in (None, of + 1))
        return next(
            (each for each in days if each and (each <= self.date if self.past else each >= self.date)), None
        )

    def weekday(self, day: int) -> dt.date:
        """Return the next weekday of that number, or the last one if ``past`` is set; never today."""
        ahead = (day - self.date.weekday() - 1) % 7 + 1
        return shifted(self.date, days=ahead - 7 - 7 * (ahead == 7) if self.past else ahead) or self.date

    def in_week(self, weeks: int, day: int) -> dt.date | None:
        """Return a weekday of the week that many weeks from now; weeks begin on Monday."""
        return shifted(self.date, days=7 * weeks + day - self.date.weekday())


def orders(locale: str, region: str) -> tuple[str, ...]:
    """Return whether day or month comes first; both orders if the locale does not decide.

    Example:
        >>> orders("en", "US"), orders("en-GB", ""), orders("en", ""), orders("de", "")
        (('md',), ('dm',), ('dm', 'md'), ('dm',))
    """
    language, _, rest = locale.replace("_", "-").partition("-")
    place = (region or rest.rpartition("-")[2]).upper()
    if language.lower() in YEAR_FIRST:
        return ("md",)
    if place in EITHER_FIRST or (language.lower() == "en" and len(place) != 2):
        return ("dm", "md")
    return ("md",) if place in MONTH_FIRST else ("dm",)


def exact(year: int, month: int, day: int) -> dt.date | None:
    """Return a day; None if it does not exist."""
    try:
        return dt.date(year, month, day)
    except (ValueError, OverflowError):
        return None


def shifted(date: dt.date, *, days: int = 0, months: int = 0) -> dt.date | None:
    """Add days and months to a day; clamps to the last day of a month. None outside of the calendar.

    Example:
        >>> shifted(dt.date(2026, 1, 31), months=1)
        datetime.date(2026, 2, 28)
    """
    try:
        year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
        day = min(date.day, calendar.monthrange(year, month + 1)[1])
        return dt.date(year, month + 1, day) + dt.timedelta(days=days)
    except (ValueError, OverflowError):
        return None


def last_day(date: dt.date) -> dt.date:
    """Return the last day of the month of a date."""
    return date.replace(day=calendar.monthrange(date.year, date.month)[1])


def moved(date: dt.date, number: int, unit: str) -> dt.date | None:
    """Add a number of units to a day; None for unknown units."""
    days = {"day": 1, "night": 1, "week": 7, "fortnight": 14}.get(unit, 0)
    months = {"month": 1, "year": 12, "decade": 120}.get(unit, 0)
    return shifted(date, days=number * days, months=number * months) if days or months else None


def counted_by(word: str) -> int:
    """Convert ``3``, ``a`` or ``a couple of`` to a number."""
    return int(word) if word.isdigit() else 2 if "couple" in word else 1


NO_YEAR = "the year is missing"
"""The reason if a slot needs a year and the day has none."""

_ISO = re.compile(
    r"(?<![\d/.-])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[t ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:z|"
    r"[+-]\d\d:?\d\d)?)?(?![\d/-])"
)
_BASIC = re.compile(r"(?:19|20)\d{6}")
_SHORT = re.compile(
    r"(?<![\d/.,:€£$#-])(\d{1,2})( ?[/.-] ?)(\d{1,2})(?:\2(\d{4}|\d\d)(?!\d)|(\.)(?![\d]))?(?![\d/%:-]|"
    r"\.\d| ?%)"
)
_PREPOSITION = re.compile(
    r"\b(?:on|by|until|till|from|before|after|for|the|to|date|day|am|vom|bis|le|el|il|since|seit)[: ] ?$"
)
_UNIT = re.compile(
    r" ?(?:€|£|\$|eur|gbp|usd|pounds?|euros?|kg|cm|inch|l\b|of\b|price|size|pm\b|am\b|h\b|uhr\b|hours?|"
    r"o'clock|star)"
)


def numeric_days(text: str, near: DateContext) -> list[Reading]:
    """Return all dates in digits of a simplified text."""
    readings = [_iso(match) for match in _ISO.finditer(text)]
    if match := _BASIC.fullmatch(text.strip(" .!")):
        day, start = exact(int(match[0][:4]), int(match[0][4:6]), int(match[0][6:])), text.index(match[0])
        readings += [Reading(start, start + 8, (day.isoformat(),))] if day else []
    return [
        *readings,
        *(reading for match in _SHORT.finditer(text) if (reading := _short(match, near)) is not None),
    ]


def _iso(match: re.Match[str]) -> Reading:
    day = exact(int(match[1]), int(match[3]), int(match[4]))
    why = "" if day else f"there is no day {match[1]}-{match[3]}-{match[4]}"
    return Reading(*match.span(), (day.isoformat(),) if day else (), why)


def _short(match: re.Match[str], near: DateContext) -> Reading | None:
    first, sign, second = int(match[1]), match[2].strip(), int(match[3])
    year = match[4]
    is_range = year is None and (sign == "-" or " " in match[2])
    if is_range or _UNIT.match(match.string, match.end()):
        return None
    is_dotted = sign == "." and match[5] is not None
    allowed = ("dm",) if is_dotted else near.orders
    pairs = dict.fromkeys((first, second) if order == "dm" else (second, first) for order in allowed)
    if near.year_needed and year is None:
        return Reading(match.start(), match.end(), why_not=NO_YEAR, alone=True)
    days = [day for pair in pairs if pair[1] <= 12 and (day := _day(near, pair, year)) is not None]
    if not days and len(allowed) == 1 and not is_dotted and 0 < first <= 31 and 0 < second <= 31:
        # "14/3" is valid in one order only, so it is accepted where months come first.
        other = _day(near, (second, first) if allowed[0] == "dm" else (first, second), year)
        days += [other] if other is not None else []
    has_preposition = bool(_PREPOSITION.search(match.string[: match.start()]))
    alone = (
        year is None and not has_preposition and not (is_dotted and match.end() < len(match.string.rstrip()))
    )
    values = tuple(dict.fromkeys(day.isoformat() for day in days))
    why = "" if values else f"there is no day {match[0].strip(' .')}"
    return Reading(*match.span(), values, why, alone)


def _day(near: DateContext, pair: tuple[int, int], year: str | None) -> dt.date | None:
    """Return the date of a pair of day and month, with an optional year of two or four digits."""
    day, month = pair
    if year is None:
        return near.on(day, month)
    return near.on(day, month, int(year) if len(year) == 4 else near.century(year, month, day))
