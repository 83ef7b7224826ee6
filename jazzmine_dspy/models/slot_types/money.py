"""``money``: an amount and its currency, by the names and signs of the locale and the currency of the registry."""

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
_NEUTRAL_WORDS = (
    "worth",
    "each",
    "total",
    "exactly",
    "gift",
    "card",
    "voucher",
    "cash",
    "max",
    "maximum",
    "minimum",
)


class _Amount(NamedTuple):
    value: Decimal
    code: str

    def __str__(self) -> str:
        return f"{self.value:.2f} {self.code}".strip()


@slot_type("money")
class Money(TextType):
    """An amount with two decimals, and the currency's code; the default currency is the registry's."""

    example = "12.50 EUR"
    example_shown = False
    ranged = True

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """Return the amount of a text that says little else."""
        spans = _amounts(text, at)
        if not spans or not is_bare(text, spans, at.locale, _NEUTRAL_WORDS):
            own = pattern_match(slot, text)
            return [] if own is None else [own]
        # In "2 for 20 euros" only one number is a price.
        spans = [each for each in spans if each.value.code] or spans
        amounts = [_Amount(each.value, each.code or at.currency) for each in intended_values(text, spans)]
        return [str(amount) for amount in amounts if amount.code]

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        """Find amounts next to a currency."""
        return [each._replace(value=str(each.value)) for each in _amounts(text, at) if each.value.code]

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """Convert a text to two decimals and a code, or a bare number if the registry has a currency."""
        if _is_number(value) and at.currency and abs(value) < 1e15:
            return str(_Amount(Decimal(str(value)), at.currency))
        is_normal = isinstance(value, str) and _NORMAL.fullmatch(value)
        return value if is_normal else super().normalize(slot, value, at)

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Accept amounts with a currency within the range of the slot; negative ones only if it has a ``min``."""
        normal = self.normalize(slot, value, at)
        if not isinstance(normal, str) or not _NORMAL.fullmatch(normal):
            if slot.pattern and isinstance(value, str):
                return ""
            bare = len(_amounts(value, at)) == 1 if isinstance(value, str) else _is_number(value)
            return f"{value!r} names no currency" if bare else f"{value!r} is not an amount of money"
        amount, code = normal.split()
        if amount.startswith("-") and slot.min is None:
            return f"{normal} is less than nothing"
        return out_of_range(slot, float(amount), f" {code}")

    def is_attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """A text without a number is no attempt."""
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
    """Return all amounts; the code is "" without a currency. In "20 to 30 EUR" both amounts have it."""
    spans = sorted([*_amount_spans(text, at), *_notes(text, at)])
    for place, (first, second) in enumerate(pairwise(spans)):
        if RANGE.fullmatch(text[first.end : second.start]):
            code = first.value.code or second.value.code
            spans[place : place + 2] = (
                each._replace(value=_Amount(each.value.value, code)) for each in (first, second)
            )
    return spans


_NOTE = re.compile(
    r"\b(?:(?P<count>\d{1,2}|two|three|four|five) )?(?:(?P<five>fiver)|tenner)(?P<several>s)?\b",
    re.IGNORECASE,
)
_SEVERAL = {"two": 2, "three": 3, "four": 4, "five": 5}


def _notes(text: str, at: ReadingContext) -> Iterator[Span]:
    """Yield English bank notes by name ("tenner"); plural names need a count."""
    code = at.currency or ("GBP" if at.region == "GB" else "")
    for match in _NOTE.finditer(text) if is_english(at.locale) and code else ():
        count_word = (match["count"] or "").lower()
        count = _SEVERAL.get(count_word) or int(count_word or 1)
        if bool(count_word) == bool(match["several"]):
            yield Span(match.start(), match.end(), _Amount(Decimal(5 if match["five"] else 10) * count, code))


def _amount_spans(text: str, at: ReadingContext) -> Iterator[Span]:
    position = 0
    for each in numbers(text, at, spaced=_spaced(text, at), money=True):
        if each.start < position:
            continue
        start, code = _currency_before(text, position, each.start, at)
        end = each.end
        value = Decimal(each.value)
        if not code:
            end, code, hundredths = _currency_after(text, each.end, at)
            value = value / 100 if hundredths else value
        if text[end : end + 1] in ("%", "\u2030") or (not code and text[end : end + 1].isalnum()):
            continue
        minus = _MINUS_BEFORE.search(text[:start])
        if minus and value > 0:
            start, value = minus.start(), -value
        if code:
            end, value = _with_hundredths(text, end, value)
        position = end
        yield Span(start, end, _Amount(value, code))


_SPACED = re.compile(
    r"(?<![\w.,])\d{1,3}(?: \d{3})+(?!\w|[.,]\d)"
    r"(?:\s?(?P<word>[^\W\d_]+)(?!\s(?:bills?|notes?|checks?|cards?|coins?)\b))?"
)
"""Thousands that spaces separate, and the next word; "3 100 dollar bills" are three bills."""


def _spaced(text: str, at: ReadingContext) -> bool:
    """Whether spaces separate thousands: next to a currency, or if the text is nothing else."""
    if any(sign in text for sign in "€£$"):
        return True
    match = _SPACED.search(text)
    named = match and match["word"] and currency(match["word"], at)
    return bool(named) or (match is not None and match[0] == text.strip(" .!"))


def _currency_before(text: str, position: int, start: int, at: ReadingContext) -> tuple[int, str]:
    lead = " " * position + text[position:start]
    match = _sign_pattern(before=True).search(lead) or _CODE_BEFORE.search(lead)
    code = currency(match[1], at) if match else ""
    return (match.start(1), code) if match and code else (start, "")


def _currency_after(text: str, end: int, at: ReadingContext) -> tuple[int, str, bool]:
    match = _sign_pattern(before=False).match(text, end)
    if match:
        return match.end(1), currency(match[1], at), False
    match = _WORD_AFTER.match(text, end)
    for word in (match[1], match[1].split()[0]) if match else ():
        place = text.index(word, end) + len(word)
        if word.lower() in _HUNDREDTHS and (code := _HUNDREDTHS[word.lower()] or at.currency):
            return place, code, True
        if code := currency(word, at) or currency(word.rstrip("."), at):
            return place, code, False
    return end, "", False


def _with_hundredths(text: str, end: int, value: Decimal) -> tuple[int, Decimal]:
    """Add the cents of "12 pounds 50"."""
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
"""The usual meaning; a name that several countries share means the currency of the registry if it fits."""

_HUNDREDTHS = {"cent": "", "cents": "", "c": "", "p": "GBP", "pence": "GBP", "penny": "GBP"}
"""Hundredths of the named currency, or of the currency of the context."""


def currency(name: str, at: ReadingContext) -> str:
    """Return the code of a currency by name; "" if no currency or several have this name.

    Example:
        >>> currency("US$", ReadingContext()), currency("dollars", ReadingContext(currency="CAD"))
        ('USD', 'CAD')
        >>> currency("pesos", ReadingContext()), currency("złoty", ReadingContext(locale="pl"))
        ('', 'PLN')
    """
    if name.strip() in _ALSO_WORDS and at.currency != name.strip().upper():
        return ""
    name = name.strip().lower()
    codes = _names(at.locale.replace("-", "_")).get(name, frozenset()) | _names("en").get(name, frozenset())
    if at.currency in codes:
        return at.currency
    if name in _USUAL:
        return _USUAL[name]
    return next(iter(codes)) if len(codes) == 1 else ""


_ALSO_WORDS = frozenset(
    ("all", "amd", "bam", "cup", "gel", "lak", "mad", "mop", "pen", "ron", "sos", "top", "try")
)
"""Codes that are also words in lower case: "all 120"."""


_AT_HOME = {
    "PLN": "pl", "CZK": "cs", "HUF": "hu", "SEK": "sv", "NOK": "nb", "DKK": "da", "RUB": "ru", "TRY": "tr",
    "UAH": "uk", "BGN": "bg", "RON": "ro", "CAD": "en_CA", "AUD": "en_AU", "NZD": "en_NZ", "SGD": "en_SG",
    "HKD": "en_HK", "MXN": "es_MX", "CNY": "zh", "THB": "th",
}  # fmt: skip
"""Locales of countries whose own sign English data lacks, such as "zł" and "Kč"."""


@lru_cache(maxsize=16)
def _names(locale: str) -> dict[str, frozenset[str]]:
    """Map names, plurals, last words of names ("pounds") and signs to codes, in lower case."""
    from babel import Locale
    from babel.core import UnknownLocaleError, get_global
    from babel.numbers import get_currency_name

    try:
        cldr = Locale.parse(locale)
    except (UnknownLocaleError, ValueError):
        return {}
    english = cldr.language == "en"
    money = (each for entries in get_global("territory_currencies").values() for each in entries)
    tender_codes = {code for code, _, until, tender in money if until is None and tender}
    codes: dict[str, frozenset[str]] = {}
    for code in sorted(tender_codes & set(cldr.currencies)):
        sign = cldr.currency_symbols.get(code, "")
        home = Locale.parse(_AT_HOME[code]).currency_symbols if english and code in _AT_HOME else {}
        labels = {code, sign, home.get(code, "")}
        # "CA$" names one currency, "$" many.
        labels |= {sign[-1]} if len(sign) > 1 and not sign[-1].isalnum() else set()
        for name in (get_currency_name(code, count, cldr) for count in (None, 1, 2, 5)):
            # In Polish and French the noun stands first.
            labels |= {name, name.split()[-1], name.split()[-1 if english else 0]}
        for name in filter(None, {each.lower() for each in labels}):
            codes[name] = codes.get(name, frozenset()) | {code}
    return codes


@lru_cache(maxsize=2)
def _sign_pattern(*, before: bool) -> re.Pattern[str]:
    """A sign that stands before or after an amount, the longest that fits."""
    # Some data lists a full stop as a sign, but it ends sentences.
    signs = {name for name in {*_names("en"), *_USUAL} if not name[-1].isalpha() and name != "."}
    any_sign = "|".join(map(re.escape, sorted(signs, key=len)[::-1]))
    return re.compile(rf"(?<!\w)({any_sign})\s?$" if before else rf"\s?({any_sign})(?!\w)", re.IGNORECASE)
