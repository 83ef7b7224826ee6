"""``number``: whole numbers and decimals."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, SlotType, pattern_match, slot_type
from jazzmine_dspy.models.text import plain


@slot_type("number")
class Number(SlotType):
    """A number, written in digits."""

    example = "3"
    example_shown = False
    ranged = True

    def schema(self, slot: Slot) -> dict[str, Any]:
        """A JSON number."""
        return {"type": "number"}

    def read(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        """Digits alone, with a decimal point or without."""
        said = plain(text)
        if re.fullmatch(r"\d{1,18}(?:\.\d{1,18})?", said):
            return float(said) if "." in said else int(said)
        return pattern_match(slot, text)

    def misfit(self, slot: Slot, value: Any) -> str:
        """Labelled values are numbers."""
        return "" if isinstance(value, int | float) and not isinstance(value, bool) else "a number"
