"""``list``: several texts."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, SlotType, pattern_match, slot_type


@slot_type("list")
class Listing(SlotType):
    """Up to five texts."""

    example = '["cup", "plate"]'
    example_shown = False
    ranged = True

    def schema(self, slot: Slot) -> dict[str, Any]:
        """A JSON list of at most five texts of at most 40 characters."""
        return {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 40}}

    def read(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        """The text, where it matches the slot's pattern."""
        return pattern_match(slot, text)

    def misfit(self, slot: Slot, value: Any) -> str:
        """Labelled values are lists."""
        return "" if isinstance(value, list) else "a list"

    def verbatim(self, value: Any) -> list[str]:
        """The texts in it."""
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
