"""Ports: what the program asks of the world. They are bound at run time and never saved with it.

Recall and embedder are of :mod:`jazzmine_dspy.models.ports`, which memories build on too; heads are its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models import Flow, Recalled, Slot, Turn
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.ports import EmbedderPort, RecallPort
from jazzmine_dspy.models.slots import ANYWHERE, ReadingContext

__all__ = [
    "Clause",
    "EmbedderPort",
    "HeadExample",
    "HeadInput",
    "HeadOutput",
    "HeadPort",
    "HeadState",
    "RecallPort",
    "Recalled",
    "SeesTurn",
    "SelectionOutput",
    "Stored",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Floats = NDArray[np.floating[Any]]
"""An array of numbers of any precision."""


class Clause(NamedTuple):
    """A part of a message that may be a wish of its own."""

    text: str
    features: NDArray[np.float32]


class HeadInput(NamedTuple):
    """What a head is given of a turn.

    Args:
        turn: The turn, for its state. For a head of selection its text is the rewrite where one was made.
        features: Of the message, shape (feature_size,); shape (0,) where the head asked for none.
        recalled: What recall found for the message, best first.
        flows: Names of the flows that may be chosen, in the registry's order.
        clauses: The other texts that the head asked for (:meth:`HeadPort.texts`), in their order.
        hidden: Names of the other flows, which may not be chosen now: what wants one of them wants none of ``flows``.
        query: The message as it was rewritten; the message itself where it was not.
        slots: Slots that the message may fill: those of the running flow, and of the flows that start.
        tasks: Flows by name: the running one, those that start, and those set aside, where the registry has them.
        starting: Names of the flows that start, in their order.
        at: Where and when the message is said, as its values are read.
        read: The trained reader's vector of the message, shape (384,); None if it was not read.
    """

    turn: Turn
    features: NDArray[np.float32]
    recalled: Sequence[Recalled]
    flows: Sequence[str]
    clauses: Sequence[Clause] = ()
    hidden: Sequence[str] = ()
    query: str = ""
    slots: Sequence[Slot] = ()
    tasks: Mapping[str, Flow] = MappingProxyType({})
    starting: Sequence[str] = ()
    at: ReadingContext = ANYWHERE
    read: NDArray[np.float32] | None = None


class HeadOutput(NamedTuple, Generic[T]):
    """What a head predicts.

    Args:
        value: The stage's value: an ``Enhancement``, or a list of commands.
        confidence: Calibrated probability, from 0 to 1, that it is right.
    """

    value: T
    confidence: float


class HeadExample(NamedTuple, Generic[T]):
    """What a head is trained on.

    Args:
        given: What it will be given in service.
        wanted: The stage's value, as labelled.
        conversation: Id of the conversation: what is held out for testing is held out by it.
        flows: What the turn starts, as labelled; empty where that is nothing or not labelled.
    """

    given: HeadInput
    wanted: T
    conversation: str
    flows: tuple[str, ...] = ()


class SelectionOutput(NamedTuple):
    """What a selection head predicts for a turn.

    Args:
        flows: What the message wants, in order; empty where no flow is wanted.
        confidence: Calibrated probability, from 0 to 1, that exactly these flows are wanted.
        ranking: Flows that may be chosen, with probabilities, best first, "none" among them; they sum to 1 at most.
        in_scope: Probability, from 0 to 1, that some flow is wanted at all, by the open-set score.
        reason: For a person.
        left: Whether the head leaves the turn to recall, since it cannot judge the flow that seems wanted.
    """

    flows: tuple[str, ...]
    confidence: float
    ranking: tuple[tuple[str, float], ...]
    in_scope: float = 1.0
    reason: str = ""
    left: bool = False


@runtime_checkable
class HeadPort(Protocol[T_co]):
    """A small local model that answers a stage: with a :class:`SelectionOutput`, else with a :class:`HeadOutput`.

    Duties: pure and quick (no I/O, no model of language). A head of selection judges flows that it never learnt by
    ``recalled`` alone, or leaves the turn to recall; equal probabilities stand in the registry's order.
    Errors: ``InputError`` where the features have another shape than it was trained on.
    """

    @property
    def fingerprint(self) -> str:
        """Changes with its weights."""

    def texts(self, message: str) -> tuple[str, ...]:
        """The texts whose features it wants to see: the message, then parts of it. None at all where it reads words.

        A run that trains the head asks the class where this is a static or a class method; else it shows the message.
        """

    def predict(self, given: HeadInput) -> T_co:
        """What a message means for the stage."""


@runtime_checkable
class SeesTurn(Protocol):
    """What a head has beside :class:`HeadPort` that wants to see other texts than the message and parts of it."""

    def texts_of(self, turn: Turn) -> tuple[str, ...]:
        """The texts whose features it wants to see: the message, then others of the turn."""


class HeadState(NamedTuple):
    """All that a trained model knows: arrays of numbers by name, and the rest as JSON."""

    arrays: dict[str, NDArray[Any]]
    settings: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all of it."""
        arrays = [sha256(array.tobytes()) for _, array in sorted(self.arrays.items())]
        return sha256([arrays, self.settings])


@runtime_checkable
class Stored(Protocol):
    """What an artefact can hold of a trained model: a head, or a decider of another package."""

    def to_state(self) -> HeadState:
        """All that it knows; equal models have equal states."""

    @classmethod
    def from_state(cls, state: HeadState) -> Self:
        """The inverse of :meth:`to_state`.

        Raises:
            ArtifactError: the state is of another format.
        """
