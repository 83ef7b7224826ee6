"""The head of feeling, as a run trains it, an artefact holds it, and the package ships it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models import Command, Enhancement, Turn
from jazzmine_dspy.models.base import Shared
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.program.heads.acts.shipped import ActsHead, read_shipped
from jazzmine_dspy.program.heads.feeling import sentiment, topic
from jazzmine_dspy.program.heads.feeling.linear import Linear
from jazzmine_dspy.program.heads.feeling.sentiment import Sentiment
from jazzmine_dspy.program.heads.feeling.topic import Topic
from jazzmine_dspy.program.ports import EmbedderPort, Floats, HeadInput, HeadOutput, HeadState

SHIPPED = "9290535a90a27be2c95721ffe0c8dfbc2f09249ac6f29ab82b3d0d34d065550b"
"""SHA-256 of the shipped head; what a program decides may change with it."""

_FORMAT = 1


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

    texts_of = staticmethod(ActsHead.texts_of)

    def feels(self, turn: Turn, message: Floats) -> float:
        """The sentiment of a message, from -1 to 1.

        Raises:
            InputError: the features are not of the model that the head was fitted with.
        """
        return self.sentiment.score(sentiment.row_of(turn.text, message))

    def leaves(self, turn: Turn, commands: Sequence[Command], message: Floats, asked: Floats | None) -> bool:
        """Whether a message leaves the topic, by its decided commands.

        Raises:
            InputError: the features are not of the model that the head was fitted with.
        """
        return self.topic.leaves(topic.row_of(turn, commands, message, asked))

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
