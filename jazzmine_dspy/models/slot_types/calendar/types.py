"""``date``, ``time`` and ``duration``: texts as the language model or the user writes them."""

from __future__ import annotations

from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import slot_type


@slot_type("date")
class Date(TextType):
    """A day."""

    example = "2026-03-14"
    example_shown = False


@slot_type("time")
class Time(TextType):
    """A time of day."""

    example = "18:30"
    example_shown = False


@slot_type("duration")
class Duration(TextType):
    """A length of time."""

    example = "2 hours"
    example_shown = False
