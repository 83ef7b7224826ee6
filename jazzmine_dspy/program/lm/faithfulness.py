"""Whether a language model's rewrite keeps to the message and its context: names, numbers, negations and quotes."""

from __future__ import annotations

import calendar
import datetime as dt
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, cast

from jazzmine_dspy.models import FlowRegistry, Slot, Turn, reading_context
from jazzmine_dspy.models.agreement import language_of
from jazzmine_dspy.models.base import thaw
from jazzmine_dspy.models.language import is_english, words
from jazzmine_dspy.models.slot_types.calendar.english import SMALL_NUMBERS, normalize_english
from jazzmine_dspy.models.slot_types.calendar.types import CalendarType
from jazzmine_dspy.models.slot_types.numbers import numbers as numbers_in
from jazzmine_dspy.models.slot_types.numbers import plain as plain_number
from jazzmine_dspy.models.slots import ANYWHERE
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.heads.feeling.sentiment import is_foreign
from jazzmine_dspy.program.lm.names import (
    CORRECTION,
    LIGHT,
    OTHER_WAY,
    REFUSED,
    name_words,
    names_in,
    own_names,
    ways_of,
    words_by_name,
)
from jazzmine_dspy.program.negation import changed_negation

_NUMBER = re.compile(r"[^\s@\"'<>()]{1,64}@[\w.-]+\w|(?<![^\W_])(?:[^\W\d_]{1,4}-?)?\d+(?:[.,:/-]?\w*\d\w*)*")
_ORDINAL = re.compile(r"\bthe\s+(\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_QUOTE = re.compile(
    r"\"([^\"\n]{2,})\"|\u201c([^\u201d\n]{2,})\u201d|\u00ab([^\u00bb\n]{2,})\u00bb|(?<!\w)'([^'\n]{2,})'(?!\w)"
)
_LISTED = re.compile(r"(?<!\w)\(?(\d{1,2})[).:](?!\d)")
_PRONOUN = re.compile(r"(?<!for )(?<!only )(?<!just )(?<!order )(?<!number )(?<!option )\b1$")
"""A number that may stand for "one": "the other 1"."""

_NUMBERS = {word: str(number) for number, word in enumerate([*SMALL_NUMBERS, "twenty"])}
_MEANT = {
    "first": "1", "second": "2", "third": "3", "fourth": "4", "fifth": "5", "once": "1", "twice": "2", "both": "2",
    "couple": "2", "pair": "2", "dozen": "12", "noon": "12", "midday": "12", "midnight": "0", "fortnight": "2",
    "double": "2", "triple": "3", "half": "30", "tenner": "10", "fiver": "5", "single": "1",
}  # fmt: skip
"""Words of a message for which a rewrite may have a number."""
_RELATIVE = re.compile(
    r"\b(?:to(?:day|night|morrow)|this (?:afternoon|evening)|yesterday|weekend|weeks?|months?|fortnight|now|days?|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    re.IGNORECASE,
)
_MONTHS = {name[:3].casefold(): number for number, name in enumerate(calendar.month_name) if name}

_CALENDAR = (Slot(name="day", type="date"), Slot(name="time", type="time"))
_NEAR = 15
"""Days around the turn's date that a word such as "friday" may stand for."""

_ONE_DAY = {
    "now": 0,
    "this afternoon": 0,
    "this evening": 0,
    "today": 0,
    "tonight": 0,
    "tomorrow": 1,
    "yesterday": -1,
}
"""Words for one day, with the days that lie between."""

_FORM = words("a an the is are am please")
"""Words in which two forms of one sentence may differ."""

_CURRENCY = re.compile("[$\u00a2\u00a3\u00a5\u20a0-\u20cf]")

_LONG, _PART = 7, 3
"""Signs from which on a number may be written in parts, as telephone numbers and dates are, and of its least part."""

_SPELT = re.compile(
    r"\b(?:zero|nought|oh|one|two|three|four|five|six|seven|eight|nine|double|triple|(?:thir|four|fif|six|seven|eigh|nine)"
    r"teen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred)\b",
    re.IGNORECASE,
)
_SPELT_LEAST = 2
"""Number words, or single digits, from which on they may be one number that is spelt out."""

_ALIKE, _FEW = 5, 3
"""Letters in which two forms of one word agree, and words up to which a message may begin each with a capital."""


def unfaithful(rewrite: str, turn: Turn, flows: FlowRegistry) -> str:
    """Why a rewrite is refused; an empty text where it is faithful.

    Names, numbers, ids, quotations and negations of the message have to be in the rewrite, unless the message itself
    corrects them. The rewrite brings no name, number, date or quotation that neither message nor context has. Context
    is what the turn shows. Ordinary words may change.

    Example:
        >>> from jazzmine_dspy.models import FlowRegistry, Slot, Turn, reading_context
        >>> turn = Turn(text="and 5519?", history=[{"role": "user", "text": "where is order 4471?"}])
        >>> unfaithful("When will order 5519 arrive?", turn, FlowRegistry())
        ''
        >>> unfaithful("Where is order 4471?", turn, FlowRegistry())
        'it drops a number of the message'
        >>> unfaithful("Where is order 5519 for Ann?", turn, FlowRegistry())
        'it brings a name that neither the message nor its context has'
    """
    message, context = turn.text, "\n".join(_context(turn))
    source = f"{message}\n{context}"
    told = f" {_quoted(rewrite)} "
    if any(not re.search(rf"\W{re.escape(quote)}\W", told) for quote in _quotes(message)):
        return "it drops a quoted text of the message"
    if any(quote not in _quoted(source) for quote in _quotes(rewrite)):
        return "it brings a quoted text that neither the message nor its context has"
    numbers = _numbers(rewrite)
    newest = next((each.text for each in reversed(turn.history) if each.role == "assistant"), "")
    # The assistant may have numbered a list: "(1) pay it or (2) dispute it".
    listed = set(_LISTED.findall(newest))
    if _dropped(message, numbers | listed | _dated(rewrite)):
        return "it drops a number of the message"
    money, paid = (set(_CURRENCY.findall(text)) for text in (message, rewrite))
    if paid and money - paid:
        return "it changes a currency of the message"
    if _swaps(message, rewrite):
        return "it changes what the numbers or names of the message belong to"
    said, times = _calendar(turn, flows)
    days = [*_near_days(turn, message), *_days(source), *said]
    known = (
        _numbers(source)
        | times
        | _counts(source)
        | {
            part
            for day in days
            for part in (*_numbers(day.isoformat()), str(day.day), str(day.month), str(day.year))
        }
    )
    known |= {_MEANT[word] for word in _WORD.findall(message.casefold()) if word in _MEANT}
    spelt = _digits(message) if len(_SPELT.findall(message)) < _SPELT_LEAST else None
    # A date or a telephone number is brought whole, but for its country.
    long = {
        number: [one for one in known if len(one) >= max(_PART, len(number) - _PART)] for number in numbers
    }
    strange = [number for number in numbers if number not in known and not _is_part(number, long[number])]
    # "one" may stand for a thing.
    strange = [number for number in strange if number != "1" or re.search(r"(?<!\d)1(?!\d)", rewrite)]
    # "paul.h" may be "paul.h@inbox.com" if the context has such an address.
    parts = {part.strip(".") for part in re.split(r"[^\w.+-]+", source.casefold())}
    strange = [number for number in strange if "@" not in number or not {*number.split("@")} <= parts]
    if spelt is not None and any(len(number) < _SPELT_LEAST or number not in spelt for number in strange):
        return "it brings a number that neither the message nor its context has"
    if _scripts(rewrite) - _scripts(source):
        return "it is in a script that neither the message nor its context has"
    if is_foreign(rewrite) and not is_foreign(message) and len(_WORD.findall(message)) >= _FEW:
        return "it is in another language than the message"
    if not is_english(turn.locale) or is_foreign(rewrite):
        return ""
    if language_of(message) == "en":
        if reason := changed_negation(message, rewrite, context, turn.question, asked=bool(turn.clarifying)):
            return reason
        if any(name not in name_words(rewrite) for name in own_names(message)):
            return "it drops a name of the message"
    dates = " ".join(f"{day:%A %B}" for day in days)
    if names_in(rewrite) - name_words(f"{source}\n{dates}\n{flows.currency}"):
        return "it brings a name that neither the message nor its context has"
    return ""


def _calendar(turn: Turn, flows: FlowRegistry) -> tuple[list[dt.date], set[str]]:
    """The days and the times that a message names, in words too; a time at either half of the day."""
    at = reading_context(flows, turn.date, turn.locale)
    days, times = (
        [
            value
            for each in cast(CalendarType, slot.kind).readings(slot, normalize_english(turn.text), at)
            for value in each.values
        ]
        for slot in _CALENDAR
    )
    hours = {(int(value[:2]) + later) % 24: value[3:] for value in times for later in (0, 12)}
    clock = {f"{hour}:{minute}" for hour, minute in hours.items()} | {str(hour) for hour in hours}
    return [dt.date.fromisoformat(value) for value in days], clock


def _counts(text: str) -> set[str]:
    """The numbers of a text as figures: "a hundred and ten" is 110."""
    return {_bare(f"{plain_number(span.value)}") for span in numbers_in(text, ANYWHERE)}


def _dated(rewrite: str) -> set[str]:
    """The days of a rewrite as a message may write them: "13 March" is 13/3, 13/03, 3/13 or 03/13."""
    text = rewrite.casefold()
    days = re.findall(r"\b(\d{1,2})(?:st|nd|rd|th)? (?:of )?([a-z]{3,})", text)
    days += [(day, name) for name, day in re.findall(r"\b([a-z]{3,}) (\d{1,2})\b", text)]
    days = [(day, _MONTHS.get(name[:3])) for day, name in days]
    pairs = [(day, str(month)) for day, month in days if month]
    return {
        f"{a}{b}"
        for day, month in pairs
        for one in (day, day.zfill(2))
        for two in (month, month.zfill(2))
        for a, b in ((one, two), (two, one))
    }


def _swaps(message: str, rewrite: str) -> bool:
    """Whether numbers or names belong to other things in the rewrite: of "2 lamps and 3 kettles" it makes "3 lamps"."""
    if CORRECTION.search(message):
        return False
    counted, told = _counted(message), _counted(rewrite)
    numbers, things = ({pair[place] for pair in counted} for place in (0, 1))
    if any(pair not in counted and pair[0] in numbers and pair[1] in things for pair in told):
        return True
    ways, led = ways_of(message), ways_of(rewrite)
    if any((OTHER_WAY[way], name) in ways and (way, name) not in ways for way, name in led):
        return True
    said, rewritten = words_by_name(message, rewrite), words_by_name(rewrite, rewrite)
    return any(
        rewritten[name] & (theirs - mine) and not rewritten[name] & (mine - theirs)
        for name, mine in said.items()
        if name in rewritten
        for other, theirs in said.items()
        if name != other
    )


def _counted(text: str) -> set[tuple[str, str]]:
    """Numbers with the word of content after them."""
    found = re.findall(r"\b(\w+)\s+([^\W\d_]{4,})", text.casefold())
    pairs = {(_NUMBERS.get(number, number), word[:_ALIKE]) for number, word in found if word not in LIGHT}
    return {pair for pair in pairs if pair[0].isdigit()}


def says_the_same(rewrite: str, message: str) -> bool:
    """Whether a rewrite says no more and no less than the message, in whatever order and with whatever signs.

    Example:
        >>> says_the_same("Where is my order 4471?", "where's my order 4471"), says_the_same("Order 2.", "the 2nd one")
        (True, False)
    """
    return _all_words(rewrite) == _all_words(message) and _numbers(rewrite) == _numbers(message)


def _all_words(text: str) -> list[str]:
    said = (word.removesuffix("'s") for word in plain(text).split())
    return sorted(word for word in said if word not in _FORM)


def _quotes(text: str) -> list[str]:
    """What a text quotes."""
    return [_quoted(next(filter(None, groups))) for groups in _QUOTE.findall(text)]


def _quoted(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .,!?")


def _numbers(text: str) -> set[str]:
    """Numbers and ids, as they are compared: without signs between digits, and words up to twelve as digits."""
    text = unicodedata.normalize("NFKC", text).casefold()
    found = {_bare(match[0]) for match in _NUMBER.finditer(text)}
    return found | {_NUMBERS[word] for word in _WORD.findall(text) if word in _NUMBERS}


def _bare(number: str) -> str:
    number = re.sub(r"[.,:]00$", "", number)
    if re.fullmatch(r"\d{1,2}:\d\d", number):
        return number.lstrip("0")
    if re.fullmatch(r"\d+[.,]\d{1,2}", number):
        # Not without the sign: 12.50 is not 1250.
        return number.replace(",", ".").rstrip("0").rstrip(".")
    digits = number if "@" in number else re.sub(r"[^\w]", "", number)
    return re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "", digits)


def _is_part(number: str, known: Iterable[str]) -> bool:
    """Whether a number is another in another form ("4471" and "A-4471"), or one is a part of a long other."""
    return any(
        ((number.isdigit() or other.isdigit()) and _figures(number) == _figures(other))
        or (":" in number + other and _hour(number) == _hour(other))
        or (max(len(number), len(other)) >= _LONG and (number in other or other.lstrip("0") in number))
        for other in known
    )


def _figures(number: str) -> str:
    """Without letters."""
    return re.sub(r"[^\d.:@]", "", number)


def _hour(number: str) -> str:
    """An hour without signs: "9:30", "09.30" and "0930" are one."""
    hour, _, minute = re.sub(r"[:.]", ":", number).partition(":")
    return (hour + minute.ljust(2, "0") if minute else number).lstrip("0")


def _digits(number: str) -> str:
    return re.sub(r"\D", "", number)


def _dropped(message: str, told: set[str]) -> bool:
    """Whether a number of the message is missing, though the message does not take it back after it."""
    text = unicodedata.normalize("NFKC", message).casefold()
    spelt = "".join(re.findall(r"(?<![\w.,:])\d(?![\w]|[.,:]\d)", text))
    pointed = {match[1] for match in _ORDINAL.finditer(text)}
    for match in _NUMBER.finditer(text):
        number = _bare(match[0])
        if number in told or number in pointed:
            continue
        # Of a number without signs no part is left out: a telephone number.
        parts = [each for each in told if number in each or (each in number and each != number)]
        whole = not match[0].isdigit() or sum(map(len, parts)) >= len(number)
        if _is_part(number, told if whole else {each for each in told if each not in number}):
            continue
        if len(number) == 1 and any(_digits(each) in spelt for each in told if len(each) >= _SPELT_LEAST):
            continue
        if _PRONOUN.search(text[: match.end()]) and text[: match.start()].strip():
            continue
        # "table 2, no, 3": what is said after the correction counts.
        if not CORRECTION.search(text[match.end() :]) and not REFUSED.search(text[: match.start()][-40:]):
            return True
    return False


def _near_days(turn: Turn, message: str) -> list[dt.date]:
    """The days that a message may count from the turn's."""
    said = {match[0].casefold() for match in _RELATIVE.finditer(message)}
    if turn.date is None or not said:
        return []
    apart = {_ONE_DAY[word] for word in said} if said <= _ONE_DAY.keys() else range(-_NEAR, _NEAR + 1)
    return [turn.date + dt.timedelta(days=n) for n in apart]


def _days(text: str) -> Iterator[dt.date]:
    """The dates in normal form in a text."""
    for match in re.findall(r"\b\d{4}-\d\d-\d\d\b", text):
        with suppress(ValueError):
            yield dt.date.fromisoformat(match)


def _context(turn: Turn) -> Iterator[str]:
    """All texts that a rewrite may draw on besides the message; of the history what an open question asks last."""
    for message in turn.history if turn.confirming is None else turn.history[-1:]:
        yield from (message.text, message.enhanced or "")
    yield from (*turn.history_summaries, *turn.episode_summaries, *turn.explicit_context)
    for entity in turn.entities:
        yield from (entity.name, *entity.attributes)
    if turn.confirming is not None:
        yield from (turn.confirming.action, turn.confirming.flow)
    yield from _texts(thaw(turn.slots))
    yield from _texts(thaw(turn.paused_slots))
    yield from _texts(thaw(turn.user_attributes))
    yield from (turn.flow or "", turn.offering or "", *turn.paused, *turn.clarifying)


def _texts(data: Any) -> Iterator[str]:
    """The names and values of JSON data."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield str(name)
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)
    elif data is not None:
        yield str(data)


def _scripts(text: str) -> set[str]:
    return {
        unicodedata.name(sign, "").split(" ", 1)[0]
        for sign in text
        if sign.isalpha() and not unicodedata.name(sign, "").startswith(("MODIFIER", "MASCULINE", "FEMININE"))
    }
