"""``list``: several texts."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.language import is_english
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, SlotType, pattern_match, slot_type

_MOST = 5
"""Texts that a list holds where the slot gives no ``max``."""

_WORDS = 4
"""Words of an item; what is longer is rather a sentence."""

_BREAK = re.compile(
    r"\s*(?:[,;\n\u2022]|\s&\s|\s\+\s|(?<=\w{3})[.!](?=\s+\w))\s*(?:(?:oh|also|and|plus)\s+)*|\s+(?:and|plus|"
    r"as well as)\s+(?:also\s+)?",
    re.IGNORECASE,
)
_FOREIGN_BREAK = re.compile(r"\s*[,;\n\u2022]\s*|\s+[&+]\s+")
_BEFORE = re.compile(
    r"^(?:(?:hi|hello|yes|yeah|ok|okay|well|so|just|only|please|pls|it's|that's|i need|i want|we need|we want|i'd like|"
    r"we'd like|i would like|we would like|can i have|can we have|can i get|could i have|could we have|could you bring|"
    r"can you bring|bring me|bring us|bring|get me|get us|send me|also)[\s,:]+)+",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"(?:[\s,.!]+(?:please|pls|plz|thanks|thank you|thx|too|as well|that'?s all|that'?s it|that is all))+\s*$",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"^(?:an?|the|some|my|our)\s+(?=\S)", re.IGNORECASE)
_NO_ITEM = re.compile(
    r"\b(?:i|you|it|he|she|they|we|what|where|when|why|who|how|which|is|are|was|were|am|do|does|did|don't|have|has|can|"
    r"could|will|would|can't|cant|won't|hates?|us|there|there's|theres|people|one|first|whatever|whatever's|lol|pls|"
    r"today|tomorrow|\w{3,6}day|for \d+|any|anything|some(?:one|body)|not|no|never|cancel|stop|forget|"
    r"nothing|none|got|same|usual|depends?|sounds?|let|think|hm+|hi|hello|thanks|because|but|if|broken|arrived)\b|[?@:]|^(?:for|on|at|by)\b|"
    r"\bfor (?:everyone|all|us)\b",
    re.IGNORECASE,
)


@slot_type("list")
class Listing(SlotType):
    """Texts in the order of the message: up to the slot's ``max``, or five."""

    example = '["cup", "plate"]'
    example_shown = False
    ranged = True

    def schema(self, slot: Slot) -> dict[str, Any]:
        """A JSON list of at most five texts, or as many as the slot takes, of at most 40 characters."""
        most = _MOST if slot.max is None else max(1, int(slot.max))
        return {"type": "array", "maxItems": most, "items": {"type": "string", "maxLength": 40}}

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """Two and more short texts between commas and "and"; or the text, where it matches the slot's pattern."""
        if (own := pattern_match(slot, text)) is not None:
            return [[own]]
        items = _items(text, at)
        fits = len(items) > 1 and all(len(item.split()) <= _WORDS for item in items)
        return [items] if fits and not (is_english(at.locale) and any(map(_NO_ITEM.search, items))) else []

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """Texts without articles around spaces; one text is split where it lists several."""
        if isinstance(value, str):
            return _items(value, at) or value
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return [_item(item, at) or item for item in value]
        return value

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only lists of texts will do, as long as the slot takes."""
        normal = self.normalize(slot, value, at)
        if not isinstance(normal, list) or not normal or not all(isinstance(item, str) for item in normal):
            return f"{value!r} is no list"
        least, most, many = slot.min, slot.max, len(normal)
        if least is not None and many < least:
            return f"{many} is fewer than {least:g}"
        return f"{many} is more than {most:g}" if most is not None and many > most else ""

    def label_error(self, slot: Slot, value: Any) -> str:
        """Labelled values are lists."""
        return "" if isinstance(value, list) else "a list"

    def spans(self, value: Any) -> list[str]:
        """The texts in it."""
        return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _items(text: str, at: ReadingContext) -> list[str]:
    text = text.strip().replace("\u2019", "'")
    if is_english(at.locale):
        text = _AFTER.sub("", _BEFORE.sub("", text.rstrip(" .!")))
    parts = (_BREAK if is_english(at.locale) else _FOREIGN_BREAK).split(text)
    return [item for part in parts if (item := _item(part, at))]


def _item(text: str, at: ReadingContext) -> str:
    bare = text.strip(" .!\n\t")
    return _ARTICLE.sub("", bare) if is_english(at.locale) else bare
