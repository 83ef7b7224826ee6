"""``email``: addresses of electronic mail."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.language import Found, is_bare, is_english, meant, said_digits
from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import ANYWHERE, Ambiguous, ReadingContext, Slot, pattern_match, slot_type

_EMAIL = re.compile(r"[\w+-]+(?:\.[\w+-]+)*@(?:[^\W_](?:[\w-]*[^\W_])?\.)+[^\W\d_]{2,}")
_SIGNS = {
    "dot": ".", "point": ".", "period": ".", "full stop": ".", "underscore": "_", "under score": "_", "dash": "-",
    "hyphen": "-", "minus": "-", "plus": "+",
}  # fmt: skip
_SIGN = "|".join(_SIGNS)
_PART = rf"(?:(?:[a-z0-9] )+[a-z0-9](?!\w)|(?!(?:{_SIGN}|at)\b)[a-z0-9][\w+-]*(?: \d{{2,}}(?= at ))?)"
"""A part of an address: a word, or letters that are read out one by one."""

_JOINED = rf"{_PART}(?:(?:\s+(?:{_SIGN})\s+|\.){_PART})*"
_SPOKEN = re.compile(
    rf"\b({_JOINED})(?:\s+at\s+|\s*[(\[]\s*at\s*[)\]]\s*)"
    rf"({_JOINED}(?:\s+(?:dot|point|period)\s+|\.)(?:[a-z]{{2,}}|[a-z](?: [a-z])+))\b",
    re.IGNORECASE,
)
_SAID_SIGN = re.compile(rf"\s+({_SIGN})\s+", re.IGNORECASE)
_OF_IT = ("email", "e-mail", "mail", "address", "work", "private", "down", "wrote", "he", "she", "did")


@slot_type("email")
class Email(Ambiguous, TextType):
    """An address in small letters."""

    example = "ann@example.org"
    example_shown = False

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The address of a text that says little else; as it was written where the slot's own pattern takes it."""
        own = pattern_match(slot, text)
        if own is not None:
            return [own]
        text = _written(text) if is_english(at.locale) else text
        found = _addresses(text)
        return meant(text, found) if found and is_bare(text, found, at.locale, _OF_IT) else []

    def occurrences(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """All addresses but those that are denied."""
        text = _written(text) if is_english(at.locale) else text
        return meant(text, _addresses(text))

    def normal(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """Small letters, without what is written around an address."""
        if not isinstance(value, str) or (slot.pattern and pattern_match(slot, value) == value):
            return value
        bare = value.strip().strip("<>\"'").removeprefix("mailto:")
        read = self.read(slot, bare, at)
        return value if read is None else read

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only addresses will do, and what the slot's own pattern takes."""
        if slot.pattern and isinstance(value, str):
            return ""
        normal = self.normal(slot, value, at)
        fits = isinstance(normal, str) and _EMAIL.fullmatch(normal) and len(normal) <= 254
        return "" if fits else f"{value!r} is no email address"

    def attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """Without an @, written or said, nothing was tried."""
        return re.search(r"@|\bat\b|\bdot\b", text, re.IGNORECASE) is not None and super().attempt(
            slot, text, at
        )

    def verbatim(self, value: Any) -> list[str]:
        """The address itself."""
        return [value] if isinstance(value, str) else []


def _addresses(text: str) -> list[Found]:
    return [
        Found(match.start(), match.end(), match.group().lower())
        for match in _EMAIL.finditer(text)
        if text[match.start() - 1 : match.start()] != "." and text[match.end() : match.end() + 1] != "@"
    ]


def _written(text: str) -> str:
    """With addresses that are read out as they are written: "ann underscore lee at example dot org"."""
    return _SPOKEN.sub(lambda found: f"{_closed(found[1])}@{_closed(found[2])}", said_digits(text))


def _closed(text: str) -> str:
    """A part that is read out, with its signs and without spaces: "l i a plus work" is "lia+work"."""
    return _SAID_SIGN.sub(lambda sign: _SIGNS[sign[1].lower()], text).replace(" ", "")
