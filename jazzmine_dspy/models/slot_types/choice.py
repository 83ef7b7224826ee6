"""``choice``: one of the slot's options; ``list``: several texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jazzmine_dspy.models.language import (
    LIGHT,
    WORD,
    Span,
    intended_values,
    is_bare,
    is_english,
    name_words,
    words,
)
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext, Slot, SlotType, pattern_match, slot_type
from jazzmine_dspy.models.text import plain

_LEAST_SIMILARITY = 0.8
"""Least similarity of a misspelt word: two slips in ten letters, one slip or swap in five."""

_SHORTEST = 4
"""Shortest word that may be misspelt: too many shorter ones are other words."""

_OTHER_WORDS = words(
    "back stop send next more less same none help wait mean hear sell else what when suit fine good late"
)
"""Words of four letters that never count as misspelt: "back" is not "black"."""

_ANSWERS = "knyu"
"""Letters that are words: "k" is okay, "n" and "y" are answers, "u" is you."""

_ENDINGS = ("s", "es", "ed", "d", "ing", "ly", "er", "ers", "y", "'s", "ish")
_PLACES = {
    "first": 0, "1st": 0, "former": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "4th": 3, "last": -1,
    "latter": -1,
}  # fmt: skip
_NUMBERS = {"1": 0, "one": 0, "2": 1, "two": 1, "3": 2, "three": 2, "4": 3, "four": 3}
_NEUTRAL_WORDS = (
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
        """Return the option of a text that says little else.

        It may be inflected, misspelt, or named by its place ("the second one") or its first letter ("L").

        Returns all options that the text names or that a misspelt word is equally similar to.
        """
        if is_english(at.locale) and (by_place := _option_by_place(slot, text)):
            return by_place
        if by_letter := _option_by_letter(slot, text):
            return by_letter
        mentions = _mentions(slot, text, at, floor=_LEAST_SIMILARITY)
        # Words of an option's name are neutral: "item" of "wrong item".
        names = (slot.name.lower().replace("-", " "), *slot.options)
        own = {word for name in names for word in _option_text(name).split()}
        bare = bool(mentions) and is_bare(text, mentions, at.locale, {*_NEUTRAL_WORDS, *own})
        return intended_values(text, mentions, no_denies=True) if bare else []

    def find(self, slot: Slot, text: str, at: ReadingContext = ANYWHERE) -> list[Span]:
        """Find all options that occur as whole words."""
        return _mentions(slot, text, at, floor=1.0)

    def normalize(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> Any:
        """The option as the flow writes it."""
        return value if value in slot.options else super().normalize(slot, value, at)

    def check(self, slot: Slot, value: Any, at: ReadingContext = ANYWHERE) -> str:
        """Accept options alone."""
        is_option = self.normalize(slot, value, at) in slot.options
        return "" if is_option else f"{value!r} is none of {', '.join(slot.options)}"

    def definition_error(self, slot: Slot) -> str:
        """A choice needs options."""
        return "" if slot.options else "a choice needs options"

    def label_error(self, slot: Slot, value: Any) -> str:
        """Labelled values are options."""
        return "" if value in slot.options else f"one of {', '.join(slot.options)}"


def _mentions(slot: Slot, text: str, at: ReadingContext, *, floor: float) -> list[Span]:
    """Find options in a text, longer ones first; with a floor below 1 also misspelt ones."""
    matches = [*WORD.finditer(text)]
    tokens = [match.group().lower().replace("\u2019", "'") for match in matches]
    english = is_english(at.locale)
    scored = [
        (score, Span(matches[start].start(), matches[end - 1].end(), option))
        for option in slot.options
        for start, end, score in _windows(tokens, _option_text(option).split(), english=english, floor=floor)
    ]
    # Of overlapping options the most similar ones count.
    kept: list[tuple[float, Span]] = []
    for score, each in sorted(scored, key=lambda pair: (-pair[0], pair[1].start - pair[1].end)):
        overlaps = [(other, one) for other, one in kept if each.start < one.end and one.start < each.end]
        if all(other == score < 1.0 and one[:2] == each[:2] for other, one in overlaps):
            kept.append((score, each))
    return sorted((each for _, each in kept), key=lambda each: each.start)


def _windows(
    tokens: list[str], option_words: list[str], *, english: bool, floor: float
) -> Iterator[tuple[int, int, float]]:
    """Yield runs of words and their similarity to an option, if it reaches the floor."""
    letters, size = _letters(option_words), len(option_words)
    has_letters = letters in _letters(tokens)
    for length in {max(1, size), size + 1, max(1, size - 1)}:
        if not has_letters and length != size:
            continue
        for start in range(len(tokens) - length + 1):
            run = tokens[start : start + length]
            score = 1.0 if has_letters and _letters(run) == letters else 0.0
            if score == 0.0 and length == size:
                score = 1.0
                for word, other in zip(run, option_words, strict=True):
                    score = min(score, _similarity(word, other, english))
                    if score < floor:
                        break
            if score >= floor:
                yield start, start + length, score


def _letters(run: list[str]) -> str:
    return "".join(run).replace("-", "").replace("'", "")


@lru_cache(maxsize=8192)
def _similarity(word: str, option_word: str, english: bool) -> float:
    from rapidfuzz.distance import OSA

    if word == option_word:
        return 1.0
    if english and word in LIGHT:
        return 0.0
    longer, shorter = max(word, option_word, key=len), min(word, option_word, key=len)
    if english and len(shorter) >= 4 and longer.startswith(shorter) and longer[len(shorter) :] in _ENDINGS:
        return 1.0
    if len(shorter) < _SHORTEST or word in _OTHER_WORDS:
        return 0.0
    if (
        len(word) == len(option_word) == _SHORTEST
        and word[0] == option_word[0]
        and sorted(word) == sorted(option_word)
    ):
        # Two swapped letters: "psot".
        return _LEAST_SIMILARITY
    return float(OSA.normalized_similarity(word, option_word))


def _option_by_place(slot: Slot, text: str) -> list[str]:
    """Return the option that a text names by its place, if it names nothing else."""
    tokens = [word for word in plain(text).replace("'", " ").split() if word not in LIGHT]
    content = [word for word in tokens if word not in ("option", "one", "choice", "number")] or tokens
    if len(content) != 1 or any(content[0] in _option_text(option).split() for option in slot.options):
        return []
    # "Option two", or "2" alone.
    is_number = text.strip().isdigit() or (len(tokens) > 1 and ("number" in tokens or "option" in tokens))
    place = _PLACES.get(content[0], _NUMBERS.get(content[0]) if is_number else None)
    return [] if place is None or place >= len(slot.options) else [slot.options[place]]


def _option_by_letter(slot: Slot, text: str) -> list[str]:
    """Return the option that begins with the one letter that a text says, if no other does."""
    dull = LIGHT | name_words(slot.name)
    letters = [word for word in plain(text).split() if word not in dull]
    if len(letters) != 1 or len(letters[0]) != 1 or letters[0] in _ANSWERS:
        return []
    options = [option for option in slot.options if _option_text(option).startswith(letters[0])]
    return options if len(options) == 1 else []


@lru_cache(maxsize=4096)
def _option_text(option: str) -> str:
    return plain(option.replace("_", " "))


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
            return f"{value!r} is not a list"
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
