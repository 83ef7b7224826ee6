"""A slot type: British postcodes."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models import ReadingContext, Slot, TextType, slot_type

ANYWHERE = ReadingContext()
_POSTCODE = re.compile(r"\b([a-z]{1,2}\d[a-z\d]?)\s*(\d[a-z]{2})\b", re.IGNORECASE)


@slot_type("postcode")
class Postcode(TextType):
    """A postcode in capitals, with one space before the last three characters."""

    example = "SW1A 1AA"

    def schema(self, slot: Slot) -> dict[str, Any]:
        return {"type": "string", "minLength": 5, "maxLength": 9}

    def read(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        bare = text.strip(" .!\n")
        return self.normal(slot, bare) if _POSTCODE.fullmatch(bare) else None

    def occurrences(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        return [self.normal(slot, match.group()) for match in _POSTCODE.finditer(text)]

    def normal(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        match = _POSTCODE.fullmatch(value.strip()) if isinstance(value, str) else None
        return f"{match[1]} {match[2]}".upper() if match else value

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        known = isinstance(value, str) and _POSTCODE.fullmatch(value)
        return "" if known else f"{value!r} is no postcode"
