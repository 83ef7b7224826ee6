"""The lexicon of agreement and its opposite: words, phrases and signs by language."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from rapidfuzz.distance import OSA

from jazzmine_dspy.models.text import simplified

FILE = "agreement.toml"
KINDS = ("yes", "mild", "harmless", "no", "leave", "against", "hint", "polite", "filler", "aside")
"""Kinds of phrases; the first one wins among equally long phrases."""
ENDING = "ending"
"""Kind of phrases that name an ending: they agree if the question is about it, else they leave the task."""
UNSPACED = ("ja", "zh")
OPPOSING = frozenset(("no", "leave", "against"))
CLOSE = 6
"""Letters from which on a word may have a slip."""
WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
SAME = {
    word: key
    for key, names in {
        "1": "january jan", "2": "february feb two", "3": "march mar three", "4": "april apr four", "5": "may five",
        "6": "june jun six", "7": "july jul seven", "8": "august aug eight", "9": "september sept sep nine",
        "10": "october oct ten", "11": "november nov eleven", "12": "december dec twelve",
        "eur": "euro euros", "gbp": "pound pounds quid", "usd": "dollar dollars buck bucks",
    }.items()
    for word in names.split()
}  # fmt: skip
"""Words for months, numbers and currencies, with what a question may have in their place."""


class Language(NamedTuple):
    """The phrases of a language, as words, or as characters if it is written without spaces.

    Args:
        name: The key of the language in the lexicon.
        phrases: The kind of each phrase.
        longest: The length of the longest phrase that begins with a word.
        unspaced: Whether it is written without spaces.
        vocabulary: The words of its phrases.
    """

    name: str
    phrases: Mapping[tuple[str, ...], str]
    longest: Mapping[str, int]
    unspaced: bool
    vocabulary: frozenset[str]


@lru_cache(maxsize=1)
def entries() -> dict[str, dict[str, list[str]]]:
    """The lists of the file, by section and kind."""
    return tomllib.loads(files(__package__).joinpath(FILE).read_text("utf-8"))


@lru_cache(maxsize=1)
def signs_of() -> dict[str, str]:
    """The kind of each sign."""
    return {simplified(sign): kind for kind in ("yes", "no", "against") for sign in entries()["signs"][kind]}


@lru_cache(maxsize=1)
def lexicon() -> dict[str, Language]:
    """The languages by name."""
    languages = {}
    for name, lists in entries().items():
        if name in ("signs", "ends", "judged"):
            continue
        unspaced = name in UNSPACED
        # The first kind wins, so it is written last.
        phrases = {
            tuple(simplified(phrase) if unspaced else WORD.findall(simplified(phrase))): kind
            for kind in reversed(KINDS)
            for phrase in lists.get(kind, ())
        }
        if name == "en":
            phrases |= {tuple(WORD.findall(phrase)): ENDING for phrase in entries()["ends"]["phrases"]}
        longest: dict[str, int] = {}
        for phrase in phrases:
            longest[phrase[0]] = max(len(phrase), longest.get(phrase[0], 1))
        said = map("".join, phrases) if unspaced else itertools.chain.from_iterable(phrases)
        languages[name] = Language(name, phrases, longest, unspaced, frozenset(said))
    return languages


def misspelt(word: str) -> str:
    """Return the kind of the only longer English word of agreement or refusal within one slip; else ""."""
    if len(word) < CLOSE:
        return ""
    near = {kind for known, kind in _misspellable() if OSA.distance(word, known, score_cutoff=1) <= 1}
    return near.pop() if len(near) == 1 else ""


@lru_cache(maxsize=1)
def _misspellable() -> tuple[tuple[str, str], ...]:
    """The longer English words of agreement and refusal, each with its kind."""
    return tuple(
        (phrase[0], kind)
        for phrase, kind in lexicon()["en"].phrases.items()
        if len(phrase) == 1 and kind in ("yes", "mild", "no") and len(phrase[0]) >= CLOSE
    )


@lru_cache(maxsize=1024)
def foreign(word: str) -> str:
    """Return the kind of a word that opposes in another language; "" for other words."""
    kinds = (language.phrases.get((word,), "") for language in lexicon().values())
    return next((kind for kind in kinds if kind in OPPOSING), "")
