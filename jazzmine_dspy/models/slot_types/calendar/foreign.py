"""Dates and lengths of time in languages other than English, by the names that dateparser holds of each language.

Reads unambiguous expressions only. dateparser itself also reads "Mai", "5" and "eine Sekunde" as days, so this module
uses its tables with stricter rules. A weekday or a month next to an unknown word ("nächsten Freitag") is left to a
language model.
"""

from __future__ import annotations

import functools
import importlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from jazzmine_dspy.models.slot_types.calendar.context import (
    NO_YEAR,
    DateContext,
    Reading,
    longest,
    moved,
    numeric_days,
    shifted,
)
from jazzmine_dspy.models.slot_types.calendar.durations import UNITS, written
from jazzmine_dspy.models.slot_types.calendar.english import DAYS, MONTHS

_NUMBERS = {
    "de": "ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
    "es": "un dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "fr": "un deux trois quatre cinq six sept huit neuf dix onze douze",
    "it": "un due tre quattro cinque sei sette otto nove dieci undici dodici",
    "nl": "een twee drie vier vijf zes zeven acht negen tien elf twaalf",
    "pt": "um dois tres quatro cinco seis sete oito nove dez onze doze",
}
"""Number words, which the tables lack for most languages; without accents, like everything below."""

_ONE = "ein eine einem einen einer eines un una une uno um uma een"
_OTHER_DAYS = {"pasado manana": 2, "dopodomani": 2, "depois de amanha": 2, "amanha": 1, "aujourd'hui": 0}
_DAYS_AWAY = {"0 day ago": 0, "1 day ago": -1, "2 day ago": -2, "in 1 day": 1, "in 2 day": 2}
_UNITS = ("year", "month", "week", "day", "hour", "minute")
_WEEKDAY_MODIFIER = re.compile(
    r"\b(?:nachst|kommend|letzt|vorig|vergang|jed|ubernachst|prochain|dernier|chaque|tous|proxim|pasad|"
    r"cada|todos|"
    r"siguiente|ogni|scors|prossim|volgend|vorig|elke|guten|heute|gestern|am morgen|la manana|que viene|"
    r"in einer|in zwei|dans|en huit|dentro|fra)"
)
"""Words next to a weekday that may mean another one than the next."""

_MORNING = re.compile(r"\b(?:am|guten|heute|gestern|jeden|la|buena|esta|goede|van) $")
_NEGATION = re.compile(
    r"\b(?:nicht|kein\w*|ohne|ausser|statt|pas|sauf|sans|jamais|no|non|nunca|menos|salvo|excepto|niet|"
    r"geen|behalve|nao|"
    r"exceto|tranne|inte|ikke|ei)\b(?:[^\w.;!?]+\w+){0,2}[^\w.;!?]*$"
)
_NEUTRAL = re.compile(r"\b[^\W\d_]{1,3}\b|[^\w]+")


class Words(NamedTuple):
    """Names of days, months and units in a language, for texts without accents."""

    weekdays: dict[str, int]
    months: dict[str, int]
    relative: dict[str, int]
    units: dict[str, str]
    numbers: dict[str, int]
    counted: tuple[tuple[re.Pattern[str], str, int], ...]
    dated: re.Pattern[str]


def days(text: str, near: DateContext, locale: str) -> list[Reading]:
    """Return all unambiguous dates of a text in another language."""
    words, text = _words(_language(locale)), bare(text)
    return longest([*numeric_days(text, near), *(() if words is None else _named_days(text, near, words))])


def lengths(text: str, locale: str) -> list[Reading]:
    """Return all unambiguous durations of a text in another language."""
    words, text = _words(_language(locale)), bare(text)
    # "In two weeks" is a date.
    if words is None or not words.units or any(pattern.search(text) for pattern, _, _ in words.counted):
        return []
    number, unit, readings = _either(words.numbers), _either(words.units), list[Reading]()
    for match in re.finditer(rf"(?<![\w.,])(\d{{1,4}}(?:[.,]\d)?|{number}) ({unit})\b", text):
        count = words.numbers.get(match[1]) or Fraction(match[1].replace(",", "."))
        value = written([(Fraction(count), UNITS[words.units[match[2]]])])
        readings += [Reading(*match.span(), (value,))] if value else []
    return longest(readings)


def only_match(text: str, readings: Sequence[Reading]) -> Reading | None:
    """Return the only reading of a text whose other words are short (at most three letters) and do not negate it."""
    if len(readings) != 1:
        return None
    rest = bare(text[: readings[0].start] + "|" + text[readings[0].end :])
    return None if _NEGATION.search(rest) or _NEUTRAL.sub("", rest) else readings[0]


def matches_in(text: str, readings: Sequence[Reading]) -> list[Reading]:
    """Return the unambiguous readings of a longer message without a negation before them."""
    certain = (each for each in readings if len(each.values) == 1 and not each.alone)
    return [each for each in certain if not _NEGATION.search(bare(text[: each.start]))]


def bare(text: str) -> str:
    """Remove the accents of a text; its length does not change."""
    return "".join(
        sign if len(sign) == 1 else sign[0]
        for sign in (unicodedata.normalize("NFD", letter) for letter in text)
    )


def _named_days(text: str, near: DateContext, words: Words) -> Iterator[Reading]:
    for match in words.dated.finditer(text):
        year = int(match[3]) if match[3] else None
        day = near.on(int(match[1]), words.months[match[2]], year)
        if near.year_needed and year is None:
            yield Reading(*match.span(), why_not=NO_YEAR)
        elif day is None:
            yield Reading(*match.span(), why_not=f"there is no day {match[0]}")
        else:
            yield Reading(*match.span(), (day.isoformat(),))
    relative = (
        (match, shifted(near.date, days=number))
        for name, number in words.relative.items()
        for match in re.finditer(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
        if not _MORNING.search(text[: match.start()])
    )
    offsets = (
        (match, moved(near.date, step * count, unit))
        for pattern, unit, step in words.counted
        for match in pattern.finditer(text)
        if (count := words.numbers.get(match[1]) or int(match[1] if match[1].isdigit() else 0))
    )
    weekdays = (
        (match, near.weekday(number))
        for name, number in words.weekdays.items()
        for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text)
        if not _WEEKDAY_MODIFIER.search(text[: match.start()][-14:] + "|" + text[match.end() :][:14])
    )
    for match, day in (*relative, *offsets, *weekdays):
        if day is not None:
            yield Reading(*match.span(), (day.isoformat(),))


@functools.lru_cache(maxsize=16)
def _words(language: str) -> Words | None:
    """Return the names that dateparser has for a language; None for unknown languages."""
    try:
        info: dict[str, Any] = importlib.import_module(
            f"dateparser.data.date_translation_data.{language}"
        ).info
    except ImportError:
        return None

    def names(keys: list[str], least: int) -> dict[str, int]:
        pairs = ((name, n) for n, key in enumerate(keys) for name in _plain(info.get(key, ())))
        return {name: n for name, n in pairs if len(name) >= least and not name.isdigit()}

    numbers = {word: n for n, word in enumerate(_NUMBERS.get(language, "").split(), 1)}
    numbers |= dict.fromkeys(_ONE.split(), 1)
    months = {name: n + 1 for name, n in names(MONTHS, 3).items()}
    relative = info.get("relative-type", {})
    number = rf"(\d{{1,3}}|{_either(numbers)})"
    counted = [
        (re.compile(rf"(?<!\w){re.escape(parts[0])}{number}{re.escape(parts[1])}(?!\w)"), unit, step)
        for unit in ("day", "week", "month", "year")
        for key, step in ((f"in \\1 {unit}", 1), (f"\\1 {unit} ago", -1))
        for form in _plain(info.get("relative-type-regex", {}).get(key, ()))
        if len(parts := re.split(r"\(\\d[^)]*\)", form)) == 2 and len(parts[1].strip()) > 2
    ]
    return Words(
        weekdays=names(DAYS, 4),
        months=months,
        relative=_OTHER_DAYS
        | {name: step for key, step in _DAYS_AWAY.items() for name in _plain(relative.get(key, ()))},
        units={name: unit for unit in _UNITS for name in _plain(info.get(unit, ())) if len(name) > 2},
        numbers=numbers,
        counted=tuple(counted),
        # 14. März 2026, 14 de marzo de 2026
        dated=re.compile(
            rf"(?<![\d.,:])(\d{{1,2}})(?:\.|er|º|°|ste|e)? ?(?:de |d'|of )?({_either(months) or '(?!)'})\b\.?"
            r"(?: (?:de |del )?(\d{4}))?"
        ),
    )


def _plain(names: Iterable[str]) -> list[str]:
    return [bare(name.casefold()) for name in names]


def _either(names: Iterable[str]) -> str:
    """Return a pattern of alternatives, the longest first."""
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


def _language(locale: str) -> str:
    language = locale.lower().replace("_", "-").split("-")[0]
    return language if re.fullmatch("[a-z]{2,3}", language) else "none"
