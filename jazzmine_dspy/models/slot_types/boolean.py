"""``boolean``: yes or no. The words of both are also those that answer a confirmation."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, SlotType, pattern_match, slot_type
from jazzmine_dspy.models.text import plain


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split("|"))


YES = _set(
    "yes|yes please|yep|yeah|yup|ya|sure|ok|okay|ok go ahead|correct|right|that's right|thats right|go ahead|please do|"
    "do it|confirm|confirmed|absolutely|of course|yes that's right|yes go ahead|yes do it|yes that is right|y|"
    "yes that's correct|that's correct|perfect yes|sounds good|fine|yes i am sure"
)
NO = _set("no|nope|nah|no thanks|no thank you|don't|dont|please don't|n|no don't|not really|no way|negative")


@slot_type("boolean")
class Boolean(SlotType):
    """True or false."""

    example = "true"
    example_shown = False

    def schema(self, slot: Slot) -> dict[str, Any]:
        """A JSON boolean."""
        return {"type": "boolean"}

    def read(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> Any:
        """A yes or a no, and nothing else."""
        said = plain(text)
        return said in YES if said in YES | NO else pattern_match(slot, text)

    def misfit(self, slot: Slot, value: Any) -> str:
        """Labelled values are true or false."""
        return "" if isinstance(value, bool) else "true or false"
