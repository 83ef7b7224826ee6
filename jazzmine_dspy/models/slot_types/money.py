"""``money``: an amount and its currency, by the names and signs that a locale and the registry's habits give it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from jazzmine_dspy.models.language import RANGE, Span, intended_values, is_bare, is_english
from jazzmine_dspy.models.slot_types.numbers import numbers
from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import (
    ANYWHERE,
    ReadingContext,
    Slot,
    out_of_range,
    pattern_match,
    slot_type,
)

_NORMAL = re.compile(r"-?\d{1,15}\.\d{2} [A-Z]{3}")
_WORD_AFTER = re.compile(r"\s?([^\W\d_]+\.?(?:\s[^\W\d_]+)?)")
_CODE_BEFORE = re.compile(r"(?<!\w)([A-Z]{3}|[a-z]{3})\s?$")
_MINUS_BEFORE = re.compile(r"(?<![\w])[-\u2212]\s?$")
_OF_IT = ("worth", "each", "total", "exactly", "gift", "card", "voucher", "cash", "max", "maximum", "minimum")


class _Amount(NamedTuple):
    value: Decimal
    code: str

    def __str__(self) -> str:
        return f"{self.value:.2f} {self.code}".strip()


@slot_type("money")
class Money(TextType):
    """An amount with two decimals, and the currency's code; an amount without a currency has the registry's."""

    example = "12.50 EUR"
    example_shown = False
    ranged = True

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The amount of a text that says little else."""
        found = _amounts(text, at)
        if not found or not is_bare(text, found, at.locale, _OF_IT):
            own = pattern_match(slot, text)
            return [] if own is None else [own]
        # Of "2 for 20 euros" one is a price.
        found = [each for each in found if each.value.code] or found
        amounts = [_Amount(each.value, each.code or at.currency) for each in intended_values(text, found)]
        return [str(amount) for amount in amounts if amount.code]

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        """Amounts that stand next to a currency."""
        return [each._replace(value=str(each.value)) for each in _amounts(text, at) if each.value.code]

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """Two decimals and a code, of a text or of a bare number where the registry has a currency."""
        if _is_number(value) and at.currency and abs(value) < 1e15:
            return str(_Amount(Decimal(str(value)), at.currency))
        is_normal = isinstance(value, str) and _NORMAL.fullmatch(value)
        return value if is_normal else super().normalize(slot, value, at)

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only amounts with a currency will do, within the slot's range; none below zero unless it says so."""
        normal = self.normalize(slot, value, at)
        if not isinstance(normal, str) or not _NORMAL.fullmatch(normal):
            if slot.pattern and isinstance(value, str):
                return ""
            bare = len(_amounts(value, at)) == 1 if isinstance(value, str) else _is_number(value)
            return f"{value!r} names no currency" if bare else f"{value!r} is no amount of money"
        amount, code = normal.split()
        if amount.startswith("-") and slot.min is None:
            return f"{normal} is less than nothing"
        return out_of_range(slot, float(amount), f" {code}")

    def is_attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """Without a number nothing was tried."""
        return bool(numbers(text, at)) and super().is_attempt(slot, text, at)

    def label_error(self, slot: Slot, value: Any) -> str:
        """Labelled values are in normal form."""
        fits = isinstance(value, str) and (_NORMAL.fullmatch(value) or slot.pattern)
        return (
            super().label_error(slot, value)
            if fits or not isinstance(value, str)
            else 'an amount like "12.50 EUR"'
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _amounts(text: str, at: ReadingContext) -> list[Span]:
    """All amounts; the code is "" where no currency stands beside one. Of "20 to 30 EUR" both have the one."""
    found = sorted([*_each(text, at), *_notes(text, at)])
    for place, (first, second) in enumerate(pairwise(found)):
        if RANGE.fullmatch(text[first.end : second.start]):
            code = first.value.code or second.value.code
            found[place : place + 2] = (
                each._replace(value=_Amount(each.value.value, code)) for each in (first, second)
            )
    return found


_NOTE = re.compile(
    r"\b(?:(?P<count>\d{1,2}|two|three|four|five) )?(?:(?P<five>fiver)|tenner)(?P<several>s)?\b",
    re.IGNORECASE,
)
_SEVERAL = {"two": 2, "three": 3, "four": 4, "five": 5}


def _notes(text: str, at: ReadingContext) -> Iterator[Span]:
    """English notes by the names that people give them; several only where their number is said."""
    code = at.currency or ("GBP" if at.region == "GB" else "")
    for match in _NOTE.finditer(text) if is_english(at.locale) and code else ():
        said = (match["count"] or "").lower()
        count = _SEVERAL.get(said) or int(said or 1)
        if bool(said) == bool(match["several"]):
            yield Span(match.start(), match.end(), _Amount(Decimal(5 if match["five"] else 10) * count, code))


def _each(text: str, at: ReadingContext) -> Iterator[Span]:
    taken = 0
    for each in numbers(text, at, spaced=_spaced(text, at), money=True):
        if each.start < taken:
            continue
        start, code = _before(text, taken, each.start, at)
        end = each.end
        value = Decimal(each.value)
        if not code:
            end, code, hundredths = _after(text, each.end, at)
            value = value / 100 if hundredths else value
        if text[end : end + 1] in ("%", "\u2030") or (not code and text[end : end + 1].isalnum()):
            continue
        minus = _MINUS_BEFORE.search(text[:start])
        if minus and value > 0:
            start, value = minus.start(), -value
        if code:
            end, value = _with_hundredths(text, end, value)
        taken = end
        yield Span(start, end, _Amount(value, code))


_SPACED = re.compile(
    r"(?<![\w.,])\d{1,3}(?: \d{3})+(?!\w|[.,]\d)"
    r"(?:\s?(?P<word>[^\W\d_]+)(?!\s(?:bills?|notes?|checks?|cards?|coins?)\b))?"
)
"""Thousands that are parted by spaces, and the word behind them; "3 100 dollar bills" are three."""


def _spaced(text: str, at: ReadingContext) -> bool:
    """Whether a space parts thousands: beside a currency, or where nothing else is said."""
    if any(sign in text for sign in "€£$"):
        return True
    match = _SPACED.search(text)
    named = match and match["word"] and currency(match["word"], at)
    return bool(named) or (match is not None and match[0] == text.strip(" .!"))


def _before(text: str, taken: int, start: int, at: ReadingContext) -> tuple[int, str]:
    lead = " " * taken + text[taken:start]
    match = _sign_pattern(before=True).search(lead) or _CODE_BEFORE.search(lead)
    code = currency(match[1], at) if match else ""
    return (match.start(1), code) if match and code else (start, "")


def _after(text: str, end: int, at: ReadingContext) -> tuple[int, str, bool]:
    match = _sign_pattern(before=False).match(text, end)
    if match:
        return match.end(1), currency(match[1], at), False
    match = _WORD_AFTER.match(text, end)
    for said in (match[1], match[1].split()[0]) if match else ():
        place = text.index(said, end) + len(said)
        if said.lower() in _HUNDREDTHS and (code := _HUNDREDTHS[said.lower()] or at.currency):
            return place, code, True
        if code := currency(said, at) or currency(said.rstrip("."), at):
            return place, code, False
    return end, "", False


def _with_hundredths(text: str, end: int, value: Decimal) -> tuple[int, Decimal]:
    """With the cents of "12 pounds 50"."""
    more = re.match(r"(?:\s(?:and\s)?)?(\d\d)(?:\s?(?:cents|p|pence)\b|(?!\s?[\w.,:%-]|[.,]\d))", text[end:])
    if more is None or value != value.to_integral_value() or not text[end - 1].isalpha():
        return end, value
    return end + more.end(), value + Decimal(more[1]) / 100


_USUAL = {
    "€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR",
    "£": "GBP", "gbp": "GBP", "quid": "GBP", "sterling": "GBP", "pound": "GBP", "pounds": "GBP",
    "$": "USD", "usd": "USD", "us$": "USD", "c$": "CAD", "a$": "AUD",
    "nz$": "NZD", "buck": "USD", "bucks": "USD", "dollar": "USD", "dollars": "USD",
    "¥": "JPY", "yen": "JPY", "fr.": "CHF", "sfr": "CHF", "franken": "CHF",
}  # fmt: skip
"""Meant by most people; what several countries share is the registry's own where it has such a currency."""

_HUNDREDTHS = {"cent": "", "cents": "", "c": "", "p": "GBP", "pence": "GBP", "penny": "GBP"}
"""Hundredths, of the named currency or of one that the context tells."""


def currency(said: str, at: ReadingContext) -> str:
    """The code of a currency as it is called; "" where nothing is called so, or several things are.

    Example:
        >>> currency("US$", ReadingContext()), currency("dollars", ReadingContext(currency="CAD"))
        ('USD', 'CAD')
        >>> currency("pesos", ReadingContext()), currency("złoty", ReadingContext(locale="pl"))
        ('', 'PLN')
    """
    if said.strip() in _ALSO_WORDS and at.currency != said.strip().upper():
        return ""
    said = said.strip().lower()
    known = _names(at.locale.replace("-", "_")).get(said, frozenset()) | _names("en").get(said, frozenset())
    if at.currency in known:
        return at.currency
    if said in _USUAL:
        return _USUAL[said]
    return next(iter(known)) if len(known) == 1 else ""


_ALSO_WORDS = frozenset(
    ("all", "amd", "bam", "cup", "gel", "lak", "mad", "mop", "pen", "ron", "sos", "top", "try")
)
"""Codes that are words, too, where they are written in small letters: "all 120"."""


_AT_HOME = {
    "PLN": "pl", "CZK": "cs", "HUF": "hu", "SEK": "sv", "NOK": "nb", "DKK": "da", "RUB": "ru", "TRY": "tr",
    "UAH": "uk", "BGN": "bg", "RON": "ro", "CAD": "en_CA", "AUD": "en_AU", "NZD": "en_NZ", "SGD": "en_SG",
    "HKD": "en_HK", "MXN": "es_MX", "CNY": "zh", "THB": "th",
}  # fmt: skip
"""Where a currency's own country writes a sign that no English name tells, such as "zł" and "Kč"."""


def signs() -> tuple[str, ...]:
    """Signs that stand before or after an amount, the longest first."""
    # A full stop alone, which some data gives for a currency, ends sentences.
    found = {name for name in {*_names("en"), *_USUAL} if not name[-1].isalpha() and name != "."}
    return tuple(sorted(found, key=len)[::-1])


@lru_cache(maxsize=16)
def _names(locale: str) -> dict[str, frozenset[str]]:
    """Codes by name, plural, last word of a name ("pounds", which many are called) and sign, in small letters."""
    from babel import Locale
    from babel.core import UnknownLocaleError, get_global
    from babel.numbers import get_currency_name

    try:
        words = Locale.parse(locale)
    except (UnknownLocaleError, ValueError):
        return {}
    english = words.language == "en"
    money = (each for held in get_global("territory_currencies").values() for each in held)
    today = {code for code, _, until, tender in money if until is None and tender}
    found: dict[str, frozenset[str]] = {}
    for code in sorted(today & set(words.currencies)):
        sign = words.currency_symbols.get(code, "")
        home = Locale.parse(_AT_HOME[code]).currency_symbols if english and code in _AT_HOME else {}
        called = {code, sign, home.get(code, "")}
        # "CA$" is of one, "$" of many.
        called |= {sign[-1]} if len(sign) > 1 and not sign[-1].isalnum() else set()
        for name in (get_currency_name(code, count, words) for count in (None, 1, 2, 5)):
            # In Polish and French the noun stands first.
            called |= {name, name.split()[-1], name.split()[-1 if english else 0]}
        for name in filter(None, {each.lower() for each in called}):
            found[name] = found.get(name, frozenset()) | {code}
    return found


@lru_cache(maxsize=2)
def _sign_pattern(*, before: bool) -> re.Pattern[str]:
    any_sign = "|".join(map(re.escape, signs()))
    return re.compile(rf"(?<!\w)({any_sign})\s?$" if before else rf"\s?({any_sign})(?!\w)", re.IGNORECASE)
