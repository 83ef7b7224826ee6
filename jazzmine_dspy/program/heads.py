"""Local heads: small linear models, served with numpy in microseconds, kept as safetensors.

What a head sees of a turn is defined here too, so that training and serving can't come apart.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jazzmine_dspy.models._base import canonical_json, sha256
from jazzmine_dspy.models.errors import ArtifactError, InputError
from jazzmine_dspy.models.turn import ConversationStatus

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from jazzmine_dspy.models.turn import Turn

SELECTION_FEATURES = "selection/1"
"""Name of what :func:`selection_features` makes; to be raised with every change of it."""

# Not the enum's own order: a status added there must not move the others.
_STATUSES = (
    ConversationStatus.IDLE,
    ConversationStatus.IN_FLOW,
    ConversationStatus.COLLECTING_SLOTS,
    ConversationStatus.AWAITING_CONFIRMATION,
    ConversationStatus.EXECUTING_ACTION,
)
STATE_SIZE = len(_STATUSES) + 3
"""Features that stem from the state."""

_STATE_SCALE = 0.25
"""What a state feature is instead of 1: the embedding has length 1 as a whole. Of 0.25, 0.5 and 1 the one
with the least out-of-fold log-loss on the training turns of the support dataset (0.824, 0.844, 0.880)."""


def selection_features(vector: NDArray[Any], turn: Turn) -> NDArray[np.float32]:
    """What the selection head sees: the embedding, then the state.

    Args:
        vector: Embedding of the message (rewritten, where there is a rewrite), shape (size,).
        turn: The turn, for its state alone.

    Returns:
        Shape (size + 8,), float32: the embedding; one-hot status; whether there is a history, a paused flow,
        an awaited slot. What holds is 0.25, what does not 0.

    Raises:
        InputError: ``vector`` has another shape than (size,).
    """
    if np.ndim(vector) != 1:
        raise InputError("A head takes one vector at a time", where=f"shape {np.shape(vector)}")
    state = [float(turn.status is status) for status in _STATUSES]
    state += [float(bool(turn.history)), float(bool(turn.paused)), float(turn.awaiting is not None)]
    return np.concatenate([vector, np.multiply(state, _STATE_SCALE)]).astype(np.float32)


class LinearHead:
    """Multinomial logistic regression.

    Args:
        labels: Names, each once.
        weights: Shape (number of labels, number of features); kept as float32.
        bias: Shape (number of labels,).
        temperature: Divides the scores: above 1 makes the head less sure, without changing its ranking.
        features: Name of the features that it was trained on, kept with it.

    Raises:
        ArtifactError: sizes do not fit, a number is not finite, or the temperature is not positive.

    Example:
        >>> head = LinearHead(["track_order", "none"], [[2.0], [-2.0]], [0.0, 0.0])
        >>> [(label, round(p, 3)) for label, p in head.predict(np.array([0.5]))]
        [('track_order', 0.881), ('none', 0.119)]
    """

    def __init__(
        self,
        labels: Sequence[str],
        weights: ArrayLike,
        bias: ArrayLike,
        temperature: float = 1.0,
        *,
        features: str = "",
    ) -> None:
        self.labels = tuple(labels)
        self.weights = _frozen(weights)
        self.bias = _frozen(bias)
        self.temperature = float(temperature)
        self.features = features
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ArtifactError("A head needs labels, each once", where=f"{len(self.labels)} labels")
        if (
            self.weights.ndim != 2
            or len(self.weights) != len(self.labels)
            or self.bias.shape != (len(self.labels),)
        ):
            raise ArtifactError(
                "The weights of a head do not fit its labels",
                where=f"{len(self.labels)} labels, weights {self.weights.shape}, bias {self.bias.shape}",
                remedy="Compile the program again.",
            )
        if not np.isfinite(self.weights).all() or not np.isfinite(self.bias).all():
            raise ArtifactError("The weights of a head are not finite", remedy="Compile the program again.")
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ArtifactError(
                f"The temperature of a head is {self.temperature}, not positive",
                remedy="Compile the program again.",
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> LinearHead:
        return self

    @property
    def fingerprint(self) -> str:
        """SHA-256 over labels, weights and settings."""
        return sha256(self._description().encode() + self.weights.tobytes() + self.bias.tobytes())

    def probabilities(self, vectors: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities of shape (number of vectors, number of labels), in the order of :attr:`labels`.

        Raises:
            InputError: a vector has another size than the head was trained on, or is not finite.
        """
        vectors = np.asarray(vectors, dtype=np.float64)
        if vectors.ndim != 2 or vectors.shape[1] != self.weights.shape[1]:
            raise InputError(
                f"The head was trained on {self.weights.shape[1]} features",
                where=f"vectors of shape {vectors.shape}",
                remedy="Bind the embedding model that the program was compiled with.",
            )
        if not np.isfinite(vectors).all():
            raise InputError("A vector for a head is not finite", remedy="Check the embedding model.")
        scores = (vectors @ self.weights.T.astype(np.float64) + self.bias) / self.temperature
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def predict(self, vector: NDArray[Any]) -> list[tuple[str, float]]:
        """Labels with probabilities, best first; they sum to 1. Equal ones stand in the order of the labels.

        Args:
            vector: Features of one turn, shape (number of features,).

        Raises:
            InputError: as of :meth:`probabilities`.
        """
        row = self.probabilities(np.asarray(vector)[None])[0]
        return [(self.labels[index], float(row[index])) for index in np.argsort(-row, kind="stable")]

    def to_bytes(self) -> bytes:
        """The head as a safetensors file; equal heads give equal bytes."""
        from safetensors.numpy import save

        return save({"bias": self.bias, "weights": self.weights}, metadata={"head": self._description()})

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str = "heads.safetensors") -> LinearHead:
        """The inverse of :meth:`to_bytes`.

        Args:
            data: A whole safetensors file.
            where: What errors call it.

        Raises:
            ArtifactError: the data are damaged, no head, of a newer format, or of other features.
        """
        from safetensors.numpy import load

        remedy = "Compile the program again."
        try:
            arrays = load(data)
            # safetensors tells the metadata of files only; they are in the JSON that its length precedes.
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            said = json.loads(header["__metadata__"]["head"])
            if said["format"] != 1:
                raise ArtifactError(f"The head has the unknown format {said['format']}")
            if said["features"] not in ("", SELECTION_FEATURES):
                raise ArtifactError(f"The head was trained on other features ({said['features']})")
            labels, temperature = said["labels"], said["temperature"]
            return cls(labels, arrays["weights"], arrays["bias"], temperature, features=said["features"])
        except ArtifactError as error:
            raise ArtifactError(
                error.message, where=error.where or where, remedy=error.remedy or remedy
            ) from error
        except Exception as error:
            raise ArtifactError(
                f"The head cannot be read: {type(error).__name__}: {error}", where=where, remedy=remedy
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`to_bytes` to a file. An existing file is replaced at once or not at all."""
        target = Path(path)
        made = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        try:
            made.write_bytes(self.to_bytes())
            made.replace(target)
        finally:
            made.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearHead:
        """Read what :meth:`save` wrote.

        Raises:
            ArtifactError: the file cannot be read, or as of :meth:`from_bytes`.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ArtifactError(
                f"The head cannot be read: {error.strerror}",
                where=str(path),
                remedy="Compile the program again.",
            ) from error
        return cls.from_bytes(data, where=str(path))

    def _description(self) -> str:
        return canonical_json(
            {
                "format": 1,
                "labels": list(self.labels),
                "shape": list(self.weights.shape),
                "temperature": self.temperature,
                "features": self.features,
            }
        )


def _frozen(numbers: ArrayLike) -> NDArray[np.float32]:
    """A copy of one's own that nobody can change: the fingerprint speaks for it."""
    array = np.array(numbers, dtype=np.float32, order="C")
    array.setflags(write=False)
    return array
