"""Names and signs of currencies: what "quid", "zł" and "US$" stand for, by locale and by the registry's habits."""

from __future__ import annotations

from functools import lru_cache

from jazzmine_dspy.models.slots import ReadingContext

_USUAL = {
    "€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR",
    "£": "GBP", "gbp": "GBP", "quid": "GBP", "sterling": "GBP", "pound": "GBP", "pounds": "GBP",
    "$": "USD", "usd": "USD", "us$": "USD", "c$": "CAD", "a$": "AUD",
    "nz$": "NZD", "buck": "USD", "bucks": "USD", "dollar": "USD", "dollars": "USD",
    "¥": "JPY", "yen": "JPY", "fr.": "CHF", "sfr": "CHF", "franken": "CHF",
}  # fmt: skip
"""Meant by most people; what several countries share is the registry's own where it has such a currency."""

HUNDREDTHS = {"cent": "", "cents": "", "c": "", "p": "GBP", "pence": "GBP", "penny": "GBP"}
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
