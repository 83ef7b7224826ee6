"""The built-in slot types, one file for each or for a family; importing this package registers them all.

Their order here is the order in which they are listed.
"""

# ruff: noqa: I001
from jazzmine_dspy.models.language import Span
from jazzmine_dspy.models.slots import SLOT_TYPES, ReadingContext, Slot, SlotType, slot_type
from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slot_types import number, money, calendar, contact, boolean, choice  # noqa: F401

__all__ = ["SLOT_TYPES", "ReadingContext", "Slot", "SlotType", "Span", "TextType", "slot_type"]
