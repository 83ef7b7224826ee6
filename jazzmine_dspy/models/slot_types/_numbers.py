"""Numbers in a text, in digits as the locale writes them, and in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise

from jazzmine_dspy.models.other_languages import TOGETHER, number_language, together
from jazzmine_dspy.models.phrases import WORD, Found, is_english, words
from jazzmine_dspy.models.slot_types._scales import scaled, word_value
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
# Of money: a unit may stand close, as in "20EUR" and "50p".
_CLOSE = _digits(r".,'\u2019\u00a0\u202f", r"[\d_]")
_CLOSE_SPACED = _digits(r".,'\u2019\u00a0\u202f ", r"[\d_]")

_LONGEST = 18
"""Digits that a number may have; what has more is an id."""

_AFTER_ONE = {"of"}
_BEFORE_ONE = words(
    "the this that which each every another first second third last other any no some same right wrong "
    "new old only blue red small big bigger smaller cheaper"
)
_LANGUAGES = frozenset({"en", "fr", "es", "pt", "de", "it", "nl", "ru"})


def numbers(text: str, at: ReadingContext, *, spaced: bool = False, money: bool = False) -> list[Found]:
    """All numbers of a text in their order, as decimals.

    Args:
        spaced: Whether a space may part thousands.
        money: Whether three digits after a point or comma are thousands, whatever the locale.
    """
    found = [*_in_digits(text, at, spaced=spaced, money=money)]
    if len(text) < 2_000:
        taken = [(each.start, each.end) for each in found]
        found += [
            each
            for each in _in_words(text, at)
            if not any(each.start < end and start < each.end for start, end in taken)
        ]
        found.sort()
        if is_english(at.locale):
            found = [*_joined(text, found or _elsewhere(text, at), money=money)]
            found = _with_hundredths(text, found) if money else found
    return found


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
"""One more that is counted in no number: "6 adults and a baby"."""


def count_apart(text: str, found: Sequence[Found]) -> bool:
    """Whether two neighbours among the numbers of a text count different things."""
    apart = any(_APART.search(text[one.end : other.start]) for one, other in pairwise(found))
    return apart or any(_AND_ONE.search(text, each.end) for each in found)


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
"""What tells of a slot that it counts people."""

_THINGS = re.compile(
    r"\s+(?:\w+ )?(?:cars?|vans?|dogs?|cats?|pets?|bikes?|bags?|suitcases?|cases|boxes|sandwiches|trays?|wraps?|"
    r"platters?|portions?|plates?|pizzas?|salads?|rolls?|cabins?|rooms?|tickets?|trips?|crossings?|dishes|courses)\b",
    re.IGNORECASE,
)
"""Things that are counted, and are not people."""


def is_measure(text: str, each: Found, told: str = "") -> bool:
    """Whether a number measures or labels something, or counts things and no people: "5 mins", "the 1420 boat".

    Args:
        text: The message.
        each: The number.
        told: What tells of the slot; a unit that it names is counted: "How many nights?".
    """
    unit = _UNIT.match(text, each.end)
    if unit is not None:
        return re.search(rf"\b{unit['unit'].rstrip('s')}", told, re.IGNORECASE) is None
    if PEOPLE.search(told) and _THINGS.match(text, each.end):
        return True
    the = re.search(r"\bthe\s+$", text[: each.start], re.IGNORECASE)
    return the is not None and each.value > 1 and _LABEL.match(text, each.end) is not None


def _with_hundredths(text: str, found: list[Found]) -> list[Found]:
    """Amounts in words with their hundredths: "twelve fifty" is 12.50."""
    made: list[Found] = []
    for each in found:
        last = made[-1] if made else None
        spoken = last is not None and not any(map(str.isdigit, text[last.start : each.end]))
        if (
            last is not None
            and spoken
            and not text[last.end : each.start].strip(" -")
            and each.value == each.value.to_integral_value()
            and 10 <= each.value < 100 <= 10_000 // max(1, last.value)
        ):
            made[-1] = Found(last.start, each.end, last.value + each.value / 100)
        else:
            made.append(each)
    return made


def _elsewhere(text: str, at: ReadingContext) -> list[Found]:
    """Numbers that an English conversation says in another language."""
    found = [Found(*match.span(), Decimal(together(match))) for match in TOGETHER.finditer(text)]
    language = number_language(text)
    return found if found or language is None else [*_in_words(text, at._replace(locale=language))]


def plain(number: Decimal) -> int | float:
    """A JSON number."""
    return int(number) if number == number.to_integral_value() else float(number)


def _in_digits(text: str, at: ReadingContext, *, spaced: bool, money: bool) -> Iterator[Found]:
    point = _point(at.locale)
    spaced = spaced or _group(at.locale) == "\u00a0"
    pattern = (_CLOSE_SPACED if spaced else _CLOSE) if money else (_SPACED if spaced else _DIGITS)
    for match in pattern.finditer(text):
        body = match["body"]
        if sum(sign.isdigit() for sign in body) > _LONGEST:
            continue
        value = Decimal(_written(body, point, money=money))
        value *= 1000 if match["more"] else 1
        value *= -1 if match["sign"] else 1
        yield Found(match.start(), match.end(), value)


def _written(body: str, point: str, *, money: bool) -> str:
    """Digits with a point for the decimals, if there are any."""
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


def _in_words(text: str, at: ReadingContext) -> Iterator[Found]:
    language = at.locale.replace("_", "-").split("-")[0].lower()
    if language not in _LANGUAGES:
        return
    spoken = [*WORD.finditer(text)]
    english = language == "en"
    place = 0
    while place < len(spoken):
        if word_value(spoken[place].group().lower(), language) is None or (
            english and _points(spoken, place)
        ):
            place += 1
            continue
        for after in range(min(len(spoken), place + 10), place, -1):
            said = text[spoken[place].start() : spoken[after - 1].end()].lower()
            value = word_value(said.replace("-", " "), language)
            if value is not None:
                yield Found(spoken[place].start(), spoken[after - 1].end(), Decimal(value))
                place = after
                break
        else:
            place += 1


def _points(said: list[re.Match[str]], place: int) -> bool:
    """Whether "one" only points to something: "the blue one", "one of them"."""
    if said[place].group().lower() != "one":
        return False
    before = said[place - 1].group().lower() if place else ""
    after = said[place + 1].group().lower() if place + 1 < len(said) else ""
    return before in _BEFORE_ONE or after in _AFTER_ONE


_MINUS = re.compile(r"(?<!\w)(?:minus|negative)\s+$", re.IGNORECASE)


def _joined(text: str, found: list[Found], *, money: bool) -> Iterator[Found]:
    """English: signs, and numbers with their scales."""
    for each in scaled(text, found, money=money):
        before = _MINUS.search(text[: each.start])
        yield Found(before.start(), each.end, -each.value) if before and each.value > 0 else each


@lru_cache(maxsize=64)
def _symbol(locale: str, name: str) -> str:
    from babel.core import UnknownLocaleError
    from babel.numbers import get_decimal_symbol, get_group_symbol

    try:
        return (get_decimal_symbol if name == "point" else get_group_symbol)(locale.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        return "." if name == "point" else ","


def _point(locale: str) -> str:
    return "." if locale == "en" else _symbol(locale, "point")


def _group(locale: str) -> str:
    sign = "," if locale == "en" else _symbol(locale, "group")
    return "\u00a0" if sign in ("\u202f", "\u00a0", " ") else sign
