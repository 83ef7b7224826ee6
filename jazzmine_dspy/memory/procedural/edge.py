"""The engine over qdrant-edge: Qdrant's own shards in this process, in a folder, without a server."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from jazzmine_dspy.memory.procedural.engine import (
    CollectionSpec,
    Engine,
    Filter,
    Point,
    Query,
    dimension_error,
    folder_error,
    sparse_vector,
)
from jazzmine_dspy.models.errors import JazzmineError

EXACT_UP_TO = 20_000
"""Points of a collection up to which every vector is compared. Above, 4 bits of each number choose twice the
candidates, and their vectors rank them: an HNSW graph would stop the process while it is built."""

_EXACT = edge.SearchParams(exact=True)
_RESCORED = edge.SearchParams(quantization=edge.QuantizationSearchParams(rescore=True, oversampling=2.0))
# A shard goes on counting the words of points that were removed; with this they are counted for each search.
_RECOUNTED = edge.SearchParams(idf=edge.IdfParams(corpus=edge.Filter()))


class EdgeEngine(Engine):
    """An engine whose collections are shards in a folder.

    A write is in the shard's log before the call returns, so that a killed process loses no finished write.

    Args:
        path: The folder, created if it does not exist, or ``:memory:`` for a temporary one removed with the engine.

    Raises:
        MemoryUnavailableError: The folder cannot be written. If another engine has it open, the first use of a
            collection raises this.

    Example:
        >>> engine = EdgeEngine(":memory:")
        >>> list(engine.scroll(CollectionSpec("flows", 4)))
        []
        >>> engine.close()
    """

    library = edge

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.where = f"qdrant-edge, {os.fspath(path)}"
        self._is_temporary = os.fspath(path) == ":memory:"
        self._lock = threading.RLock()
        self._shards: dict[str, tuple[CollectionSpec, edge.EdgeShard]] = {}
        self._recounted: set[str] = set()
        with self._errors():
            self._folder = Path(tempfile.mkdtemp(prefix="jazzmine-flows-") if self._is_temporary else path)
            self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder if self._is_temporary else None
        self._finish = weakref.finalize(self, _close, self._shards, temporary, os.getpid())

    def ensure(self, spec: CollectionSpec) -> None:
        """Create the collection unless it exists; check its vectors if it does."""
        self._shard(spec, creates=True)

    def _search(
        self, spec: CollectionSpec, queries: Sequence[Query], shared: dict[str, Any]
    ) -> Sequence[Sequence[Any]]:
        shard = self._shard(spec)
        if shard is None:
            return [[] for _ in queries]
        with self._errors():
            is_small = shard.info().points_count <= EXACT_UP_TO
            requests = []
            params: edge.SearchParams | None
            for query in queries:
                if query.dense is not None:
                    nearest = edge.Query.Nearest(query.dense.tolist(), using=spec.dense)
                    params = _EXACT if is_small else _RESCORED
                else:
                    nearest = edge.Query.Nearest(sparse_vector(query.sparse, edge), using=spec.sparse)
                    params = _RECOUNTED if spec.name in self._recounted else None
                requests.append(edge.QueryRequest(query=nearest, params=params, **shared))
            answers: Sequence[Sequence[Any]] = shard.query_batch(edge.QueryBatchRequest(requests))
            return answers

    def upsert(self, spec: CollectionSpec, points: Sequence[Point]) -> None:
        """Write points; an id that exists is replaced."""
        shard = self._shard(spec, creates=True)
        with self._errors():
            batch = [edge.Point(point.id, point.vectors(spec, edge), dict(point.payload)) for point in points]
            shard.update(edge.UpdateOperation.upsert_points(batch))

    def delete(self, spec: CollectionSpec, ids: Sequence[str]) -> None:
        """Remove points; unknown ids are ignored."""
        shard = self._shard(spec)
        if shard is not None and ids:
            with self._errors():
                self._recounted.add(spec.name)
                shard.update(edge.UpdateOperation.delete_points(list(ids)))

    def _page(
        self, spec: CollectionSpec, where: Filter, arguments: dict[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        shard = self._shard(spec)
        if shard is None:
            return [], None
        with self._errors():
            records, offset = shard.scroll(edge.ScrollRequest(filter=where.of(edge), **arguments))
            return records, offset

    def close(self) -> None:
        """Flush and release the folder; a temporary one is removed. May be called twice."""
        with self._lock, self._errors():
            self._finish()

    def _shard(self, spec: CollectionSpec, *, creates: bool = False) -> Any:
        """Open the shard of a collection; None where it does not exist and is not created.

        Raises:
            DimensionError: It has other vectors.
            MemoryUnavailableError: It cannot be opened.
        """
        current, shard = self._shards.get(spec.name, (None, None))
        if current == spec:
            return shard
        folder = self._folder / spec.name
        with self._lock, self._errors():
            if spec.name in self._shards:
                current, shard = self._shards[spec.name]
                if current[1:4] != spec[1:4]:
                    raise dimension_error(spec, f"{current.size} numbers", str(folder))
            elif (folder / "edge_config.json").exists():
                shard = _load(folder, self._config(spec), spec)
                self._recounted.add(spec.name)
            elif not creates:
                return None
            else:
                shutil.rmtree(folder, ignore_errors=True)  # the rest of an unfinished creation
                folder.mkdir(parents=True)
                shard = edge.EdgeShard.create(str(folder), self._config(spec))
                for key in spec.indexed:
                    shard.update(edge.UpdateOperation.create_field_index(key, edge.PayloadSchemaType.Keyword))
            self._shards[spec.name] = spec, shard
            return shard

    def _config(self, spec: CollectionSpec) -> edge.EdgeConfig:
        bits = edge.TurboQuantQuantizationConfig(always_ram=True, bits=edge.TurboQuantBitSize.Bits4)
        return edge.EdgeConfig(
            vectors={spec.dense: edge.EdgeVectorParams(size=spec.size, distance=edge.Distance.Cosine)},
            sparse_vectors={spec.sparse: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
            quantization_config=bits,
            # One segment is searched by one thread; a second thread serves a second caller.
            max_search_threads=2,
            wal_enabled=not self._is_temporary,
        )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate what a shard raises: ``Exception``, or pyo3's PanicException, which is a ``BaseException``."""
        try:
            yield
        except (JazzmineError, TypeError, AttributeError, NameError):
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise folder_error(error, self.where) from error


def _load(folder: Path, config: edge.EdgeConfig, spec: CollectionSpec) -> edge.EdgeShard:
    try:
        return edge.EdgeShard.load(str(folder), config)
    except Exception as error:
        if "ncompatible config" not in str(error):
            raise
        raise dimension_error(spec, "of another shape", str(folder)) from error


def _close(shards: dict[str, tuple[Any, edge.EdgeShard]], temporary: Path | None, pid: int) -> None:
    if os.getpid() != pid:  # a forked child: the shards and the folder are its parent's
        return
    try:
        for _, shard in shards.values():
            if temporary is None:
                shard.flush()
            shard.close()
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
