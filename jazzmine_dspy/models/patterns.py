"""A slot's own pattern: what of a message matches it, in any spelling and with any separators.

No expression of a flow takes longer than a set time: Python's own ``re`` would block every other thread.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import regex

from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.language import LIGHT, Span, dictated, digits_from_words, intended_values

_ORDINARY = ("it arrived broken", "where is my parcel", "what does it cost")
_WORDS = ("hello", "cancel")
"""Messages that are nobody's id."""

_SHORT = ("1", "12", "a1")
"""Parts of ordinary messages that are too short for an id of its own."""

_LETTERS = 3
"""Letters that a part of a code may have, where the code is read out in parts."""

_LONGEST = 200
"""Characters of a text that may be one value."""

_FEW_WORDS = 6
"""Words of a value in which the one part that fits the pattern is what is meant."""


class Patterned(Protocol):
    """What may have a pattern: a slot."""

    @property
    def pattern(self) -> str | None:
        """The regular expression, or None."""


def pattern_match(slot: Patterned, text: str) -> str | None:
    """A whole text that matches the slot's own pattern, without the punctuation around it; otherwise None.

    Of a pattern that ordinary messages match as well, such as ``.+``, no text can be told to be a value.
    """
    bare = text.strip(" .!#\n")
    if not slot.pattern or len(bare) > _LONGEST or _takes(slot.pattern, _ORDINARY):
        return None
    # Where ordinary words match, only what holds a digit is a value.
    takes_words = _takes(slot.pattern, _WORDS)
    if takes_words and not _has_digit(digits_from_words(bare)):
        return None
    # The parts of one code, such as "ABC 123"; not "2 boxes" or "for 200".
    parts = re.split(r"[\s-]+", digits_from_words(bare))
    joined = not takes_words or all(
        not part.isalpha() or (len(part) <= _LETTERS and part.lower() not in LIGHT) for part in parts
    )
    fitting = (form for form in _forms(bare, joined=joined) if fullmatch(slot.pattern, form))
    value = next(fitting, None)
    # Letters alone become a code too easily: "can you" has the form of [A-Z]{3}-[A-Z]{3} without its separator.
    return with_separators(slot.pattern, bare) if value is None and _has_digit(bare) else value


def pattern_value(slot: Patterned, value: str) -> str | None:
    """What a value is in the form of the slot's own pattern: "ua 318" is "UA318", "order 4471" is "4471"."""
    if not slot.pattern or fullmatch(slot.pattern, value):
        return value
    bare = value.strip(" .!#\n")
    if len(bare) > _LONGEST:
        return None
    whole = next((form for form in _forms(bare) if fullmatch(slot.pattern, form)), None)
    whole = whole or with_separators(slot.pattern, bare)
    if whole is not None or len(value.split()) > _FEW_WORDS:
        return whole
    parts = pattern_matches(slot, value)
    return parts[0] if len(parts) == 1 else None


def pattern_matches(slot: Patterned, text: str) -> list[str]:
    """The parts of a text that match the slot's own pattern and stand alone, each once; not those that are denied."""
    form, spans = pattern_found(slot, text)
    return intended_values(form, spans)


def pattern_found(slot: Patterned, text: str) -> tuple[str, list[Span]]:
    """The same with the places of all of them, and the text in the form in which they were found."""
    if not slot.pattern or _takes(slot.pattern, _ORDINARY):
        return text, []
    words = _takes(slot.pattern, _WORDS)
    if words and any(fullmatch(slot.pattern, form) for form in _SHORT):
        # Nearly every word matches.
        return text, []
    alone = _alone(slot.pattern)
    has_digit = _has_digit(digits_from_words(text))
    for form in _readings(text) if has_digit else (text,):
        spans = [Span(start, end, form[start:end]) for start, end in search(alone, form)]
        if words or form is not text:
            # Words, and what becomes a value only as capitals or by being read out, have to hold a digit.
            spans = [each for each in spans if _has_digit(each.value)]
        if spans:
            return form, spans
    if not has_digit:
        return text, []
    return text, [Span(*each) for each in find_with_separators(slot.pattern, text) if _has_digit(each[2])]


@functools.lru_cache(maxsize=256)
def _alone(pattern: str) -> str:
    """The expression for what matches a pattern and stands alone in a text."""
    return rf"(?<![\w.])(?:{unanchored(pattern)})(?![\w]|[.,]\d)"


# The slots of a turn have several patterns.
@functools.lru_cache(maxsize=64)
def _readings(text: str) -> tuple[str, ...]:
    """A text, and the ways in which parts of it may be written, the surest first."""
    read_out, spelt = digits_from_words(text), dictated(text)
    grouped = _grouped(read_out)
    forms = [text, read_out, text.upper(), grouped, spelt, spelt.upper()]
    if len(text.split()) <= _FEW_WORDS and re.search(r"\d-\d", text) and not _DATE_LIKE.search(text):
        # Groups of digits that signs part are one: "ref is qd 71-002" has QD71002.
        forms.append(_grouped(re.sub(r"(?<=\d)-(?=\d)", "", text.upper())))
    return tuple(dict.fromkeys(forms))


_DATE_LIKE = re.compile(r"(?<!\d)(?:[0-2]?\d|3[01])-(?:[0-2]?\d|3[01])(?!\d)|\d[/.]\d")
"""A date, a price or a range of hours, whose numbers are no groups of one code."""


_GROUPS = re.compile(r"(?<![\w.,:/-])(?:(?![AI] )[A-Z]{1,3} )?\d+(?: \d+)*(?![\w:/-]|[.,]\d)")


def _grouped(text: str) -> str:
    """A text with digits that are written in groups in one, with capitals before them: "MB 204 118" is "MB204118"."""
    if len(re.findall(r"[a-z]{2,}", text)) > _FEW_WORDS:
        # In a sentence numbers beside each other are several.
        return text
    return _GROUPS.sub(lambda match: match.group().replace(" ", ""), text)


@functools.lru_cache(maxsize=256)
def asks_for_digits(pattern: str) -> bool:
    """Whether nothing without a digit matches a pattern, as far as its text tells."""
    return re.search(r"\\d|\[0-9", pattern) is not None and "|" not in pattern


def _forms(text: str, *, joined: bool = True) -> Iterator[str]:
    """A text, and the ways in which the same may be written; ``joined`` also leaves spaces and dashes out."""
    close = re.sub(r"[\s-]+", "", text)
    read_out, spelt = digits_from_words(text), dictated(text)
    close_forms = (close, close.upper(), re.sub(r"[\s-]+", "", read_out).upper()) if joined else ()
    yield from dict.fromkeys(
        (text, text.upper(), text.lower(), *close_forms, read_out, spelt, spelt.upper(), spelt.lower())
    )


@functools.lru_cache(maxsize=256)
def _takes(pattern: str, texts: tuple[str, ...]) -> bool:
    """Whether one of these matches, in small or in capital letters."""
    return any(fullmatch(pattern, form) for text in texts for form in (text, text.upper()))


def _has_digit(text: str) -> bool:
    return any(sign.isdigit() for sign in text)


def breaks_pattern(slot: Patterned, value: Any) -> bool:
    """Whether the slot has a pattern of its own that the value, as text, does not match."""
    return slot.pattern is not None and not fullmatch(slot.pattern, str(value))


_CLASS = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"
_ATOM = regex.compile(
    rf"({_CLASS}|(?P<group>\((?:{_CLASS}|(?&group)|[^()\\\[])*\))|[^\\\[\]()])((?:\{{\d+(?:,\d*)?\}}|[*+?])?[?+]?)",
    regex.DOTALL,
)
"""A part of a pattern, a group in brackets being one, and how often it repeats."""

_SIGNS = "-/ ._:#"
_GAP = r"[-/\s._:#]*"


class _Shape(NamedTuple):
    """A pattern as the bodies between its separators: one separator goes before each body, "" for none."""

    signs: tuple[str, ...]
    bodies: tuple[str, ...]
    prefix: str

    def expression(self) -> str:
        """The pattern with separators that may be others or absent."""
        return _GAP.join(f"(?P<b{number}>{body})" for number, body in enumerate(self.bodies))


def with_separators(pattern: str, text: str) -> str | None:
    """A text in the form of a pattern whose separators, or whose first letters, it leaves out.

    Where the text can be divided in two ways, it has no such form.

    Example:
        >>> with_separators(r"WS-\\d{4}", "ws 2041"), with_separators(r"A\\d{3}", "102")
        ('WS-2041', 'A102')
        >>> with_separators(r"\\d+-\\d+", "12 34"), with_separators(r"\\d+-\\d+", "1234")
        ('12-34', None)
    """
    shape = _shape(pattern)
    if shape is None:
        return None
    begin = text.lstrip(_SIGNS)
    for form in (begin, shape.prefix + begin) if shape.prefix else (begin,):
        if fullmatch(shape.expression(), form, ignore_case=True) and (
            whole := _written(shape, pattern, form)
        ):
            return whole
    return None


def find_with_separators(pattern: str, text: str) -> list[tuple[int, int, str]]:
    """The values within a message that begin with the letters of the pattern: "my ticket is ws 2041"."""
    shape = _shape(pattern)
    # One letter may be a word: "a 102".
    if shape is None or len(shape.prefix) < 2:
        return []
    spans = search(rf"(?<![\w.])(?:{shape.expression()})(?![\w]|[.,]\d)", text, ignore_case=True)
    values = [(start, end, _written(shape, pattern, text[start:end])) for start, end in spans]
    return [(start, end, value) for start, end, value in values if value is not None]


def unanchored(pattern: str) -> str:
    """A pattern without the anchors around it, which say nothing where it has to match a whole value."""
    end = pattern[:-1] if re.search(r"(?<!\\)(?:\\\\)*\$$", pattern) else pattern
    has_alternatives = any(atom in ("|", "") for atom, _ in _atoms(pattern))
    return pattern if has_alternatives else end.removeprefix("^")


def _written(shape: _Shape, pattern: str, text: str) -> str | None:
    match = expression(shape.expression(), ignore_case=True).fullmatch(text)
    if match is None:
        return None
    bodies = [match[f"b{number}"] for number in range(len(shape.bodies))]
    for number in range(1, len(bodies)):
        if match.start(f"b{number}") == match.end(f"b{number - 1}") and _ambiguous(shape, bodies, number):
            return None
    whole = "".join(sign + body for sign, body in zip(shape.signs, bodies, strict=True))
    return next((form for form in (whole, whole.upper(), whole.lower()) if fullmatch(pattern, form)), None)


def _ambiguous(shape: _Shape, bodies: list[str], number: int) -> bool:
    """Whether a sign may also belong to the other side of a separator that is absent."""
    left, right = bodies[number - 1], bodies[number]
    return any(
        fullmatch(shape.bodies[number - 1], one, ignore_case=True)
        and fullmatch(shape.bodies[number], other, ignore_case=True)
        for one, other in ((left[:-1], left[-1:] + right), (left + right[:1], right[1:]))
    )


@functools.lru_cache(maxsize=256)
def _shape(pattern: str) -> _Shape | None:
    """The shape of a pattern, or None: nothing to leave out, alternatives, or parts that refer to others.

    Letters before digits are a body of their own: "A" in ``A\\d{3}``.
    """
    if re.search(r"\\[1-9AZbBpP]|\(\?(?!:)", pattern):
        return None
    signs, bodies = [""], [""]
    for atom, repeated in _atoms(unanchored(pattern)):
        bare = atom.removeprefix("\\")
        if atom in ("|", ""):
            return None
        if bare in _SIGNS and atom != "." and repeated in ("", "?"):
            if bodies[-1]:
                signs.append("")
                bodies.append("")
            signs[-1] += "" if repeated else bare
        else:
            if len(bodies) == 1 and bodies[0].isalpha() and re.match(r"\\d|\[\d", atom):
                signs, bodies = [*signs, ""], [*bodies, ""]
            bodies[-1] += atom + repeated
    if (signs == [""] and len(bodies) == 1) or not bodies[-1]:
        return None
    prefix = bodies[0] if bodies[0].isalpha() and len(bodies) > 1 else ""
    return _Shape(tuple(signs), tuple(bodies), prefix)


def _atoms(pattern: str) -> Iterator[tuple[str, str]]:
    """The parts of a pattern, each with how often it repeats; a group in brackets is one; ("", "") ends what is odd."""
    place = 0
    while (match := _ATOM.match(pattern, place)) is not None:
        yield match[1], match[3]
        place = match.end()
    if place < len(pattern):
        yield "", ""


TIME_LIMIT = 0.1
"""Seconds of processor time of its own thread after which a search is not repeated. Python's own ``re`` has no limit,
and blocks every other thread."""


def check_expression(pattern: str) -> None:
    """Refuse what is no regular expression, also as a part of a longer one, where flags for the whole cannot stand.

    Raises:
        ValueError: it is none.
    """
    part = f"(?<!x)(?:{pattern})"
    try:
        # Both syntaxes: that of re is the narrower one, and the one that authors know.
        re.compile(part)
        expression(part)
    except (re.error, regex.error) as error:
        raise ValueError(f"not a regular expression: {error}") from error


def fullmatch(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    """Whether a whole text matches; False with a warning if that takes too long to tell."""
    return bool(search(pattern, text, ignore_case=ignore_case, whole=True))


@functools.lru_cache(maxsize=512)
def expression(pattern: str, *, ignore_case: bool = False) -> regex.Pattern[str]:
    """A compiled expression."""
    return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)


# A message meets the same pattern many times in one turn; a slow one costs its time once.
@functools.lru_cache(maxsize=1024)
def search(
    pattern: str, text: str, *, ignore_case: bool = False, whole: bool = False
) -> tuple[tuple[int, int], ...]:
    """Where parts of a text match, or its whole; nothing, with a warning, if that takes too long to tell."""
    compiled, limit, own = expression(pattern, ignore_case=ignore_case), TIME_LIMIT, 0.0
    # The library's limit counts all threads together. If the others used it up, search again with twice the limit; nine
    # tenths, since the two clocks differ a little.
    while own < 0.9 * TIME_LIMIT:
        began = time.thread_time()
        with suppress(TimeoutError):
            found = (
                [compiled.fullmatch(text, timeout=limit)] if whole else compiled.finditer(text, timeout=limit)
            )
            return tuple(match.span() for match in found if match is not None)
        own, limit = own + time.thread_time() - began, 2 * limit
    log.warning(
        "The pattern %r takes too long on a text of %d characters, which is taken for no value. Write it without "
        "repetitions inside repetitions.",
        pattern,
        len(text),
    )
    return ()
