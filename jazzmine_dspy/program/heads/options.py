"""How likely a message means an option of a choice that it does not name: "it's broken" where ``damaged`` is one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.models.text import plain
from jazzmine_dspy.program.heads.acts.readings import free_text, stem
from jazzmine_dspy.program.ports import Floats

FILE = "options.json"
ACTS = ("value", "correct", "chitchat", "ask", "skip", "cancel_flow", "affirm", "nothing", "out_of_scope")
"""Acts whose likelihood tells whether an answer to the question is given at all."""

NEAR = ("message", "clause", "described", "described clause", "bare", "words")
"""Nearness of an option to: the message; its nearest clause; the same with the slot's description before the option;
the message without the words around it; and the share of the option's words that the message says."""

_CLAUSE = re.compile(r"[,;.!?]\s+|\s+(?:because|since|as|but|and|so|cos|coz|cuz)\s+", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:no|not|never|none|nothing|without|neither)\b|n['\u2019]t\b|"
    r"\b(?:do|does|did|is|was|were|wo|ca|have|has|had|would|could|should)nt\b",
    re.IGNORECASE,
)
_LEAST = 1e-3


class Asked(NamedTuple):
    """What is compared: texts in the order in which features are wanted, and how many of them are clauses."""

    texts: tuple[str, ...]
    clauses: int


class Weights(NamedTuple):
    """Factors of :func:`seen`, for options and for none of them."""

    options: tuple[float, ...]
    none: tuple[float, ...]


def texts_of(slot: Slot, text: str) -> Asked:
    """The texts whose features tell how near each option is.

    Who says no to something ("not broken") means what it names least of all, so only clauses without a no are compared,
    where there are any.
    """
    clauses = [part.strip() for part in _CLAUSE.split(text) if part.strip()]
    clauses = [part for part in clauses if not _NOT.search(part)] or clauses or [text]
    names = [option.replace("_", " ") for option in slot.options]
    kind = slot.description or slot.name.replace("_", " ")
    told = [f"{kind}: {name}" for name in names]
    return Asked((text, free_text(text), *clauses, *names, *told), len(clauses))


def denies(slot: Slot, text: str, place: int) -> bool:
    """Whether every clause has a no in it, and the option has none."""
    clauses = [part for part in _CLAUSE.split(text) if part.strip()]
    return all(_NOT.search(part) for part in clauses) and not _NOT.search(
        slot.options[place].replace("_", " ")
    )


def seen(
    slot: Slot, text: str, asked: Asked, rows: Floats, acts: Mapping[str, float] | None
) -> tuple[Floats, Floats]:
    """What there is to judge by: of each option, shape (options, 18), and of none of them, shape (14,).

    Args:
        slot: The choice.
        text: The message.
        asked: Of :func:`texts_of`.
        rows: Features of its texts; the first half of each is the embedding.
        acts: The probability of each act where the slot was asked for; None in a message that starts its task.
    """
    vectors = rows[:, : rows.shape[1] // 2]
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    message, bare, clauses = unit[0], unit[1], unit[2 : 2 + asked.clauses]
    names, told = np.split(unit[2 + asked.clauses :], 2)
    said = {stem(word) for word in plain(text).split()}
    own = [
        [stem(word) in said for word in plain(option.replace("_", " ")).split()] for option in slot.options
    ]
    told_words = np.array([sum(each) / max(1, len(each)) for each in own])
    near = np.column_stack(
        [
            names @ message,
            (names @ clauses.T).max(1),
            told @ message,
            (told @ clauses.T).max(1),
            names @ bare,
            told_words,
        ]
    )
    answers = acts is not None
    options = np.hstack([near * answers, near * (not answers), near - near.mean(0)])
    length = np.log1p(len(text.split()))
    odds = [0.0] * len(ACTS) if acts is None else [_odds(acts[act]) for act in ACTS]
    none = [answers, not answers, answers * length, (not answers) * length, "?" in text, *odds]
    return options, np.array(none, float)


def says_word(slot: Slot, text: str, option: int) -> bool:
    """Whether a message says a word of an option that no other option has: "the wrong one" where one is wrong_item.

    Example:
        >>> from jazzmine_dspy.models import Slot
        >>> slot = Slot(name="why", type="choice", options=["damaged_item", "wrong_item"])
        >>> says_word(slot, "you sent the wrong one", 1), says_word(slot, "the item is blue", 1)
        (True, False)
    """
    own = [{stem(word) for word in plain(each.replace("_", " ")).split()} for each in slot.options]
    others = set().union(*(words for place, words in enumerate(own) if place != option))
    return bool((own[option] - others) & {stem(word) for word in plain(text).split()})


def said_at(text: str, asked: Asked, rows: Floats, option: int) -> int:
    """Where in a message the clause ends that is nearest to an option."""
    vectors = rows[:, : rows.shape[1] // 2]
    clauses = vectors[2 : 2 + asked.clauses]
    nearest = int((clauses @ vectors[2 + asked.clauses + option]).argmax())
    clause = asked.texts[2 + nearest]
    return text.find(clause) + len(clause)


def shares(weights: Weights, options: Floats, none: Floats) -> Floats:
    """The probability of each option; what they lack to 1 is that none is meant."""
    odds = np.append(options @ np.array(weights.options), none @ np.array(weights.none))
    shares = np.exp(odds - odds.max())
    found: Floats = (shares / shares.sum())[:-1]
    return found


@lru_cache(maxsize=1)
def shipped() -> Weights:
    """The weights that come with the package, for the bundled embedding model."""
    held = json.loads(files(__package__).joinpath(FILE).read_text("utf-8"))
    return Weights(tuple(held["options"]), tuple(held["none"]))


def _odds(share: float) -> float:
    return float(np.log(max(share, _LEAST) / max(1.0 - share, _LEAST)))
