"""Ports: what the program asks of the world. They are bound at run time and never saved with it.

Recall and embedder are of :mod:`jazzmine_dspy.models.ports`, which memories build on too; the head is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.ports import EmbedderPort, RecallPort

__all__ = ["Clause", "EmbedderPort", "HeadInput", "HeadPort", "RecallPort", "Recalled", "SelectionOutput"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jazzmine_dspy.models.turn import Turn


class Clause(NamedTuple):
    """A part of a message that may be a wish of its own."""

    text: str
    features: NDArray[np.float32]


class HeadInput(NamedTuple):
    """What a head is given of a turn.

    Args:
        turn: The turn, for its state.
        features: Of the message, shape (feature_size,).
        recalled: What recall found for the message, best first.
        flows: Names of the flows that may be chosen, in the registry's order.
        clauses: Parts of the message, in their order, where the head asked for them (:meth:`HeadPort.parts`).
        hidden: Names of the other flows, which may not be chosen now: what wants one of them wants none of ``flows``.
    """

    turn: Turn
    features: NDArray[np.float32]
    recalled: Sequence[Recalled]
    flows: Sequence[str]
    clauses: Sequence[Clause] = ()
    hidden: Sequence[str] = ()


class SelectionOutput(NamedTuple):
    """What a selection head predicts for a turn.

    Args:
        flows: What the message wants, in order; empty where no flow is wanted.
        confidence: Calibrated probability, from 0 to 1, that exactly these flows are wanted.
        ranking: Flows that may be chosen, with probabilities, best first, "none" among them; they sum to 1 at most.
        in_scope: Probability, from 0 to 1, that some flow is wanted at all, by the open-set score.
        reason: For a person.
    """

    flows: tuple[str, ...]
    confidence: float
    ranking: tuple[tuple[str, float], ...]
    in_scope: float = 1.0
    reason: str = ""


@runtime_checkable
class HeadPort(Protocol):
    """A small local model that selects flows.

    Duties: pure and quick (no I/O, no model of language); answers for flows that it never learnt through ``recalled``
    alone; equal probabilities stand in the registry's order. Errors: ``InputError`` where the features have another
    shape than it was trained on.
    """

    @property
    def fingerprint(self) -> str:
        """Changes with its weights."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """All that it learnt, "none" included."""
        ...

    def parts(self, text: str) -> tuple[str, ...]:
        """The parts of a message whose features it wants to see; none where the message is one wish."""
        ...

    def predict(self, given: HeadInput) -> SelectionOutput:
        """The flows that a message wants."""
        ...
