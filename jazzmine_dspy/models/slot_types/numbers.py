"""Numbers in a text: in digits as the locale writes them, in words, and with English scale words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache

from jazzmine_dspy.models.language import (
    SO_MANY_TOGETHER,
    TOGETHER,
    WORD,
    Span,
    foreign_language,
    is_english,
    words,
)
from jazzmine_dspy.models.slots import ReadingContext


def _digits(groups: str, after: str = r"\w") -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w.,'\u2019])(?:(?P<sign>[-\u2212]\s?)(?=[\d.,]))?"
        rf"(?P<body>\d{{1,3}}(?P<group>[{groups}])(?:\d{{2,3}}(?P=group))*\d{{3}}(?:[.,]\d{{1,4}})?"
        rf"|\d+(?:[.,]\d+)?|[.,]\d+)(?P<more>\s?k\b)?(?!{after}|[.,]\d)",
        re.IGNORECASE,
    )


_DIGITS = _digits(r".,'\u2019\u00a0\u202f")
_SPACED = _digits(r".,'\u2019\u00a0\u202f ")
# For money: a unit may follow without a space, as in "20EUR" and "50p".
_CLOSE = _digits(r".,'\u2019\u00a0\u202f", r"[\d_]")
_CLOSE_SPACED = _digits(r".,'\u2019\u00a0\u202f ", r"[\d_]")

_LONGEST = 18
"""Most digits of a number; longer ones are ids."""

_LONGEST_TEXT = 2_000
"""Longest text, in characters, that is searched for number words."""

_LONGEST_NUMBER = 10
"""Most words of a number in words."""

_AFTER_ONE = {"of"}
_BEFORE_ONE = words(
    "the this that which each every another first second third last other any no some same right wrong "
    "new old only blue red small big bigger smaller cheaper"
)
_LANGUAGES = frozenset({"en", "fr", "es", "pt", "de", "it", "nl", "ru"})


_MINUS = re.compile(r"(?<!\w)(?:minus|negative)\s+$", re.IGNORECASE)


def numbers(text: str, at: ReadingContext, *, spaced: bool = False, money: bool = False) -> list[Span]:
    """Return all numbers of a text in order, as decimals.

    Args:
        spaced: Whether spaces may separate thousands.
        money: Whether three digits after a point or comma are thousands, whatever the locale.
    """
    digits = [*_in_digits(text, at, spaced=spaced, money=money)]
    if len(text) >= _LONGEST_TEXT:
        return digits
    word_spans = (
        each
        for each in _in_words(text, at)
        if not any(each.start < other.end and other.start < each.end for other in digits)
    )
    spans = sorted([*digits, *word_spans])
    if is_english(at.locale):
        spans = [
            Span(minus.start(), each.end, -each.value)
            if each.value > 0 and (minus := _MINUS.search(text[: each.start]))
            else each
            for each in scaled(text, spans or _foreign_numbers(text, at), money=money)
        ]
        spans = _with_hundredths(text, spans) if money else spans
    return spans


_APART = re.compile(
    r"^\s+(?!(?:or|to|maybe|perhaps|no|not|but|wait|sorry|rather|actually)\b)[a-z]{3,}\s+(?:and |plus |& )?$",
    re.IGNORECASE,
)
"""Between two counts of different things: "2 adults 2 kids"."""


_AND_ONE = re.compile(
    r"\b(?:and|plus|n|with)\b (?:a|an|one|my|our|the|his|her) (?:\w+ )?(?:baby|child|kid|toddler|infant|"
    r"wife|husband|partner|"
    r"mum|mom|dad|nan|friend|mate)\b|[+&] ?(?:a|one|my) (?:baby|child|kid)\b",
    re.IGNORECASE,
)
"""One more thing without a number: "6 adults and a baby"."""


def count_apart(text: str, spans: Sequence[Span]) -> bool:
    """Whether two neighbours among the numbers of a text count different things."""
    apart = any(_APART.search(text[one.end : other.start]) for one, other in itertools.pairwise(spans))
    return apart or any(_AND_ONE.search(text, each.end) for each in spans)


_UNITS = (
    r"secs?|seconds?|mins?|minutes?|hrs?|hours?|days?|weeks?|months?|years?|yrs?|nights?|mm|cm|km|met(?:er|re)s?|miles?|"
    r"inch(?:es)?|ft|feet|foot|lit(?:er|re)s?|kg|kilos?|lbs?|quid|pounds?|dollars?|bucks?|euros?|pence|cents|pm|am|"
    r"percent|per cent|times|o'?clock|seaters?|berth|door|star"
)
_UNIT = re.compile(rf"[\s-]?(?P<unit>{_UNITS})\b", re.IGNORECASE)
_LABEL = re.compile(
    r"\s+(?!of\b|us\b|in\b|and\b|at\b|on\b|for\b|with\b|are\b|men\b|women\b|children\b|people\b|ppl\b|pax\b|"
    r"folk\b|staff\b|team\b|person\b|adult\b|guest\b)[a-z]{3,}(?<!s)\b",
    re.IGNORECASE,
)


PEOPLE = re.compile(
    r"people|person|guest|adult|seat|place|spot|cover|passenger|visitor|attend|participant|player|student|trainee|"
    r"how many (?:of you|come|will)",
    re.IGNORECASE,
)
"""Words in the description of a slot that counts people."""

_THINGS = re.compile(
    r"\s+(?:\w+ )?(?:cars?|vans?|dogs?|cats?|pets?|bikes?|bags?|suitcases?|cases|boxes|sandwiches|trays?|wraps?|"
    r"platters?|portions?|plates?|pizzas?|salads?|rolls?|cabins?|rooms?|trips?|crossings?|dishes|courses)\b",
    re.IGNORECASE,
)
"""Nouns for counted things that are not people."""


def is_measure(text: str, each: Span, context: str = "") -> bool:
    """Whether a number measures, labels or counts something other than the slot: "5 mins", "the 1420 boat".

    Args:
        text: The message.
        each: The number.
        context: Name, description and question of the slot; a unit named there counts: "How many nights?".
    """
    unit = _UNIT.match(text, each.end)
    if unit is not None:
        return re.search(rf"\b{unit['unit'].rstrip('s')}", context, re.IGNORECASE) is None
    if PEOPLE.search(context) and _THINGS.match(text, each.end):
        return True
    the = re.search(r"\bthe\s+$", text[: each.start], re.IGNORECASE)
    return the is not None and each.value > 1 and _LABEL.match(text, each.end) is not None


def _with_hundredths(text: str, spans: list[Span]) -> list[Span]:
    """Join amounts in words with their hundredths: "twelve fifty" is 12.50."""
    amounts: list[Span] = []
    for each in spans:
        last = amounts[-1] if amounts else each
        adjoins = last is not each and not text[last.end : each.start].strip(" -")
        spoken = not any(map(str.isdigit, text[last.start : each.end]))
        if (
            adjoins
            and spoken
            and each.value % 1 == 0
            and 10 <= each.value < 100 <= 10_000 // max(1, last.value)
        ):
            amounts.pop()
            each = Span(last.start, each.end, last.value + each.value / 100)
        amounts.append(each)
    return amounts


def _foreign_numbers(text: str, at: ReadingContext) -> list[Span]:
    """Return numbers in another language within an English conversation."""
    matches = [
        Span(*match.span(), Decimal(SO_MANY_TOGETHER[match[1].lower()])) for match in TOGETHER.finditer(text)
    ]
    language = foreign_language(text, "numbers")
    return matches if matches or language is None else [*_in_words(text, at._replace(locale=language))]


def plain(number: Decimal) -> int | float:
    """Convert a decimal to a JSON number."""
    return int(number) if number == number.to_integral_value() else float(number)


def _in_digits(text: str, at: ReadingContext, *, spaced: bool, money: bool) -> Iterator[Span]:
    point = "." if at.locale == "en" else _symbol(at.locale, "point")
    spaced = spaced or (at.locale != "en" and _symbol(at.locale, "group") in ("\u202f", "\u00a0", " "))
    pattern = (_CLOSE_SPACED if spaced else _CLOSE) if money else (_SPACED if spaced else _DIGITS)
    for match in pattern.finditer(text):
        body, scale = match["body"], (1000 if match["more"] else 1) * (-1 if match["sign"] else 1)
        if sum(sign.isdigit() for sign in body) <= _LONGEST:
            yield Span(match.start(), match.end(), Decimal(_plain_digits(body, point, money=money)) * scale)


def _plain_digits(body: str, point: str, *, money: bool) -> str:
    """Return the digits with a decimal point, if there are decimals."""
    signs = re.findall(r"\D", body)
    digits = re.sub(r"\D", "", body)
    if not signs:
        return digits
    last = signs[-1]
    decimals = len(body) - body.rindex(last) - 1
    if len(set(signs)) > 1:
        return f"{digits[:-decimals]}.{digits[-decimals:]}"
    parts_thousands = len(signs) > 1 or last not in ".,"
    if not parts_thousands and decimals == 3 and not body.startswith(("0", last)):
        parts_thousands = money or last != point
    return digits if parts_thousands else f"{digits[:-decimals] or '0'}.{digits[-decimals:]}"


def _in_words(text: str, at: ReadingContext) -> Iterator[Span]:
    language = at.locale.replace("_", "-").split("-")[0].lower()
    if language not in _LANGUAGES:
        return
    tokens, end = [*WORD.finditer(text)], 0
    for place, first in enumerate(tokens):
        if first.start() < end or word_value(first.group().lower(), language) is None:
            continue
        if language == "en" and _is_pronoun(tokens, place):
            continue
        span = _longest(text, first.start(), tokens[place : place + _LONGEST_NUMBER], language)
        if span is not None:
            end = span.end
            yield span


def _longest(text: str, start: int, tokens: Sequence[re.Match[str]], language: str) -> Span | None:
    """Return the longest number that starts at the first of these words."""
    for last in reversed(tokens):
        value = word_value(text[start : last.end()].lower().replace("-", " "), language)
        if value is not None:
            return Span(start, last.end(), Decimal(value))
    return None


def _is_pronoun(tokens: list[re.Match[str]], place: int) -> bool:
    """Whether "one" is a pronoun: "the blue one", "one of them", "if you still have one"."""
    if tokens[place].group().lower() != "one":
        return False
    if any(word.group().lower() == "if" for word in tokens[max(0, place - 4) : place]):
        return True
    before = tokens[place - 1].group().lower() if place else ""
    after = tokens[place + 1].group().lower() if place + 1 < len(tokens) else ""
    return before in _BEFORE_ONE or after in _AFTER_ONE


@lru_cache(maxsize=64)
def _symbol(locale: str, name: str) -> str:
    from babel.core import UnknownLocaleError
    from babel.numbers import get_decimal_symbol, get_group_symbol

    try:
        return (get_decimal_symbol if name == "point" else get_group_symbol)(locale.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        return "." if name == "point" else ","


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
"""Amounts also have short forms; a single letter follows without a space ("$1.5m")."""

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
_DIGIT_WORDS = {
    "zero": "0", "oh": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9",
}  # fmt: skip
_POINT = re.compile(rf"\s+point((?:\s+(?:{'|'.join(_DIGIT_WORDS)}|\d))+)\b", re.IGNORECASE)
_REST = re.compile(r"(?:\s+(?:and|'?n'?|&|\+))?\s+", re.IGNORECASE)
_BARE_SCALE = re.compile(r"\b(?:hundred|thousand)$", re.IGNORECASE)
_CONJUNCTION = re.compile(r"\s+(?:and|'?n'?|&|\+)\s+(?:a\s+)?", re.IGNORECASE)
_WRITTEN_REST = re.compile(r"\d{2,3}(?![\w%:]|[.,]\d|\s?(?:cents|pence|p)\b)", re.IGNORECASE)
_LONGEST_REST = 6
"""Most words after a scale: "nine hundred and ninety nine thousand"."""


def scaled(text: str, spans: Iterable[Span], *, money: bool) -> Iterator[Span]:
    """Yield the numbers of a text with their scale words, in order.

    Args:
        text: The text.
        spans: Numbers in digits and in words.
        money: Whether short forms of amounts count: "3m", "2 mil".
    """
    position, results = 0, list[Span]()
    for base, vague in sorted([*((each, False) for each in spans), *_bases(text)]):
        if base.start >= position:
            span = _with_scales(text, base, money=money)
            position = span.end
            if not vague:
                results.append(span)
    pairs = enumerate(itertools.pairwise(results))
    parts = {place for place, (one, other) in pairs if money and _is_joined(text, one, other)}
    yield from (each for place, each in enumerate(results) if not {place, place - 1} & parts)


def _is_joined(text: str, one: Span, other: Span) -> bool:
    """Whether two amounts in words are one that could not be parsed as a whole: "hundred and odd n fifty"."""
    words = not any(map(str.isdigit, text[one.start : other.end]))
    return words and _CONJUNCTION.fullmatch(text, one.end, other.start) is not None


def _bases(text: str) -> Iterator[tuple[Span, bool]]:
    """Yield factors before a scale that are not numbers ("half a", "a couple of"), and whether they are vague."""
    for match in _BASE.finditer(text):
        value = Decimal(2 if match["two"] or match["alone"] else 1)
        if match["part"]:
            part = re.sub(r"^(?:a|one)\s+", "", match["part"].lower()).replace("-", " ")
            value = _FRACTIONS[part]
        yield Span(match.start(), match.end(), value), bool(match["vague"])


def _with_scales(text: str, base: Span, *, money: bool) -> Span:
    """Extend a number by its decimals, fractions and scales."""
    end, part = base.end, Decimal(base.value)
    if match := _POINT.match(text, end):
        words = match[1].lower().split()
        digits = "".join(word if word.isdigit() else _DIGIT_WORDS[word] for word in words)
        end, part = match.end(), part + Decimal(f"0.{digits}")
    total, part, end = Decimal(0), *_with_fraction(text, end, part, Decimal(1))
    pattern = _SCALE_OF_MONEY if money else _SCALE
    if (bare := _BARE_SCALE.search(text[base.start : end])) is not None:
        scale = Decimal(_SCALES[bare[0].lower()])
        rest = _rest(text, end, scale)
        part, end = (part, end) if rest is None else (part + rest.value, rest.end)
    # The base includes the space before its scale.
    while match := pattern.match(text, end):
        scale = Decimal(_SCALES[match[match.lastindex or 1].lower()])
        part, end = part * scale, match.end()
        part, end = _with_fraction(text, end, part, scale)
        if scale >= 1000:
            total, part = total + part, Decimal(0)
        rest = _rest(text, end, scale)
        if rest is not None:
            part, end = part + rest.value, rest.end
    return Span(base.start, end, total + part)


def _with_fraction(text: str, end: int, value: Decimal, scale: Decimal) -> tuple[Decimal, int]:
    match = _AND_FRACTION.match(text, end)
    return (value, end) if match is None else (value + _FRACTIONS[match[1].lower()] * scale, match.end())


def _rest(text: str, end: int, scale: Decimal) -> Span | None:
    """Return the number after a scale and smaller than it: the fifty of "3 hundred and fifty"."""
    gap = _REST.match(text, end)
    if gap is None or scale < 100:
        return None
    if digits := _WRITTEN_REST.match(text, gap.end()):
        fits = len(digits[0]) == (2 if scale == 100 else 3)
        return Span(gap.end(), digits.end(), Decimal(digits[0])) if fits else None
    words = [*itertools.islice(WORD.finditer(text, gap.end()), _LONGEST_REST)]
    while words and words[0].start() == gap.end():
        span = _longest(text, gap.end(), words, "en")
        if span is None or 0 < span.value < scale:
            return span
        words = [word for word in words if word.end() < span.end]
    return None


@lru_cache(maxsize=4096)
def word_value(text: str, language: str) -> int | None:
    """Return the whole number that a text is in words; None if it is not a number."""
    from text_to_num import text2num

    if text.endswith((" and", " y", " et", " e", " und", " en", " i")):
        return None
    try:
        return int(text2num(text, language))
    except (ValueError, OverflowError):
        return None
