"""The seam between procedural memory and what stores its points: a Qdrant server, or NumPy in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from jazzmine_dspy.memory.errors import DimensionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SparseVector = tuple[list[int], list[float]]
"""Ids of word stems, and their weights."""

_NO_CONDITION: Mapping[str, Sequence[str]] = MappingProxyType({})


class CollectionSpec(NamedTuple):
    """A collection and its vectors.

    Args:
        name: Name of the collection.
        size: Length of a dense vector.
        dense: Name of the dense vector (cosine).
        sparse: Name of the BM25 vector (with Qdrant's IDF modifier).
        indexed: Payload keys with a keyword index on a server.
    """

    name: str
    size: int
    dense: str = "flow"
    sparse: str = "bm25"
    indexed: tuple[str, ...] = ("agent_id", "flow_name", "kind", "embedder")


class Point(NamedTuple):
    """A point to write: a UUID, its vectors, and JSON stored with them. ``sparse`` may be empty."""

    id: str
    dense: NDArray[np.float32]
    sparse: SparseVector
    payload: Mapping[str, Any]


class Query(NamedTuple):
    """A query for one ranked list: by a dense vector, or by words."""

    dense: NDArray[np.float32] | None = None
    sparse: SparseVector = ([], [])


class Hit(NamedTuple):
    """A point of a ranked list. ``score`` is the cosine or the BM25 score; ``payload`` has the requested fields."""

    id: str
    score: float
    payload: Mapping[str, Any]


class Filter(NamedTuple):
    """Which points count: the payload has one of the values for each key of ``must``, and none of ``must_not``."""

    must: Mapping[str, Sequence[str]] = _NO_CONDITION
    must_not: Mapping[str, Sequence[str]] = _NO_CONDITION


ALL = Filter()


class Engine(ABC):
    """Stores points in collections and returns the nearest ones. Several threads may call it at once.

    A search filters before it limits, and returns each list best first. BM25 counts ln((N - n + 0.5) / (n + 0.5) + 1)
    over the whole collection; a point without words is no document. A collection that does not exist has no points.

    Errors: ``MemoryUnavailableError`` where the engine cannot answer; ``DimensionError`` from :meth:`ensure` where the
    collection exists with other vectors, and stays as it is.
    """

    where: str
    """The address, for errors."""

    @abstractmethod
    def ensure(self, spec: CollectionSpec) -> None:
        """Create the collection unless it exists; check its vectors if it does."""

    @abstractmethod
    def search(
        self,
        spec: CollectionSpec,
        queries: Sequence[Query],
        *,
        limit: int,
        where: Filter = ALL,
        fields: Sequence[str] = (),
    ) -> list[list[Hit]]:
        """Return the ``limit`` best points of each query, with these fields of their payloads."""

    @abstractmethod
    def upsert(self, spec: CollectionSpec, points: Sequence[Point]) -> None:
        """Write points, and wait until they can be found; an id that exists is replaced."""

    @abstractmethod
    def delete(self, spec: CollectionSpec, ids: Sequence[str]) -> None:
        """Remove points, and wait until they are gone; unknown ids are ignored."""

    @abstractmethod
    def scroll(
        self, spec: CollectionSpec, where: Filter = ALL, fields: Sequence[str] = ()
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Iterate over (id, payload) of all points that pass; without ``fields`` the whole payload."""

    @abstractmethod
    def close(self) -> None:
        """Release connections; may be called twice."""


def dimension_error(spec: CollectionSpec, current: str, where: str) -> DimensionError:
    """The error for a collection whose vectors are not those of the embedding model.

    Args:
        spec: The collection as it should be.
        current: The vectors that it has, in words.
        where: Its address.
    """
    return DimensionError(
        f"The collection {spec.name!r} has other vectors: {current}, where the embedding model makes {spec.size} "
        f"({spec.dense!r}, cosine) and {spec.sparse!r}",
        where=where,
        remedy="Use the embedding model of the first sync, or another prefix or collection.",
    )
