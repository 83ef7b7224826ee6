"""``email``: addresses of electronic mail."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, pattern_match, slot_type

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


@slot_type("email")
class Email(TextType):
    """An address in small letters."""

    example = "ann@example.org"
    example_shown = False

    def read(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        """An address alone; as it was written where the slot's own pattern takes it."""
        own = pattern_match(slot, text)
        bare = text.strip(" .!\n")
        return own if own is not None else bare.lower() if _EMAIL.fullmatch(bare) else None

    def occurrences(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """All addresses."""
        return [match.group().lower().rstrip(".") for match in _EMAIL.finditer(text)]

    def verbatim(self, value: Any) -> list[str]:
        """The address itself."""
        return [value] if isinstance(value, str) else []
