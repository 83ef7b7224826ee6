"""``choice``: one of the slot's options."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, SlotType, slot_type
from jazzmine_dspy.models.text import plain


@slot_type("choice")
class Choice(SlotType):
    """One of the slot's options, as the flow writes it."""

    example = "express"
    example_shown = False

    def schema(self, slot: Slot) -> dict[str, Any]:
        """The options."""
        return {"enum": list(slot.options)}

    def read(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        """An option alone; underscores are said as spaces."""
        said = plain(text)
        return next((option for option in slot.options if _said(option) == said), None)

    def occurrences(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """All options that are said as whole words."""
        said = f" {plain(text)} "
        return [option for option in slot.options if f" {_said(option)} " in said]

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only options will do."""
        return "" if value in slot.options else f"{value!r} is none of {', '.join(slot.options)}"

    def misdefined(self, slot: Slot) -> str:
        """Without options there is nothing to choose."""
        return "" if slot.options else "a choice needs options"

    def misfit(self, slot: Slot, value: Any) -> str:
        """Labelled values are options."""
        return "" if value in slot.options else f"one of {', '.join(slot.options)}"


def _said(option: str) -> str:
    return plain(option.replace("_", " "))
