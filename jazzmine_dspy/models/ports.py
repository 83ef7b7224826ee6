"""What programs and memories ask of each other: recall of flows, and vectors of texts. Protocols alone.

Every port has a ``fingerprint`` of its content, which enters the cache key, and ``__deepcopy__`` returns the port
itself: optimizers copy programs, and a copied client or index would be a second one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jazzmine_dspy.models.decision import Recalled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors. Errors: ``EmbeddingError``."""

    @property
    def fingerprint(self) -> str:
        """Names the model and its weights."""

    @property
    def size(self) -> int:
        """Length of a vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (number of texts, size)."""


@runtime_checkable
class EmbedderPort(Embedder, Protocol):
    """What a program needs of an embedder, for recall and for heads.

    ``embed`` gives unit vectors, for recall. ``features`` gives what heads see: the same vector, or a longer one where
    the model tells more in the same pass. Both remember a text that was asked for a moment ago.
    """

    @property
    def feature_size(self) -> int:
        """Length of a row of :meth:`features`."""

    def features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Rows of shape (number of texts, feature_size)."""


SUMMARY_WEIGHT = 0.3
"""What a list found by episode summaries counts beside the message's own, which it must never swamp."""


def reciprocal(rank: int, *, k: int, weight: float = 1.0) -> float:
    """The gain of a place in a ranked list, as Qdrant counts it.

    Args:
        rank: The place, from 0.
        k: The larger, the less the first places count; 1 or more.
        weight: Of the list, over 0: place 2 of a list of weight 3 counts as place 0 of one of weight 1.

    Example:
        >>> reciprocal(0, k=10), reciprocal(2, k=10, weight=3.0), reciprocal(1, k=10) == 1 / 11
        (0.1, 0.1, True)
    """
    return 1.0 / ((rank + 1) / weight + k - 1)
