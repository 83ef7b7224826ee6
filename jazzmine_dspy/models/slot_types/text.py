"""``text``: any words; and the base of all types whose values are texts."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.models.language import (
    intended_values,
    is_bare,
    is_english,
    name_words,
    without_light_words,
)
from jazzmine_dspy.models.patterns import pattern_found, pattern_value
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

    def label_error(self, slot: Slot, value: Any) -> str:
        """Labelled values are texts, and match the slot's pattern."""
        if not isinstance(value, str):
            return "a text"
        if breaks_pattern(slot, value):
            return f"of the form {slot.pattern}"
        return super().label_error(slot, value)


@slot_type("text")
class Text(TextType):
    """Words as the user says them."""

    example = "blue, with a logo"
    example_shown = False

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """What matches the slot's pattern in a text that says little else."""
        if not slot.pattern:
            return []
        also = {*name_words(slot.name), "number", "booking", "order", "reference", "id"}
        whole = pattern_match(slot, text)
        normalized, spans = (text, []) if whole is not None else pattern_found(slot, text)
        if spans:
            return intended_values(normalized, spans) if is_bare(normalized, spans, at.locale, also) else []
        if whole is None and is_english(at.locale):
            whole = pattern_match(slot, without_light_words(text, also))
        return [] if whole is None else [whole]

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """Without spaces around; of a slot with a pattern what matches it, in the letters that it asks for."""
        if isinstance(value, int) and not isinstance(value, bool) and slot.pattern:
            value = str(value)
        if not isinstance(value, str):
            return value
        own = " ".join(value.split()) or None if slot.pattern is None else pattern_value(slot, value)
        return value if own is None else own

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only texts will do."""
        return "" if isinstance(value, str) and value.strip() else f"{value!r} is not a text"

    def spans(self, value: Any) -> list[str]:
        """The text itself."""
        return [value] if isinstance(value, str) else []
