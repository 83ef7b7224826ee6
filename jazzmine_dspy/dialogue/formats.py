"""Values in replies: dates, times, amounts, numbers, durations and lists as the user's language writes them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.slots import ReadingContext

_TIME = r"(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"
_MOMENT = re.compile(rf"(\d{{4}}-\d\d-\d\d)(?:[T ]{_TIME})?|{_TIME}")
_PATTERNS = {"date": "long", "moment": "long", "weekday": "EEEE"} | {
    n: n for n in ("day", "short", "long", "full")
}
_NUMBER = r"\d+(?:\.\d+)?"
_DURATION = re.compile(rf"P(?:{_NUMBER}[YMWD])*(?:T(?:{_NUMBER}[HMS])+)?")
_UNITS = (
    {"Y": "year", "M": "month", "W": "week", "D": "day"},
    {"H": "hour", "M": "minute", "S": "second"},
)


def spoken(name: str) -> str:
    """A name as words.

    Example:
        >>> spoken("track_order")
        'track order'
    """
    return name.replace("_", " ")


def format_value(value: Any, form: str, at: ReadingContext, yes_no: Sequence[str] = ("yes", "no")) -> str:
    """Return a value as a reply writes it; "" for None.

    Args:
        form: A slot type, a format of :data:`~jazzmine_dspy.models.templates.FORMATS`, or "raw"; "" for a value of
            unknown type: dates, times and amounts with a currency are then known by their form.
        at: The language, region and currency. A language without data leaves values in their stored form.
        yes_no: The words for true and false; in their stored form they are "true" and "false".

    Example:
        >>> at = ReadingContext(region="GB")
        >>> format_value("2026-03-06", "date", at), format_value("49.90 EUR", "money", at)
        ('6 March 2026', '€49.90')
        >>> format_value("PT90M", "duration", at), format_value(["a", "b", "c"], "list", at)
        ('90 minutes', 'a, b and c')
    """
    if isinstance(value, bool):
        return str(value).lower() if form == "raw" else yes_no[not value]
    if isinstance(value, list | tuple):
        items = [said for item in value if (said := format_value(item, form, at, yes_no)).strip()]
        return ", ".join(items) if form == "raw" else join_list(items, at)
    text = "" if value is None else spoken(str(value)) if form == "choice" else str(value)
    cldr = None if form == "raw" else _cldr(at.locale, at.region)
    try:
        written = _written(text, form or _form_of(value), at.currency, cldr) if cldr else ""
        # The spaces of English need not keep together: "6:30 pm".
        return written.translate({0xA0: " ", 0x202F: " "} if is_english(at.locale) else {}) or text
    except (ValueError, ArithmeticError):
        return text


def join_list(items: Sequence[str], at: ReadingContext, style: Literal["standard", "or"] = "standard") -> str:
    """Items as a list in words.

    Example:
        >>> join_list(["a", "b", "c"], ReadingContext(), "or")
        'a, b or c'
    """
    cldr = _cldr(at.locale, at.region)
    if cldr is None:
        return ", ".join(items)
    from babel.lists import format_list

    return str(format_list(items, style=style, locale=cldr))


@lru_cache(maxsize=256)
def _cldr(locale: str, region: str) -> Any:
    """Babel's data of a language; None where it has none, with one warning."""
    from babel import Locale
    from babel.core import UnknownLocaleError

    language, _, own = locale.replace("-", "_").partition("_")
    # Region 001 is the world: "6 March", not "March 6".
    for name in (*(f"{language}_{each}" for each in (own, region, "001") if each), language):
        try:
            return Locale.parse(name)
        except (UnknownLocaleError, ValueError):
            continue
    log.warning("Babel has no data for the locale %r: values stay in their stored form (ISO)", locale)
    return None


def _form_of(value: Any) -> str:
    if isinstance(value, int | float):
        return "number"
    return "money" if re.fullmatch(r"-?[\d.]+ [A-Z]{3}", str(value)) else "moment"


def _written(text: str, form: str, currency: str, cldr: Any) -> str:
    """A value in words; "" where it has not the form of one."""
    from babel import dates, lists, numbers, units

    moment = _MOMENT.fullmatch(text)
    if form in ("number", "money"):
        written, _, named = text.partition(" ")
        number, code = Decimal(written), named or currency
        if not number.is_finite():
            return ""
        if form == "money" and code in cldr.currencies:
            return str(numbers.format_currency(number, code, locale=cldr))
        if named:
            return ""
        return str(
            numbers.format_decimal(number, locale=cldr, group_separator=False, decimal_quantization=False)
        )
    if form == "duration" and _DURATION.fullmatch(text):
        days, _, clock = text.removeprefix("P").partition("T")
        parts = [
            units.format_unit(Decimal(number), f"duration-{names[sign]}", locale=cldr)
            for part, names in zip((days, clock), _UNITS, strict=True)
            for number, sign in re.findall(rf"({_NUMBER})([A-Z])", part)
            if sign in names
        ]
        return str(lists.format_list(parts, locale=cldr))
    if form not in (*_PATTERNS, "time") or not moment:
        return ""
    # Of a day with a time each format writes its part, "moment" both.
    day = dt.date.fromisoformat(moment[1]) if moment[1] and form != "time" else None
    hour = (moment[2] or moment[3]) if form in ("time", "moment") or not day else None
    parts = [
        dates.format_skeleton("MMMMd", day, locale=cldr) if day and form == "day" else "",
        dates.format_date(day, _PATTERNS[form], locale=cldr) if day and form != "day" else "",
        dates.format_time(dt.time.fromisoformat(hour), "short", locale=cldr) if hour else "",
    ]
    return ", ".join(filter(None, parts))
