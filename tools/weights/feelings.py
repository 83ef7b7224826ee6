"""Messages with their sentiment: phrases, and what eval/suites/feeling labels."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from jazzmine_dspy.eval.suite.model import CONVERSATIONS
from jazzmine_dspy.optimize.local.feeling import Phrase

ROOT = Path(__file__).resolve().parents[2]
FEELING = ROOT / "eval" / "suites" / "feeling"
LEARNT = ("campsite", "optician")
"""Practice registries whose messages are labelled."""

_PRACTICE_WEIGHT = 1 / 3
"""Of the messages that were drawn because a head read them wrongly: they are harder than most."""


class Label(NamedTuple):
    """What a labeller reads in a message.

    Args:
        sentiment: From -1.0 to 1.0.
        continues: Whether it stays with the topic.
    """

    sentiment: float
    continues: bool


def phrases() -> list[Phrase]:
    """All messages that the shipped head learns from besides the dataset's turns."""
    own = _sections(ROOT / "tools" / "weights" / "feelings.txt", 1.0)
    practice = _sections(ROOT / "tools" / "weights" / "feelings_practice.txt", _PRACTICE_WEIGHT)
    in_sight = [
        Phrase(text, sentiment, f"in sight {place}")
        for place, (text, sentiment) in enumerate(messages("in_sight"))
    ]
    return [*own, *practice, *in_sight, *(phrase for name in LEARNT for phrase in _labelled(name))]


def messages(name: str) -> list[tuple[str, float]]:
    """The messages of a file of eval/suites/feeling with their sentiment."""
    lines = (FEELING / f"{name}.tsv").read_text("utf-8").splitlines()
    pairs = (line.split("\t", 1) for line in lines)
    return [(text, float(sentiment)) for sentiment, text in pairs]


def labels(name: str) -> list[dict[str, Label]]:
    """The labellings of a registry's messages, each by CONVERSATION.TURN, both from 0."""
    return [
        {
            key: Label(float(sentiment), continues == "1")
            for key, sentiment, continues in (
                line.split("\t") for line in file.read_text("utf-8").splitlines() if line
            )
        }
        for file in sorted((FEELING / "labels").glob(f"{name}_?.tsv"))
    ]


def key_of(conversation: int, turn: int) -> str:
    """The key of a message in :func:`labels`; both numbers from 0."""
    return f"{conversation:02d}.{turn}"


def _labelled(name: str) -> Iterator[Phrase]:
    """The messages of a practice registry, with the mean of its labels."""
    readings = labels(name)
    file = ROOT / "eval" / "suites" / "practice" / f"{name}{CONVERSATIONS}"
    for place, conversation in enumerate(yaml.safe_load(file.read_text("utf-8"))):
        for number, turn in enumerate(conversation["turns"]):
            key = key_of(place, number)
            sentiment = statistics.mean(reading[key].sentiment for reading in readings)
            yield Phrase(turn["user"], sentiment, conversation["id"])


def _sections(file: Path, weight: float) -> list[Phrase]:
    """The lines of a file below their "=" SENTIMENT."""
    result, sentiment = [], 0.0
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("="):
            sentiment = float(line[1:])
        elif line and not line.startswith("#"):
            result.append(Phrase(line, sentiment, weight=weight))
    return result
