"""``number``: whole numbers and decimals, in digits or in words."""

from __future__ import annotations

import re
from typing import Any

from jazzmine_dspy.models.language import (
    LIGHT,
    RANGE,
    WORD,
    Span,
    intended_values,
    is_english,
    name_words,
    other_words,
    words,
)
from jazzmine_dspy.models.slot_types.numbers import count_apart, is_measure, numbers, plain
from jazzmine_dspy.models.slots import (
    ANYWHERE,
    ReadingContext,
    Slot,
    SlotType,
    out_of_range,
    pattern_match,
    slot_type,
)

_UNIT_WORDS = 2
"""Most words after a number that may name what it counts: "2 single rooms"."""

_NOT_UNITS = words(
    "am pm o'clock past percent st nd rd th is was were are has had have arrived came never did does do "
    "again still broken late wrong missing cancel stop order parcel what where when why who how which jan "
    "january feb february mar march apr april may jun june jul july aug august sep september oct october "
    "nov november dec december monday tuesday wednesday thursday friday saturday sunday today tomorrow"
)
_PEOPLE = frozenset({"people", "persons", "person", "guests", "guest", "adults", "pax", "us"})
_WORD_BEFORE = re.compile(r"([^\W_]+)(?:\s+(?:is|are|was|of|to|for|be|at|will|should|now|from|\W)){0,3}\W*$")
_SIGN = r"[.,;:!?]"
_OUT_OF = re.compile(r"\s+(?:out\s+)?of\s+(?:the\s+|my\s+|our\s+|those\s+|these\s+)?", re.IGNORECASE)


@slot_type("number")
class Number(SlotType):
    """A number: an integer where it is one, else a decimal."""

    example = "3"
    example_shown = False
    ranged = True

    def schema(self, slot: Slot) -> dict[str, Any]:
        """A JSON number."""
        return {"type": "number"}

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """Return the number of a text that says little else: "3", "two of us", "2 single rooms"; both for "2 or 3"."""
        spans = numbers(text, at)
        if not spans:
            own = pattern_match(slot, text)
            return [] if own is None else [own]
        context = f"{slot.name.replace('_', ' ')} {slot.description} {slot.ask}"
        spans = [each for each in spans if not is_measure(text, each, context)]
        if not spans or not _is_bare(text, spans, at, name_words(slot.name)):
            return []
        between = text[spans[0].end : spans[1].start] if len(spans) == 2 else ""
        if _OUT_OF.fullmatch(between):
            spans = spans[:1]
        values = [] if count_apart(text, spans) else [plain(value) for value in intended_values(text, spans)]
        return values if len(values) < 2 or RANGE.fullmatch(between) else []

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        """Find numbers next to a word of the slot's name: "4 guests" for ``guests``."""
        own = name_words(slot.name)
        own |= _PEOPLE if own & _PEOPLE else set()
        spans = []
        for each in numbers(text, at):
            word_before = _WORD_BEFORE.search(text[: each.start])
            words_beside = [word_before[1]] if word_before else []
            words_beside += WORD.findall(re.split(_SIGN, text[each.end : each.end + 60])[0])[:_UNIT_WORDS]
            if own.intersection(word.lower() for word in words_beside):
                spans.append(each._replace(value=plain(each.value)))
        return spans

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """Convert a number in a text to a number."""
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
            return int(value)
        return super().normalize(slot, value, at)

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Accept numbers within the range of the slot, and texts that match its pattern."""
        normal = self.normalize(slot, value, at)
        if isinstance(normal, bool) or not isinstance(normal, int | float):
            return "" if slot.pattern and isinstance(normal, str) else f"{value!r} is not a number"
        return out_of_range(slot, normal)

    def is_attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """A text without a number is no attempt."""
        return bool(numbers(text, at)) and super().is_attempt(slot, text, at)

    def label_error(self, slot: Slot, value: Any) -> str:
        """Labelled values are numbers."""
        return "" if isinstance(value, int | float) and not isinstance(value, bool) else "a number"


def _is_bare(text: str, spans: list[Span], at: ReadingContext, also: set[str]) -> bool:
    ranges = [(each.start, each.end) for each in spans]
    if not is_english(at.locale):
        return not other_words(text, ranges)
    for each in spans:
        words_after = [*WORD.finditer(text, each.end)][:_UNIT_WORDS]
        for word in words_after:
            gap = text[each.end : word.start()]
            token = word.group().lower()
            if re.search(_SIGN, gap) or token in _NOT_UNITS or token in LIGHT:
                break
            ranges.append(word.span())
    return all(word in LIGHT or word in also for word in other_words(text, ranges))
