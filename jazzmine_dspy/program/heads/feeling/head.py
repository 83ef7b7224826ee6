"""The head of feeling: sentiment and change of topic, as a run trains it, and as the package ships it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models import Command, Enhancement, MessageRole, Turn
from jazzmine_dspy.models.base import Shared
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.program.heads.acts.model import Acts, read_shipped
from jazzmine_dspy.program.heads.acts.view import last_said
from jazzmine_dspy.program.heads.feeling.sentiment import Linear, Sentiment, fit_linear, sentiment_row
from jazzmine_dspy.program.ports import EmbedderPort, Floats, HeadInput, HeadOutput, HeadState

SHIPPED = "9290535a90a27be2c95721ffe0c8dfbc2f09249ac6f29ab82b3d0d34d065550b"
"""SHA-256 of the shipped head; what a program decides may change with it."""

_FORMAT = 1


_KINDS = (
    "start_flow", "resume_flow", "out_of_scope", "ask", "clarify", "chitchat", "cancel_flow", "handoff", "repeat",
    "restart", "set_slot", "correct_slot", "affirm", "deny", "skip_slot", "clear_slot",
)  # fmt: skip
_LEAVES = ("start_flow", "resume_flow", "out_of_scope", "ask", "clarify", "chitchat")
_UPPER, _MEANING = 8.0, 0.7
_TURNS_AWAY = re.compile(
    r"\b(?:also|another (?:thing|question|matter)|next|something else|by the way|btw|different|separate(?:ly)?|"
    r"now (?:then|for|what)|one more thing|while i|meanwhile|back to|where were we|new (?:topic|question)|other)\b",
    re.IGNORECASE,
)
_STAYS = re.compile(
    r"^\W*(?:no|yes|yeah|and|but|hold on|wait|sorry|actually|make|instead|the)\b", re.IGNORECASE
)


def topic_row(turn: Turn, commands: Sequence[Command], message: Floats, asked: Floats | None) -> Floats:
    """A turn as numbers.

    Args:
        turn: The message and its state.
        commands: What was decided.
        message, asked: Features of the message, and of the assistant's last; None where it said nothing.
    """
    kinds = {command.type for command in commands}
    text = turn.text
    said = last_said(turn)
    users = [one.text for one in turn.history if one.role is MessageRole.USER]
    idle = turn.load == "idle"
    state = [
        idle, bool(turn.paused), turn.awaiting is not None, turn.confirming is not None, bool(turn.clarifying),
        idle and said.rstrip().endswith("?"), idle and " or " in said and "?" in said, len(users) == 1,
        len(users) == 1 and len(users[0].split()) <= 3, bool(_TURNS_AWAY.search(text)), bool(_STAYS.search(text)),
        len(text.split()) <= 4, len(text.split()) > 10, "?" in text, turn.offering is not None, not kinds,
    ]  # fmt: skip
    acts = [kind in kinds for kind in _KINDS]
    leaves = [kind in kinds for kind in _LEAVES]
    both = np.outer(np.array(leaves, float), np.array(state, float)).ravel()
    near = 0.0 if asked is None else float(message @ asked) / (_UPPER * _UPPER)
    alike = [near, near * any(leaves[:2]), 1.0]
    parts: list[Floats] = [
        np.array([*state, *acts], float),
        both,
        np.array(alike),
        message / _UPPER * _MEANING,
    ]
    return np.concatenate(parts).astype(np.float32)


class Topic(NamedTuple):
    """The model of "leaves the topic", and from which probability on it holds."""

    model: Linear
    least: float

    def leaves(self, row: Floats) -> bool:
        """Whether the message leaves the topic."""
        return bool(self.model.probabilities(row[None])[0, 0] >= self.least)


def fit_topic(rows: Floats, left: Sequence[bool], groups: Sequence[str], start: Topic | None = None) -> Topic:
    """Fit the head on labelled turns.

    Args:
        rows: Of :func:`topic_row`, of turns with a history.
        left: Whether each leaves the topic.
        groups: Rows of one group are left out together.
        start: Weights to stay near to.
    """
    right = np.asarray(left, bool)[:, None]
    model, shares = fit_linear(rows, right, groups, np.ones(len(rows)), start.model if start else None)
    if start is not None and right.sum() < 20:
        return Topic(model, start.least)
    grid = np.arange(0.2, 0.8, 0.025)
    return Topic(model, float(max(grid, key=lambda least: _f1(shares[:, 0] >= least, right[:, 0]))))


def _f1(said: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    return float(2.0 * np.sum(said & right) / max(1, said.sum() + right.sum()))


class FeelingHead(Shared):
    """Sentiment and change of topic.

    It fills these fields of enhancements that no language model gave. A program without one of its own uses the one
    that comes with the package.

    Args:
        sentiment: The model of sentiment.
        topic: The model of a change of topic.
    """

    def __init__(self, sentiment: Sentiment, topic: Topic) -> None:
        self.sentiment = sentiment
        self.topic = topic
        self.fingerprint = self.to_state().fingerprint
        """SHA-256 over all that decides."""

    def texts(self, message: str) -> tuple[str, ...]:
        """The message."""
        return (message,)

    texts_of = staticmethod(Acts.texts_of)

    def feels(self, turn: Turn, message: Floats) -> float:
        """The sentiment of a message, from -1 to 1.

        Raises:
            InputError: the features are not of the model that the head was fitted with.
        """
        return self.sentiment.score(sentiment_row(turn.text, message))

    def leaves(self, turn: Turn, commands: Sequence[Command], message: Floats, asked: Floats | None) -> bool:
        """Whether a message leaves the topic, by its decided commands.

        Raises:
            InputError: the features are not of the model that the head was fitted with.
        """
        return self.topic.leaves(topic_row(turn, commands, message, asked))

    def predict(self, given: HeadInput) -> HeadOutput[Enhancement]:
        """The message as it stands, with its sentiment."""
        text = given.turn.text
        feeling = self.feels(given.turn, given.features)
        return HeadOutput(Enhancement(enhanced_query=text, sentiment_score=feeling), 0.5)

    def to_state(self) -> HeadState:
        """All that it knows."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, model in (("sentiment", self.sentiment.model), ("topic", self.topic.model)):
            arrays[f"{name}.weights"] = model.weights.astype(np.float16)
            arrays[f"{name}.scales"] = model.scales.astype(np.float32)
        least = {"sentiment": list(self.sentiment.least), "topic": self.topic.least}
        return HeadState(arrays, {"format": _FORMAT, "least": least})

    @classmethod
    def from_state(cls, state: HeadState) -> Self:
        """The inverse of :meth:`to_state`.

        Raises:
            ArtifactError: it is of another format.
        """
        arrays, settings = state
        if settings.get("format") != _FORMAT:
            raise ArtifactError(
                "The head of feeling is of another format", remedy="Compile the program again."
            )
        models = [
            Linear(arrays[f"{name}.weights"].astype(np.float32), arrays[f"{name}.scales"])
            for name in ("sentiment", "topic")
        ]
        negative, positive, angry = (float(each) for each in settings["least"]["sentiment"])
        return cls(
            Sentiment(models[0], (negative, positive, angry)),
            Topic(models[1], float(settings["least"]["topic"])),
        )


@lru_cache(maxsize=1)
def _shipped() -> tuple[FeelingHead, dict[str, str]]:
    state, metadata = read_shipped(__package__)
    return FeelingHead.from_state(state), metadata


def shipped_feeling(embedder: EmbedderPort | None) -> FeelingHead | None:
    """The shipped head, if it was fitted with this embedding model; else None. Read at the first call."""
    if embedder is None:
        return None
    head, metadata = _shipped()
    return head if metadata["embedder"] == embedder.fingerprint else None


def learnt_dataset() -> str:
    """Fingerprint of the dataset that the shipped head has learnt."""
    return _shipped()[1]["dataset"]
