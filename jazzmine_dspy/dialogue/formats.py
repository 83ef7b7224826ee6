"""How values are said: dates, times, amounts, numbers, durations and lists as the user's language writes them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.slots import ReadingContext

_TIME = r"(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"
_MOMENT = re.compile(rf"(\d{{4}}-\d\d-\d\d)(?:[T ]{_TIME})?|{_TIME}")
_MOMENT_FORMS = ("date", "time", "moment", "weekday", "day", "short", "long", "full")
_AMOUNT = re.compile(r"(-?\d+(?:\.\d+)?)(?: ([A-Z]{3}))?")
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
    """A value as it is said; "" for none.

    Args:
        form: A slot type, a format of :data:`~jazzmine_dspy.models.templates.FORMATS`, or "raw"; "" for a value of
            unknown type: dates, times and amounts with a currency are then known by their form.
        at: The language, region and currency. A language without data leaves values in their stored form.
        yes_no: The words for true and false.

    Example:
        >>> at = ReadingContext(region="GB")
        >>> format_value("2026-03-06", "date", at), format_value("49.90 EUR", "money", at)
        ('6 March 2026', '€49.90')
        >>> format_value("PT90M", "duration", at), format_value(["a", "b", "c"], "list", at)
        ('90 minutes', 'a, b and c')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return yes_no[not value]
    if isinstance(value, list | tuple):
        items = [format_value(item, form, at, yes_no) for item in value]
        return ", ".join(items) if form == "raw" else join_list(items, at)
    text = str(value)
    if form == "choice":
        return spoken(text)
    cldr = None if form == "raw" else _cldr(at.locale, at.region)
    if cldr is None:
        return text
    form = form or _form_of(value, cldr)
    try:
        if form == "duration":
            return _duration(text, at, cldr) or text
        if form in ("number", "money"):
            return _amount(text, form, at.currency, cldr)
        return _moment(text, form, cldr) if form in _MOMENT_FORMS else text
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
    log.warning("nothing is known of the locale %r: values are said in their stored form (ISO)", locale)
    return None


def _form_of(value: Any, cldr: Any) -> str:
    if isinstance(value, int | float):
        return "number"
    amount = _AMOUNT.fullmatch(str(value))
    return (
        "money"
        if amount and amount[2] in cldr.currencies
        else "moment"
        if _MOMENT.fullmatch(str(value))
        else "text"
    )


def _amount(text: str, form: str, currency: str, cldr: Any) -> str:
    from babel.numbers import format_currency, format_decimal

    amount = _AMOUNT.fullmatch(text)
    if amount is None:
        return text
    if form == "money" and (code := amount[2] or currency):
        return str(format_currency(Decimal(amount[1]), code, locale=cldr))
    number = Decimal(amount[1])
    return str(format_decimal(number, locale=cldr, group_separator=False, decimal_quantization=False))


def _moment(text: str, form: str, cldr: Any) -> str:
    """A day, a time, or both; of both, the part that the format is for."""
    from babel.dates import format_date, format_skeleton, format_time

    parts = _MOMENT.fullmatch(text)
    if parts is None:
        return text
    said = []
    if parts[1] and form != "time":
        day = dt.date.fromisoformat(parts[1])
        pattern = {"weekday": "EEEE", "date": "long", "moment": "long"}.get(form, form)
        said.append(
            format_skeleton("MMMMd", day, locale=cldr)
            if form == "day"
            else format_date(day, pattern, locale=cldr)
        )
    if (clock := parts[2] or parts[3]) and (form in ("time", "moment") or not said):
        said.append(format_time(dt.time.fromisoformat(clock), "short", locale=cldr))
    return ", ".join(said) or text


def _duration(text: str, at: ReadingContext, cldr: Any) -> str:
    from babel.units import format_unit

    days, _, clock = text.removeprefix("P").partition("T")
    return join_list(
        [
            format_unit(Decimal(number), f"duration-{units[sign]}", locale=cldr)
            for part, units in zip((days, clock), _UNITS, strict=True)
            for number, sign in re.findall(r"(\d+(?:\.\d+)?)([A-Z])", part)
            if sign in units
        ],
        at,
    )
