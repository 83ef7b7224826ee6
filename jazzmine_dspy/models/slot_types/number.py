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

_COUNTED = 2
"""Words after a number that may say what is counted: "2 single rooms"."""

_NOT_COUNTED = words(
    "am pm o'clock past percent st nd rd th is was were are has had have arrived came never did does do "
    "again still broken late wrong missing cancel stop order parcel what where when why who how which jan "
    "january feb february mar march apr april may jun june jul july aug august sep september oct october "
    "nov november dec december monday tuesday wednesday thursday friday saturday sunday today tomorrow"
)
_PEOPLE = frozenset({"people", "persons", "person", "guests", "guest", "adults", "pax", "us"})
_NAMED_BEFORE = re.compile(
    r"([^\W_]+)(?:\s+(?:is|are|was|were|of|to|for|be|at|will|should|now|from|\W)){0,3}\W*$"
)
_WORD_BEFORE = re.compile(r"([^\W_]+)(?:\s+(?:is|are|was|of|to|for|be|at|will|should|now|from|\W)){0,3}\W*$")
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
        """The number of a text that says little else: "3", "two of us", "2 single rooms"; of "2 or 3" both."""
        found = numbers(text, at)
        if not found:
            own = pattern_match(slot, text)
            return [] if own is None else [own]
        told = f"{slot.name.replace('_', ' ')} {slot.description} {slot.ask}"
        found = [each for each in found if not is_measure(text, each, told)]
        if not found or not _is_bare(text, found, at, name_words(slot.name)):
            return []
        between = text[found[0].end : found[1].start] if len(found) == 2 else ""
        if _OUT_OF.fullmatch(between):
            found = found[:1]
        values = [] if count_apart(text, found) else [plain(value) for value in intended_values(text, found)]
        return values if len(values) < 2 or RANGE.fullmatch(between) else []

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        """Numbers beside a word of the slot's name: of ``guests``, "4 guests"."""
        own = name_words(slot.name)
        own |= _PEOPLE if own & _PEOPLE else set()
        found = []
        for each in numbers(text, at):
            before = _WORD_BEFORE.search(text[: each.start])
            words_beside = [before[1]] if before else []
            words_beside += WORD.findall(text[each.end : each.end + 60])[:_COUNTED]
            if own.intersection(word.lower() for word in words_beside):
                found.append(each._replace(value=plain(each.value)))
        return found

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """A number that is written as a text becomes one."""
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
            return int(value)
        return super().normalize(slot, value, at)

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only numbers within the slot's range will do, and what its pattern takes."""
        normal = self.normalize(slot, value, at)
        if isinstance(normal, bool) or not isinstance(normal, int | float):
            return "" if slot.pattern and isinstance(normal, str) else f"{value!r} is no number"
        return out_of_range(slot, normal)

    def is_attempt(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> bool:
        """Without a number nothing was tried."""
        return bool(numbers(text, at)) and super().is_attempt(slot, text, at)

    def label_error(self, slot: Slot, value: Any) -> str:
        """Labelled values are numbers."""
        return "" if isinstance(value, int | float) and not isinstance(value, bool) else "a number"


def _is_bare(text: str, found: list[Span], at: ReadingContext, also: set[str]) -> bool:
    spans = [(each.start, each.end) for each in found]
    if not is_english(at.locale):
        return not other_words(text, spans)
    for each in found:
        counted = [*WORD.finditer(text, each.end)][:_COUNTED]
        for word in counted:
            gap = text[each.end : word.start()]
            said = word.group().lower()
            if re.search(r"[.,;:!?]", gap) or said in _NOT_COUNTED or said in LIGHT:
                break
            spans.append(word.span())
    return all(word in LIGHT or word in also for word in other_words(text, spans))
