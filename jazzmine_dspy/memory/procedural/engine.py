"""The seam between procedural memory and what stores its points: Qdrant by URL, its local mode, or qdrant-edge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.models.errors import MemoryUnavailableError, format_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SparseVector = tuple[list[int], list[float]]
"""Ids of word stems, and their weights."""

_PAGE = 1000
_NO_CONDITION: Mapping[str, Sequence[str]] = MappingProxyType({})


class CollectionSpec(NamedTuple):
    """A collection and its vectors.

    Args:
        name: Name of the collection.
        size: Length of a dense vector.
        dense: Name of the dense vector (cosine).
        sparse: Name of the BM25 vector (with Qdrant's IDF modifier).
        indexed: Payload keys with a keyword index, where the engine supports one.
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

    def vectors(self, spec: CollectionSpec, library: Any) -> dict[str, Any]:
        """The vectors by their names, as a library takes them; a point without words is no document."""
        words = {spec.sparse: sparse_vector(self.sparse, library)} if self.sparse[0] else {}
        return {spec.dense: self.dense.tolist(), **words}


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

    def of(self, library: Any) -> Any:
        """The same as a library takes it; None where every point counts."""
        if self == ALL:
            return None
        must, must_not = (
            [
                library.FieldCondition(key=key, match=library.MatchAny(any=list(values)))
                for key, values in part.items()
            ]
            for part in self
        )
        return library.Filter(must=must, must_not=must_not)


ALL = Filter()


def sparse_vector(vector: SparseVector, library: Any) -> Any:
    """A sparse vector as a library takes it: qdrant-client's ``models``, or qdrant-edge, which has the same classes."""
    return library.SparseVector(indices=vector[0], values=vector[1])


class Engine(ABC):
    """Stores points in collections and returns the nearest ones. Several threads may call it at once.

    A search filters before it limits, and returns each list best first. It is exact up to 20,000 points; above that
    the engine may search approximately. BM25 counts ln((N - n + 0.5) / (n + 0.5) + 1) over the whole collection; a
    point without words is no document. A collection that does not exist has no points.

    Errors: ``MemoryUnavailableError`` where the engine cannot answer; ``DimensionError`` from :meth:`ensure` where the
    collection exists with other vectors, and stays as it is.
    """

    where: str
    """The address, for errors."""
    library: Any
    """The classes in which filters and vectors are written."""

    @abstractmethod
    def ensure(self, spec: CollectionSpec) -> None:
        """Create the collection unless it exists; check its vectors if it does."""

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
        shared = {"limit": limit, "filter": where.of(self.library), "with_payload": list(fields) or False}
        answers = self._search(spec, queries, shared)
        return [[Hit(str(hit.id), float(hit.score), hit.payload or {}) for hit in hits] for hits in answers]

    @abstractmethod
    def upsert(self, spec: CollectionSpec, points: Sequence[Point]) -> None:
        """Write points, and wait until they can be found; an id that exists is replaced."""

    @abstractmethod
    def delete(self, spec: CollectionSpec, ids: Sequence[str]) -> None:
        """Remove points, and wait until they are gone; unknown ids are ignored."""

    def scroll(
        self, spec: CollectionSpec, where: Filter = ALL, fields: Sequence[str] = ()
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Iterate over (id, payload) of all points that pass; without ``fields`` the whole payload."""
        shared = {"limit": _PAGE, "with_payload": list(fields) or True}
        offset: Any = None
        while True:
            records, offset = self._page(spec, where, {**shared, "offset": offset})
            for record in records:
                yield str(record.id), record.payload or {}
            if offset is None:
                return

    @abstractmethod
    def close(self) -> None:
        """Release connections, files and locks; may be called twice."""

    @abstractmethod
    def _search(
        self, spec: CollectionSpec, queries: Sequence[Query], shared: dict[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """The library's points for each query; all its requests share some arguments."""

    @abstractmethod
    def _page(
        self, spec: CollectionSpec, where: Filter, arguments: dict[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        """The library's next points that pass, and the offset of those behind them."""


def folder_error(error: BaseException, where: str) -> MemoryUnavailableError:
    """The error of an embedded engine for what its library raised."""
    if any(words in str(error) for words in ("already accessed", "WouldBlock")):
        return MemoryUnavailableError(
            "The folder of the flow index is already open in another client or process",
            where=where,
            remedy="Close that one, or use another folder, or ':memory:'.",
        )
    return MemoryUnavailableError(
        f"The flow index does not answer: {format_error(error)}",
        where=where,
        remedy="Check that the folder can be written and has room, or remove it and sync again.",
    )


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
        remedy="Use the embedding model of the first sync, or another folder, prefix or collection.",
    )
