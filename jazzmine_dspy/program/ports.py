"""Ports: what the program asks of the world. They are bound at run time and never saved with it.

Every port has a ``fingerprint`` of its content, which enters the cache key, and ``__deepcopy__`` returns the port
itself: optimizers copy programs, and a copied client or index would be a second one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from jazzmine_dspy.models.decision import Recalled

__all__ = ["Clause", "EmbedderPort", "HeadPort", "Judgement", "RecallPort", "Recalled", "Seen"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jazzmine_dspy.models.turn import Turn


@runtime_checkable
class RecallPort(Protocol):
    """Finds the flows that a message may want.

    Duties: at most ``k`` results, each flow once, best first, ties in the registry's order; only flows of
    ``allowed`` where it is given; examples that stem from a conversation of ``exclude`` do not count, so that
    nothing is fitted on its own answer. ``summaries`` of earlier episodes weigh less than the query, and do not
    enter ``similarity``, ``support`` and ``near``.
    Errors: ``EmbeddingError`` or ``MemoryUnavailableError`` where it cannot answer; never an empty list instead.
    """

    @property
    def fingerprint(self) -> str:
        """Changes with whatever may change an answer."""
        ...

    def recall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """Candidates for a query."""
        ...  # fmt: skip

    async def arecall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """The same without blocking the loop."""
        ...  # fmt: skip


@runtime_checkable
class EmbedderPort(Protocol):
    """Turns texts into vectors. Errors: ``EmbeddingError``.

    ``embed`` gives unit vectors, for recall. ``features`` gives what heads see: the same vector, or a longer one where
    the model tells more in the same pass. Both remember a text that was asked for a moment ago.
    """

    @property
    def fingerprint(self) -> str:
        """Names the model and its weights."""
        ...

    @property
    def size(self) -> int:
        """Length of a vector."""
        ...

    @property
    def feature_size(self) -> int:
        """Length of a row of :meth:`features`."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (number of texts, size)."""
        ...

    async def aembed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same without blocking the loop."""
        ...

    def features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Rows of shape (number of texts, feature_size)."""
        ...

    async def afeatures(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same without blocking the loop."""
        ...


class Clause(NamedTuple):
    """A part of a message that may be a wish of its own."""

    text: str
    features: NDArray[np.float32]


class Seen(NamedTuple):
    """All that a selection head sees of a turn.

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


class Judgement(NamedTuple):
    """What a selection head says of a turn.

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

    def judge(self, seen: Seen) -> Judgement:
        """The flows that a message wants."""
        ...
