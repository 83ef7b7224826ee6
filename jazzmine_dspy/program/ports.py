"""Ports: what the program asks of the world. They are bound at run time and never saved with it.

Every port has a ``fingerprint`` of its content, which enters the cache key, and ``__deepcopy__`` returns the port
itself: optimizers copy programs, and a copied client or index would be a second one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jazzmine_dspy.models.decision import Recalled

__all__ = ["EmbedderPort", "HeadPort", "RecallPort", "Recalled"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@runtime_checkable
class RecallPort(Protocol):
    """Finds the flows that a message may want.

    Duties: at most ``k`` results, each flow once, best first, ties in the registry's order; only flows of
    ``allowed`` where it is given; examples that stem from a conversation of ``exclude`` do not count, so that
    nothing is fitted on its own answer. ``summaries`` of earlier episodes weigh less than the query.
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
    """Turns texts into unit vectors. Errors: ``EmbeddingError``."""

    @property
    def fingerprint(self) -> str:
        """Names the model and its weights."""
        ...

    @property
    def size(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (number of texts, size)."""
        ...

    async def aembed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same without blocking the loop."""
        ...


@runtime_checkable
class HeadPort(Protocol):
    """A small local model behind one stage."""

    @property
    def fingerprint(self) -> str:
        """Changes with its weights."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """All that it may answer."""
        ...

    def predict(self, vector: NDArray[Any]) -> list[tuple[str, float]]:
        """Labels with probabilities, best first; they sum to 1."""
        ...
