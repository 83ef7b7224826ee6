"""English numbers with scale words: "3.2 million", "half a million", "two and a half grand", "3 hundred and fifty"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise

from jazzmine_dspy.models.phrases import WORD, Found

_SCALES = {
    "dozen": 12, "dozens": 12, "hundred": 100, "thousand": 1000, "k": 1000, "grand": 1000, "million": 10**6,
    "mil": 10**6, "mill": 10**6, "mn": 10**6, "mln": 10**6, "m": 10**6, "billion": 10**9, "bn": 10**9, "b": 10**9,
    "trillion": 10**12,
}  # fmt: skip
_WORDS = (
    r"dozens?|hundred|thousand|million|billion|bn|trillion|"
    r"grand(?! (?:piano|prix|slam|total|child|parent|master|tour|final|opening))|k"
)
_SCALE = re.compile(rf"(?:\s+|-)?({_WORDS})\b", re.IGNORECASE)
_SCALE_OF_MONEY = re.compile(rf"(?:(?:\s+|-)?({_WORDS}|mill?|mn|mln)|(m|b))\b", re.IGNORECASE)
"""Amounts also have short forms; a single letter stands close to the number ("$1.5m")."""

_FRACTIONS = {"half": Decimal("0.5"), "quarter": Decimal("0.25"), "three quarters": Decimal("0.75")}
_AND_FRACTION = re.compile(
    r"\s+(?:and|n|&)\s+(?:a\s+|one\s+)?(half|quarter|three quarters)\b(?!\s+(?:past|to|after)\b)",
    re.IGNORECASE,
)
_BASE = re.compile(
    r"\b(?:(?P<part>half|(?:(?:a|one)\s+)?quarter|three[ -]quarters)(?:\s+of)?(?:\s+an?)?"
    r"|(?P<one>an?)|(?:an?\s+)?(?P<two>couple|pair)(?:\s+of)?"
    r"|(?P<vague>(?:a\s+)?few|several|many|some))"
    rf"\s+(?=(?:{_WORDS}|mil|mill)\b)|\b(?P<alone>(?:an?|one)\s+(?:couple(?:\s+of)?|pair\s+of))\b",
    re.IGNORECASE,
)
_DIGITS = ["zero", "oh", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_POINT = re.compile(rf"\s+point((?:\s+(?:{'|'.join(_DIGITS)}|\d))+)\b", re.IGNORECASE)
_REST = re.compile(r"(?:\s+(?:and|'?n'?|&|\+))?\s+", re.IGNORECASE)
_BARE_SCALE = re.compile(r"\b(?:hundred|thousand)$", re.IGNORECASE)
_JOINED = re.compile(r"\s+(?:and|'?n'?|&|\+)\s+(?:a\s+)?", re.IGNORECASE)
_WRITTEN_REST = re.compile(r"\d{2,3}(?![\w%:]|[.,]\d|\s?(?:cents|pence|p)\b)", re.IGNORECASE)
_LONGEST_REST = 6
"""Words of what follows a scale: "nine hundred and ninety nine thousand"."""


def scaled(text: str, found: Iterable[Found], *, money: bool) -> Iterator[Found]:
    """The numbers of a text with their scale words, in its order.

    Args:
        text: The text.
        found: Numbers in digits and in words.
        money: Whether short forms of amounts count: "3m", "2 mil".
    """
    taken, made = 0, list[Found]()
    for base, vague in sorted([*((each, False) for each in found), *_bases(text)]):
        if base.start >= taken:
            grown = _grown(text, base, money=money)
            taken = grown.end
            if not vague:
                made.append(grown)
    parts = {
        place for place, (one, other) in enumerate(pairwise(made)) if money and _is_joined(text, one, other)
    }
    yield from (each for place, each in enumerate(made) if not {place, place - 1} & parts)


def _is_joined(text: str, one: Found, other: Found) -> bool:
    """Whether two amounts in words stand for one that is not read whole: "hundred and odd n fifty"."""
    words = not any(map(str.isdigit, text[one.start : other.end]))
    return words and _JOINED.fullmatch(text, one.end, other.start) is not None


def _bases(text: str) -> Iterator[tuple[Found, bool]]:
    """What stands before a scale and is no number by itself: "half a", "a couple of"; vague is "a few"."""
    for match in _BASE.finditer(text):
        value = Decimal(2 if match["two"] or match["alone"] else 1)
        if match["part"]:
            part = re.sub(r"^(?:a|one)\s+", "", match["part"].lower()).replace("-", " ")
            value = _FRACTIONS[part]
        yield Found(match.start(), match.end(), value), bool(match["vague"])


def _grown(text: str, base: Found, *, money: bool) -> Found:
    """A number with what follows and belongs to it."""
    end, part = base.end, Decimal(base.value)
    if match := _POINT.match(text, end):
        digits = "".join(_digit(word) for word in match[1].lower().split())
        end, part = match.end(), part + Decimal(f"0.{digits}")
    total, part, end = Decimal(0), *_with_fraction(text, end, part, Decimal(1))
    pattern = _SCALE_OF_MONEY if money else _SCALE
    if (bare := _BARE_SCALE.search(text[base.start : end])) is not None:
        scale = Decimal(_SCALES[bare[0].lower()])
        rest = _rest(text, end, scale)
        part, end = (part, end) if rest is None else (part + rest.value, rest.end)
    # A base ends with the space before its scale.
    while match := pattern.match(text, end):
        scale = Decimal(_SCALES[match[match.lastindex or 1].lower()])
        part, end = part * scale, match.end()
        part, end = _with_fraction(text, end, part, scale)
        if scale >= 1000:
            total, part = total + part, Decimal(0)
        rest = _rest(text, end, scale)
        if rest is not None:
            part, end = part + rest.value, rest.end
    return Found(base.start, end, total + part)


def _digit(word: str) -> str:
    return word if word.isdigit() else str(max(0, _DIGITS.index(word) - 1))


def _with_fraction(text: str, end: int, value: Decimal, scale: Decimal) -> tuple[Decimal, int]:
    match = _AND_FRACTION.match(text, end)
    return (value, end) if match is None else (value + _FRACTIONS[match[1].lower()] * scale, match.end())


def _rest(text: str, end: int, scale: Decimal) -> Found | None:
    """The number below the scale that follows it: of "3 hundred and fifty", the fifty."""
    gap = _REST.match(text, end)
    if gap is None or scale < 100:
        return None
    if written := _WRITTEN_REST.match(text, gap.end()):
        fits = len(written[0]) == (2 if scale == 100 else 3)
        return Found(gap.end(), written.end(), Decimal(written[0])) if fits else None
    words = [*WORD.finditer(text, gap.end())][:_LONGEST_REST]
    for last in reversed(words if words and words[0].start() == gap.end() else ()):
        value = word_value(text[gap.end() : last.end()].lower().replace("-", " "), "en")
        if value is not None and 0 < value < scale:
            return Found(gap.end(), last.end(), Decimal(value))
    return None


@lru_cache(maxsize=4096)
def word_value(text: str, language: str) -> int | None:
    """The whole number that a text is in words; None where it is none."""
    from text_to_num import text2num

    if text.endswith((" and", " y", " et", " e", " und", " en", " i")):
        return None
    try:
        return int(text2num(text, language))
    except (ValueError, OverflowError):
        return None
