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
    today = {
        code
        for held in get_global("territory_currencies").values()
        for code, _, until, tender in held
        if until is None and tender
    }
    found: dict[str, set[str]] = {}
    for code in sorted(today & set(words.currencies)):
        called = {code, words.currency_symbols.get(code, code)}
        for count in (None, 1, 2, 5):
            name = get_currency_name(code, count, words)
            called |= {name, name.split()[-1]}
            # In Polish and French the noun stands first.
            called |= set() if words.language == "en" else {name.split()[0]}
        sign = words.currency_symbols.get(code, "")
        if len(sign) > 1 and not sign[-1].isalnum():
            # "CA$" is of one, "$" of many.
            called.add(sign[-1])
        if words.language == "en":
            called.add(_sign_at_home(code))
        for name in called:
            if name:
                found.setdefault(name.lower(), set()).add(code)
    return {name: frozenset(codes) for name, codes in found.items()}


def _sign_at_home(code: str) -> str:
    """The sign that a currency's own country writes: "zł" and "Kč", which no English name tells."""
    from babel import Locale

    home = {
        "PLN": "pl", "CZK": "cs", "HUF": "hu", "SEK": "sv", "NOK": "nb", "DKK": "da", "RUB": "ru", "TRY": "tr",
        "UAH": "uk", "BGN": "bg", "RON": "ro", "CAD": "en_CA", "AUD": "en_AU", "NZD": "en_NZ", "SGD": "en_SG",
        "HKD": "en_HK", "MXN": "es_MX", "CNY": "zh", "THB": "th",
    }.get(code)  # fmt: skip
    return str(Locale.parse(home).currency_symbols.get(code, "")) if home else ""
