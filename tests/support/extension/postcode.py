"""A slot type: British postcodes."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models import ReadingContext, Slot, Span, TextType, slot_type

ANYWHERE = ReadingContext()
_POSTCODE = re.compile(r"\b([a-z]{1,2}\d[a-z\d]?)\s*(\d[a-z]{2})\b", re.IGNORECASE)


@slot_type("postcode")
class Postcode(TextType):
    """A postcode in capitals, with one space before the last three characters."""

    example = "SW1A 1AA"

    def schema(self, slot: Slot) -> dict[str, Any]:
        return {"type": "string", "minLength": 5, "maxLength": 9}

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        return [
            Span(match.start(), match.end(), f"{match[1]} {match[2]}".upper())
            for match in _POSTCODE.finditer(text)
        ]

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        known = isinstance(value, str) and _POSTCODE.fullmatch(value)
        return "" if known else f"{value!r} is no postcode"
