"""A slot's own pattern: what of a message matches it, in whichever letters and digits that is written."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Protocol

from jazzmine_dspy.models.dictation import dictated
from jazzmine_dspy.models.expressions import fullmatch, search
from jazzmine_dspy.models.phrases import LIGHT, Found, meant, said_digits
from jazzmine_dspy.models.separators import find_with_separators, unanchored, with_separators

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
    if not slot.pattern or _takes_anything(slot.pattern):
        return None
    if len(bare) > _LONGEST or (_takes_words(slot.pattern) and not _has_digit(said_digits(bare))):
        return None
    joined = not _takes_words(slot.pattern) or _is_code(said_digits(bare))
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
    said, found = pattern_found(slot, text)
    return meant(said, found)


def pattern_found(slot: Patterned, text: str) -> tuple[str, list[Found]]:
    """The same with the places of all of them, and the text in the form in which they were found."""
    if not slot.pattern or _takes_anything(slot.pattern):
        return text, []
    words = _takes_words(slot.pattern)
    if words and any(fullmatch(slot.pattern, form) for form in _SHORT):
        # Nearly every word matches.
        return text, []
    alone = rf"(?<![\w.])(?:{unanchored(slot.pattern)})(?![\w]|[.,]\d)"
    for said in _readings(text):
        found = [Found(start, end, said[start:end]) for start, end in search(alone, said)]
        if words or said is not text:
            # Words, and what becomes a value only as capitals or by being read out, have to hold a digit.
            found = [each for each in found if _has_digit(each.value)]
        if found:
            return said, found
    return text, [Found(*each) for each in find_with_separators(slot.pattern, text) if _has_digit(each[2])]


def _readings(text: str) -> dict[str, None]:
    """A text, and the ways in which parts of it may be written, the surest first."""
    read_out = said_digits(text)
    return dict.fromkeys(
        (
            text,
            read_out,
            text.upper(),
            _grouped(read_out),
            dictated(text),
            dictated(text).upper(),
            *_joined(text),
        )
    )


def _joined(text: str) -> list[str]:
    """A short text in capitals, with groups of digits that signs part in one: "ref is qd 71-002" has QD71002."""
    if len(text.split()) > _FEW_WORDS or not re.search(r"\d[-/.]\d", text):
        return []
    return [_grouped(re.sub(r"(?<=\d)[-/.](?=\d)", "", text.upper()))]


_GROUPS = re.compile(r"(?<![\w.,:/-])(?:(?![AI] )[A-Z]{1,3} )?\d+(?: \d+)*(?![\w:/-]|[.,]\d)")


def _grouped(text: str) -> str:
    """A text with digits that are written in groups in one, with capitals before them: "MB 204 118" is "MB204118"."""
    if len(re.findall(r"[a-z]{2,}", text)) > _FEW_WORDS:
        # In a sentence numbers beside each other are several.
        return text
    return _GROUPS.sub(lambda found: found.group().replace(" ", ""), text)


@functools.lru_cache(maxsize=256)
def asks_for_digits(pattern: str) -> bool:
    """Whether nothing without a digit matches a pattern, as far as its text tells."""
    return re.search(r"\\d|\[0-9", pattern) is not None and "|" not in pattern


def _forms(text: str, *, joined: bool = True) -> Iterator[str]:
    """A text, and the ways in which the same may be written; ``joined`` also leaves spaces and dashes out."""
    close = re.sub(r"[\s-]+", "", text)
    read_out, spelt = said_digits(text), dictated(text)
    close_forms = (close, close.upper(), re.sub(r"[\s-]+", "", read_out).upper()) if joined else ()
    yield from dict.fromkeys(
        (text, text.upper(), text.lower(), *close_forms, read_out, spelt, spelt.upper(), spelt.lower())
    )


def _is_code(text: str) -> bool:
    """Whether the parts of a text may be those of one code: "ABC 123", not "2 boxes" or "for 200"."""
    parts = re.split(r"[\s-]+", text)
    return all(not part.isalpha() or (len(part) <= _LETTERS and part.lower() not in LIGHT) for part in parts)


@functools.lru_cache(maxsize=256)
def _takes_anything(pattern: str) -> bool:
    """Whether ordinary messages of several words match."""
    return any(fullmatch(pattern, form) for text in _ORDINARY for form in (text, text.upper()))


@functools.lru_cache(maxsize=256)
def _takes_words(pattern: str) -> bool:
    """Whether ordinary words match, so that only what holds a digit is a value."""
    return any(fullmatch(pattern, form) for word in _WORDS for form in (word, word.upper()))


def _has_digit(text: str) -> bool:
    return any(sign.isdigit() for sign in text)


def breaks_pattern(slot: Patterned, value: Any) -> bool:
    """Whether the slot has a pattern of its own that the value, as text, does not match."""
    return slot.pattern is not None and not fullmatch(slot.pattern, str(value))
