"""``email``: addresses of electronic mail."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.phrases import Found, is_bare, is_english, meant
from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import ANYWHERE, Ambiguous, ReadingContext, Slot, pattern_match, slot_type

_EMAIL = re.compile(r"[\w+-]+(?:\.[\w+-]+)*@(?:[^\W_](?:[\w-]*[^\W_])?\.)+[^\W\d_]{2,}")
_PART = r"[a-z0-9][\w+-]*"
_SPOKEN = re.compile(
    rf"\b({_PART}(?:(?:\s+dot\s+|\.){_PART})*)\s+at\s+({_PART}(?:(?:\s+dot\s+|\.){_PART})*(?:\s+dot\s+|\.)[a-z]{{2,}})\b",
    re.IGNORECASE,
)
_DOT = re.compile(r"\s+dot\s+", re.IGNORECASE)
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
    """With addresses that are read out as they are written: "ann at example dot org"."""
    return _SPOKEN.sub(lambda found: f"{_DOT.sub('.', found[1])}@{_DOT.sub('.', found[2])}", text)
