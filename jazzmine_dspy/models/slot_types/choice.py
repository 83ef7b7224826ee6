"""``choice``: one of the slot's options."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jazzmine_dspy.models.language import LIGHT, WORD, Span, intended_values, is_bare, is_english, words
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, SlotType, slot_type
from jazzmine_dspy.models.text import plain

_FLOOR = 0.8
"""How alike a word must be to an option's that is misspelt: two slips in ten letters, one or a swap in five."""

_SHORTEST = 4
"""Letters of a word that may be misspelt: of shorter ones too many are other words."""

_OTHER_WORDS = words(
    "back stop send next more less same none help wait mean hear sell else what when suit fine good late"
)
"""Words of four letters that are themselves, however near an option is: "back" is not "black"."""

_ENDINGS = ("s", "es", "ed", "d", "ing", "ly", "er", "ers", "y", "'s", "ish")
_PLACES = {
    "first": 0, "1st": 0, "former": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "4th": 3, "last": -1,
    "latter": -1,
}  # fmt: skip
_NUMBERS = {"1": 0, "one": 0, "2": 1, "two": 1, "3": 2, "three": 2, "4": 3, "four": 3}
_OF_IT = (
    "option",
    "choice",
    "one",
    "number",
    "kind",
    "type",
    "version",
    "delivery",
    "do",
    "more",
    "much",
    "quite",
)


@slot_type("choice")
class Choice(SlotType):
    """One of the slot's options, as the flow writes it."""

    example = "express"
    example_shown = False
    no_denies = True

    def schema(self, slot: Slot) -> dict[str, Any]:
        """The options."""
        return {"enum": list(slot.options)}

    def candidates(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Any]:
        """The option of a text that says little else: in another form, misspelt, or by its place ("the second one").

        Several options that are named, or that a misspelt word is as near to, are all of them given.
        """
        if is_english(at.locale) and (by_place := _placed(slot, text)):
            return by_place
        found = _mentions(slot, text, at, floor=_FLOOR)
        # Parts of an option's own name say nothing else: of "wrong item", the item.
        names = (slot.name.lower().replace("-", " "), *slot.options)
        own = {word for name in names for word in _said(name).split()}
        bare = bool(found) and is_bare(text, found, at.locale, {*_OF_IT, *own})
        return intended_values(text, found, no_denies=True) if bare else []

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        """All options that are said as whole words."""
        return _mentions(slot, text, at, floor=1.0)

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """The option as the flow writes it."""
        return value if value in slot.options else super().normalize(slot, value, at)

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Only options will do."""
        known = self.normalize(slot, value, at) in slot.options
        return "" if known else f"{value!r} is none of {', '.join(slot.options)}"

    def definition_error(self, slot: Slot) -> str:
        """Without options there is nothing to choose."""
        return "" if slot.options else "a choice needs options"

    def label_error(self, slot: Slot, value: Any) -> str:
        """Labelled values are options."""
        return "" if value in slot.options else f"one of {', '.join(slot.options)}"


def _mentions(slot: Slot, text: str, at: ReadingContext, *, floor: float) -> list[Span]:
    """Where options are said, the longer before the one inside it; below a floor of 1 also misspelt."""
    said = [(match.group().lower().replace("\u2019", "'"), *match.span()) for match in WORD.finditer(text)]
    english = is_english(at.locale)
    scored = [
        (score, Span(said[start][1], said[end - 1][2], option))
        for option in slot.options
        for start, end, score in _windows(said, _said(option).split(), english=english, floor=floor)
    ]
    # Of options over the same words the surest counts, and all that are as sure.
    kept: list[tuple[float, Span]] = []
    for score, each in sorted(scored, key=lambda pair: (-pair[0], pair[1].start - pair[1].end)):
        over = [(other, one) for other, one in kept if each.start < one.end and one.start < each.end]
        if all(other == score < 1.0 and one[:2] == each[:2] for other, one in over):
            kept.append((score, each))
    return sorted((each for _, each in kept), key=lambda each: each.start)


def _windows(
    spoken: list[tuple[str, int, int]], wanted: list[str], *, english: bool, floor: float
) -> Iterator[tuple[int, int, float]]:
    """Runs of words that may be an option, with how alike they are to it, at least as much as the floor."""
    joined, size = _letters(wanted), len(wanted)
    for length in {max(1, size), size + 1, max(1, size - 1)}:
        for start in range(len(spoken) - length + 1):
            run = [word for word, _, _ in spoken[start : start + length]]
            same = _letters(run) == joined
            score = 1.0 if same else 0.0
            if not same and length == size:
                score = min(_alike(word, other, english) for word, other in zip(run, wanted, strict=True))
            if score >= floor:
                yield start, start + length, score


def _letters(run: list[str]) -> str:
    return "".join(run).replace("-", "").replace("'", "")


@lru_cache(maxsize=8192)
def _alike(word: str, wanted: str, english: bool) -> float:
    from rapidfuzz.distance import OSA

    if word == wanted:
        return 1.0
    if english and word in LIGHT:
        return 0.0
    longer, shorter = max(word, wanted, key=len), min(word, wanted, key=len)
    if english and len(shorter) >= 4 and longer.startswith(shorter) and longer[len(shorter) :] in _ENDINGS:
        return 1.0
    if len(shorter) < _SHORTEST or word in _OTHER_WORDS:
        return 0.0
    if len(word) == len(wanted) == _SHORTEST and word[0] == wanted[0] and sorted(word) == sorted(wanted):
        # Two letters that changed places: "psot".
        return _FLOOR
    return float(OSA.normalized_similarity(word, wanted))


def _placed(slot: Slot, text: str) -> list[str]:
    """The option that a text names by its place, and nothing else."""
    said = [word for word in plain(text).replace("'", " ").split() if word not in LIGHT]
    telling = [word for word in said if word not in ("option", "one", "choice", "number")] or said
    if len(telling) != 1 or any(telling[0] in _said(option).split() for option in slot.options):
        return []
    # "Option two", or "2" alone.
    counted = text.strip().isdigit() or (len(said) > 1 and ("number" in said or "option" in said))
    place = _PLACES.get(telling[0], _NUMBERS.get(telling[0]) if counted else None)
    return [] if place is None or place >= len(slot.options) else [slot.options[place]]


def _said(option: str) -> str:
    return plain(option.replace("_", " "))
