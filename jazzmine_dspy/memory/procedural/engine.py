"""The seam between procedural memory and what stores its points: Qdrant by URL, its local mode, or qdrant-edge."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from jazzmine_dspy.memory.errors import DimensionError, MissingExtraError
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError, format_error

if TYPE_CHECKING:
    import ssl

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


@runtime_checkable
class Engine(Protocol):
    """Stores points in collections and returns the nearest ones. Several threads may call it at once.

    A search filters before it limits, and returns each list best first. It is exact up to 20,000 points; above that
    the engine may search approximately. BM25 counts ln((N - n + 0.5) / (n + 0.5) + 1) over the whole collection; a
    point without words is no document. A collection that does not exist has no points.

    Errors: ``MemoryUnavailableError`` where the engine cannot answer; ``DimensionError`` from :meth:`ensure` where the
    collection exists with other vectors, and stays as it is.
    """

    where: str
    """The address, for errors."""

    def ensure(self, spec: CollectionSpec) -> None:
        """Create the collection unless it exists; check its vectors if it does."""
        ...

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
        ...

    def upsert(self, spec: CollectionSpec, points: Sequence[Point]) -> None:
        """Write points; an id that exists is replaced."""
        ...

    def delete(self, spec: CollectionSpec, ids: Sequence[str]) -> None:
        """Remove points; unknown ids are ignored."""
        ...

    def scroll(
        self, spec: CollectionSpec, where: Filter = ALL, fields: Sequence[str] = ()
    ) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """Iterate over (id, payload) of all points that pass; without ``fields`` the whole payload."""
        ...

    def close(self) -> None:
        """Release connections, files and locks; may be called twice."""
        ...


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


def open_engine(
    where: str | os.PathLike[str],
    engine: str = "auto",
    *,
    api_key: str | None = None,
    timeout: float = 2.0,
    retries: int = 3,
    verify: bool | str | ssl.SSLContext = True,
) -> Engine:
    """Open a server by URL, or an embedded engine on a folder or in memory.

    Args:
        where: ``http(s)://HOST:PORT``; or a folder, which is created if it does not exist; or ``:memory:``.
        engine: Without a URL: ``edge``, ``local``, or ``auto``, which is the engine that created the folder. For a new
            one it is edge if installed (the extra ``local``), since it is far quicker; ``make bench`` measures both.
        api_key: Of the server.
        timeout: Seconds that a search on a server may take; a write may take ten times as long.
        retries: Further attempts on a server after one that failed.
        verify: Whether a server's certificate is checked; or a PEM file of authorities; or an SSL context.

    Raises:
        InputError: There is no such engine, or the URL or a number is invalid.
        MemoryUnavailableError: Another engine has the folder open, or it cannot be written.
        MissingExtraError: Edge is requested, or created the folder, and is not installed.

    Example:
        >>> engine = open_engine(":memory:", "local")
        >>> engine.where
        'Qdrant embedded, :memory:'
        >>> engine.close()
    """
    path = os.fspath(where)
    if engine not in ("auto", "edge", "local"):
        raise InputError(f"There is no embedded engine {engine!r}", remedy="Choose auto, edge or local.")
    if "://" in path:
        from jazzmine_dspy.memory.procedural.qdrant_engine import open_server

        return open_server(path, api_key=api_key, timeout=timeout, retries=retries, verify=verify)
    is_installed = find_spec("qdrant_edge") is not None
    if engine == "auto":
        is_edge = any(Path(path).glob("*/edge_config.json"))
        is_local = (Path(path) / "meta.json").exists()
        engine = "edge" if is_edge or (is_installed and not is_local) else "local"
    if engine == "local":
        from jazzmine_dspy.memory.procedural.qdrant_engine import open_local

        return open_local(path)
    if not is_installed:
        raise MissingExtraError(
            "The edge engine needs the package qdrant-edge-py, which is not installed",
            where=path,
            remedy="Run: pip install 'jazzmine-dspy[local]'.",
        )
    from jazzmine_dspy.memory.procedural.edge import EdgeEngine

    return EdgeEngine(path)
