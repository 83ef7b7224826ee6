"""``text``: any words; and the base of all types whose values are texts."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.models.slots import (
    ANYWHERE,
    ReadingContext,
    Slot,
    SlotType,
    breaks_pattern,
    pattern_match,
    slot_type,
)


class TextType(SlotType):
    """A type whose values are texts of at most 80 characters; read by the slot's own pattern alone.

    A type that extends it overrides what it knows better, and gives an ``example``.
    """

    def schema(self, slot: Slot) -> dict[str, Any]:
        """Any text of 1 to 80 characters."""
        return {"type": "string", "minLength": 1, "maxLength": 80}

    def read(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        """The text, where it matches the slot's pattern."""
        return pattern_match(slot, text)

    def misfit(self, slot: Slot, value: Any) -> str:
        """Labelled values are texts, and match the slot's pattern."""
        if not isinstance(value, str):
            return "a text"
        if breaks_pattern(slot, value):
            return f"of the form {slot.pattern}"
        return super().misfit(slot, value)


@slot_type("text")
class Text(TextType):
    """Words as the user says them."""

    example = "blue, with a logo"
    example_shown = False

    def verbatim(self, value: Any) -> list[str]:
        """The text itself."""
        return [value] if isinstance(value, str) else []
