"""A slot's own pattern: what of a message matches it, in whichever letters and digits that is written."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Protocol

from jazzmine_dspy.models.dictation import dictated
from jazzmine_dspy.models.phrases import Found, meant, said_digits

_ORDINARY = ("hello", "it arrived broken", "where is my parcel", "cancel", "what does it cost")
"""Messages that are nobody's id."""

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
    fitting = (form for form in _forms(bare) if re.fullmatch(slot.pattern, form))
    return next(fitting, None) or _with_separators(slot.pattern, bare)


def pattern_value(slot: Patterned, value: str) -> str | None:
    """What a value is in the form of the slot's own pattern: "ua 318" is "UA318", "order 4471" is "4471"."""
    if not slot.pattern or re.fullmatch(slot.pattern, value):
        return value
    whole = next((form for form in _forms(value.strip(" .!#\n")) if re.fullmatch(slot.pattern, form)), None)
    whole = whole or _with_separators(slot.pattern, value.strip(" .!#\n"))
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
    alone = re.compile(rf"(?<![\w.])(?:{slot.pattern})(?![\w]|[.,]\d)")
    for said in _readings(text):
        found = [Found(*match.span(), match.group()) for match in alone.finditer(said)]
        if said is not text:
            # Words that become a value only as capitals or by being read out have to hold a digit.
            found = [each for each in found if any(sign.isdigit() for sign in each.value)]
        if found:
            return said, found
    return text, []


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


def _forms(text: str) -> Iterator[str]:
    """A text, and the ways in which the same may be written."""
    close = re.sub(r"[\s-]+", "", text)
    read_out, spelt = said_digits(text), dictated(text)
    yield from dict.fromkeys(
        (
            text,
            text.upper(),
            text.lower(),
            close,
            close.upper(),
            read_out,
            re.sub(r"[\s-]+", "", read_out).upper(),
            spelt,
            spelt.upper(),
        )
    )


_SEPARATOR = re.compile(r"(?<![\\\[])[-/](?![^\[]*\])")


def _with_separators(pattern: str, text: str) -> str | None:
    """A text in the form of a pattern whose separators, or whose first letters, it leaves out.

    Example:
        >>> _with_separators(r"WS-\\d{4}", "ws 2041"), _with_separators(r"WS-\\d{4}", "2041")
        ('WS-2041', 'WS-2041')
    """
    parts = _SEPARATOR.split(pattern)
    if len(parts) == 1 or re.search(r"[(|]", pattern):
        return None
    between = _SEPARATOR.findall(pattern)
    if parts[0].isalpha() and re.fullmatch(rf"(?:{parts[0]})?[\s/-]*\d.*", text, re.IGNORECASE):
        text = re.sub(rf"^(?!{parts[0]})", parts[0], text, flags=re.IGNORECASE)
    found = re.fullmatch(r"[\s/-]*".join(f"({part})" for part in parts), text, re.IGNORECASE)
    if found is None:
        return None
    whole = found[1] + "".join(sign + part for sign, part in zip(between, found.groups()[1:], strict=True))
    return next((form for form in (whole, whole.upper(), whole.lower()) if re.fullmatch(pattern, form)), None)


@functools.lru_cache(maxsize=256)
def _takes_anything(pattern: str) -> bool:
    return any(re.fullmatch(pattern, form) for text in _ORDINARY for form in (text, text.upper()))


def breaks_pattern(slot: Patterned, value: Any) -> bool:
    """Whether the slot has a pattern of its own that the value, as text, does not match."""
    return slot.pattern is not None and re.fullmatch(slot.pattern, str(value)) is None
