"""``phone``: telephone numbers."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.slot_types.text import TextType
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, slot_type

_PHONE = re.compile(r"\+?\d[\d\s()/-]{5,}\d")


@slot_type("phone")
class Phone(TextType):
    """The digits of a telephone number, with a plus before the country."""

    example = "+441514960000"
    example_shown = False

    def occurrences(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """Seven digits and more, however they are grouped."""
        return [re.sub(r"[^\d+]", "", match.group()) for match in _PHONE.finditer(text)]
