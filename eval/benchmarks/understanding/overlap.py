"""How much of a suite's wording stands in the texts that programs are trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.datasets.load import Dataset
from jazzmine_dspy.eval.equality import words
from jazzmine_dspy.eval.suite.model import Suite
from jazzmine_dspy.program.heads.acts.bank import phrases

SIZES = (6, 3)
"""Words in a row that are looked for."""
SHOWN = 5

Gram = tuple[str, ...]


@dataclass(frozen=True)
class Shared:
    """What a message shares with a text that programs are trained on: the longest run of words."""

    message: str
    text: str
    run: str


@dataclass(frozen=True)
class Overlap:
    """How much of some messages is in other texts, for one length.

    Attributes:
        n: Words in a row.
        grams, shared: How many different ones the messages have, and how many of these stand in the texts.
        messages, touched: Messages of at least so many words, and how many of these hold a shared one.
        worst: Messages that share most, the longest run first.
    """

    n: int
    grams: int
    shared: int
    messages: int
    touched: int
    worst: tuple[Shared, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All of it, with the shares."""
        return {
            "n": self.n,
            "grams": self.grams,
            "shared": self.shared,
            "share": self.shared / self.grams if self.grams else 0.0,
            "messages": self.messages,
            "touched": self.touched,
            "share_of_messages": self.touched / self.messages if self.messages else 0.0,
            "worst": [vars(each) for each in self.worst],
        }


def training_texts(dataset: Dataset) -> Iterator[str]:
    """All texts that a program of this dataset learns from: messages and replies of the train and dev parts, what
    the flows say, and the phrases that the package's own weights were fitted on."""
    seen: set[str] = set()
    for part in ("train", "dev_a", "dev_b"):
        for example in dataset.examples(part):
            said = [example.turn.text, *(message.text for message in example.turn.history)]
            for text in (*said, example.labels.enhanced or ""):
                if text and text not in seen:
                    seen.add(text)
                    yield text
    for flow in dataset.flows.values():
        yield from filter(None, (flow.description, flow.condition, *flow.examples))
        yield from filter(
            None, (text for slot in flow.slots for text in (slot.description, slot.ask, slot.reask))
        )
    yield from (phrase.text for phrase in phrases())


def overlaps(suite: Suite, texts: Iterable[str], sizes: Sequence[int] = SIZES) -> list[Overlap]:
    """How much of a suite's messages stands in some texts; of unseen registries alone, where the suite has such.

    Args:
        suite: Whose messages are looked at.
        texts: Those that programs are trained on.
        sizes: Words in a row, one overlap for each.
    """
    held = [(text, words(text)) for text in texts]
    said = [
        turn.user
        for each in suite.conversations
        if not suite.unseen or each.registry in suite.unseen
        for turn in each.turns
    ]
    return [_overlap(said, held, n) for n in sizes]


def _overlap(messages: Sequence[str], texts: Sequence[tuple[str, list[str]]], n: int) -> Overlap:
    where: dict[Gram, int] = {}
    for number, (_, spoken) in enumerate(texts):
        for gram in grams(spoken, n):
            where.setdefault(gram, number)
    own: set[Gram] = set()
    long = touched = 0
    found: list[tuple[int, Shared]] = []
    for message in messages:
        spoken = words(message)
        mine = list(grams(spoken, n))
        own.update(mine)
        long += bool(mine)
        hits = [place for place, gram in enumerate(mine) if gram in where]
        touched += bool(hits)
        if hits:
            start, length = _longest(hits, n)
            text = texts[where[mine[start]]][0]
            found.append((length, Shared(message, text, " ".join(spoken[start : start + length]))))
    found.sort(key=lambda each: -each[0])
    return Overlap(
        n, len(own), sum(gram in where for gram in own), long, touched, tuple(each for _, each in found[:SHOWN])
    )  # fmt: skip


def _longest(hits: Sequence[int], n: int) -> tuple[int, int]:
    """Where the longest run of neighbouring n-grams begins, and how many words it has."""
    best, begin = (hits[0], n), hits[0]
    for before, place in zip([hits[0] - 1, *hits], hits, strict=False):
        begin = begin if place == before + 1 else place
        if place - begin + n > best[1]:
            best = (begin, place - begin + n)
    return best


def grams(spoken: Sequence[str], n: int) -> Iterator[Gram]:
    """All runs of n words.

    Example:
        >>> list(grams(["a", "b", "c"], 2))
        [('a', 'b'), ('b', 'c')]
    """
    return (tuple(spoken[start : start + n]) for start in range(len(spoken) - n + 1))
