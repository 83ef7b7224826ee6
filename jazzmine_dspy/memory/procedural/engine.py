"""The seam between procedural memory and what stores its points: Qdrant by URL, its local mode, or qdrant-edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Words = tuple[list[int], list[float]]
"""A sparse vector: ids of word stems, and their weights."""


class Layout(NamedTuple):
    """Names of a collection and of its vectors.

    Args:
        collection: Name of the collection.
        size: Length of a dense vector.
        dense, sparse: Names of the dense vector (cosine) and of the BM25 one (with Qdrant's IDF modifier).
        indexed: Payload keys with a keyword index, where the engine keeps any.
    """

    collection: str
    size: int
    dense: str = "flow"
    sparse: str = "bm25"
    indexed: tuple[str, ...] = ("agent_id", "flow_name", "kind")


class StoredPoint(NamedTuple):
    """A point to be written: a UUID, its vectors, and JSON that is kept beside them."""

    id: str
    dense: NDArray[np.float32]
    sparse: Words
    payload: Mapping[str, Any]


class Branch(NamedTuple):
    """One ranked list to ask for: nearest by a dense vector, or by words."""

    dense: NDArray[np.float32] | None = None
    words: Words | None = None


class Hit(NamedTuple):
    """A point that was found. ``score`` is the cosine, or the BM25 score; ``payload`` is empty unless asked for."""

    id: str
    score: float
    payload: Mapping[str, Any]


EXACT_UP_TO = 20_000
"""Points of a collection up to which every vector is compared as it is."""

Where = Mapping[str, Sequence[str]]
"""A filter: a point passes whose payload has, for every key, one of the values. Empty lets all pass."""


@runtime_checkable
class Engine(Protocol):
    """Keeps points in collections and finds the nearest of them.

    Duties: :meth:`search` is exact where the collection is small (approximate search is the engine's own choice above
    20,000 points), filters before it limits, and gives each list best first; an id is written whole or not at all, and
    writing it again replaces it; may be called by several threads at once; nothing is kept open after :meth:`close`.
    BM25 counts the points that are there, ln((N - n + 0.5) / (n + 0.5) + 1) over the whole collection; a point
    without words is no document. Callers :meth:`ensure` a collection before they use it.

    Errors: ``MemoryUnavailableError`` where the engine can't answer in time, with its address; ``DimensionError`` from
    :meth:`ensure` where the collection is there with other vectors, which is then left as it is.
    """

    name: str
    """``server``, ``local`` or ``edge``."""

    def ensure(self, layout: Layout) -> None:
        """Create the collection where it is absent; check it where it is there."""
        ...

    def search(
        self,
        layout: Layout,
        branches: Sequence[Branch],
        *,
        depth: int,
        where: Where,
        payload: Sequence[str] = (),
    ) -> list[list[Hit]]:
        """The ``depth`` best points of each branch, in one round trip, with these keys of their payloads."""
        ...

    def upsert(self, layout: Layout, points: Sequence[StoredPoint]) -> None:
        """Write points."""
        ...

    def delete(self, layout: Layout, ids: Sequence[str]) -> None:
        """Remove points; ids that are not there are no error."""
        ...

    def scroll(
        self, layout: Layout, where: Where, keys: Sequence[str] = ()
    ) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """All points that pass, as (id, payload), the payload cut to ``keys`` where they are given."""
        ...

    def collections(self) -> list[str]:
        """Names of all collections."""
        ...

    def drop(self, collection: str) -> None:
        """Remove a collection whole; one that is not there is no error."""
        ...

    def close(self) -> None:
        """Give back what is held; may be called twice."""
        ...
