"""Days and numbers that an English conversation says in another language: "ciao, I need the van per sabato"."""

from __future__ import annotations

import re
from functools import lru_cache

from jazzmine_dspy.models.phrases import words

_DAYS = {
    "de": "montag dienstag mittwoch donnerstag freitag samstag sonntag übermorgen",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche demain aujourd'hui",
    "es": "lunes martes miércoles miercoles jueves viernes sábado mañana",
    "it": "lunedì martedì mercoledì giovedì venerdì sabato domenica domani",
    "nl": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag overmorgen",
    "pt": "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira amanhã",
}
_NUMBERS = {
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf fünfzehn zwanzig dreißig vierzig fünfzig hundert",
    "fr": "deux trois quatre cinq sept huit neuf onze douze treize quatorze quinze vingt trente quarante cinquante",
    "es": "dos tres cuatro cinco seis siete ocho nueve diez doce trece catorce quince veinte treinta cincuenta",
    "it": "tre quattro cinque sei sette otto nove dieci undici dodici quindici venti trenta quaranta cinquanta",
    "nl": "twee drie vier vijf zes zeven acht negen tien elf twaalf vijftien twintig dertig veertig vijftig",
    "pt": "dois três quatro cinco seis sete oito nove dez doze quinze vinte trinta quarenta cinquenta",
}
_DULL = words("acht sei seis nove tien elf tre tres dos sept quince venti otto dez diez quattro")
"""Days and numbers that are words, short forms or names of English too, or another language's."""

_IN_NAME = (
    re.compile(r"\b[A-ZÀ-Þ][\w'-]{2,} $"),
    re.compile(r" (?!(?:Morgen|Mittag|Abend|Nachmittag)\b)[A-ZÀ-Þ][a-zß-ÿ]+"),
)
"""Before and behind a word with a capital that is part of a name: "Mardi Gras", "Heidi Montag"."""

_TOGETHER = {
    "zweit": 2,
    "dritt": 3,
    "viert": 4,
    "fünft": 5,
    "sechst": 6,
    "siebt": 7,
    "acht": 8,
    "neunt": 9,
    "zehnt": 10,
}
TOGETHER = re.compile(rf"\bzu ({'|'.join(_TOGETHER)})\b", re.IGNORECASE)
"""German for so many people: "zu fünft"."""


def together(match: re.Match[str]) -> int:
    """How many a match of ``TOGETHER`` stands for."""
    return _TOGETHER[match[1].lower()]


def day_language(text: str) -> str | None:
    """The language of the one day's name that is not English; None where there is none, or of several languages.

    Example:
        >>> day_language("am Freitag passt's"), day_language("Friday works")
        ('de', None)
    """
    return _language(text, _pattern("days"))


def number_language(text: str) -> str | None:
    """The same of a number in words.

    Example:
        >>> number_language("on sera douze"), number_language("twelve, once")
        ('fr', None)
    """
    return _language(text, _pattern("numbers"))


def _language(text: str, patterns: dict[str, re.Pattern[str]]) -> str | None:
    found = [
        language
        for language, pattern in patterns.items()
        if any(not _is_name(text, match) for match in pattern.finditer(text))
    ]
    return found[0] if len(found) == 1 else None


def _is_name(text: str, match: re.Match[str]) -> bool:
    """Whether a word stands with a capital next to another one, so that it is part of a name."""
    before, behind = _IN_NAME
    first = before.search(text[: match.start()])
    inner = first is not None and first.start() > 0 and text[: first.start()].rstrip()[-1:] not in ".!?"
    return match[0][0].isupper() and (inner or behind.match(text, match.end()) is not None)


@lru_cache(maxsize=2)
def _pattern(kind: str) -> dict[str, re.Pattern[str]]:
    told = _DAYS if kind == "days" else _NUMBERS
    return {
        language: re.compile(
            rf"(?<!\w)(?:{'|'.join(word for word in line.split() if word not in _DULL)})(?!\w)", re.IGNORECASE
        )
        for language, line in told.items()
    }
