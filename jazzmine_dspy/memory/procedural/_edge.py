"""Points in an embedded Qdrant shard (qdrant-edge): a folder, one process, no server."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import shutil
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.memory.procedural import _folder
from jazzmine_dspy.memory.procedural.engine import EXACT_UP_TO, Branch, Hit, Layout, StoredPoint, Where
from jazzmine_dspy.models.errors import JazzmineError, MemoryUnavailableError, format_error

_OVERSAMPLING = 2.0
"""In larger collections 4 bits of each number choose so many times the candidates, and the vectors themselves rank
them. An HNSW graph would stop the process while it is built."""

_BATCH = 1000
_LAYOUT = "layout.json"
_STALE = "stale"
_START = "edge-"
logger = logging.getLogger("jazzmine_dspy")


class EdgeEngine:
    """Collections in a folder, each a shard of its own. May be called by several threads.

    A write is in the shard's log before the call returns: a killed process loses no finished write, and of an
    unfinished one no half.

    Args:
        path: The folder, made where it is absent, or ``:memory:`` for a temporary one that goes with the engine.

    Raises:
        MemoryUnavailableError: another engine, of this process or another one, has the folder open; or it can't be
            written.

    Example:
        >>> engine = EdgeEngine(":memory:")
        >>> engine.collections()
        []
        >>> engine.close()
    """

    name = "edge"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._lock = threading.RLock()
        self._shards: dict[str, _Shard] = {}
        self._closed = False
        self._kept = self.path != ":memory:"
        self._end: Callable[[], str | None] = lambda: None
        self._pid = os.getpid()
        with self._failing():
            if self._kept:
                self._folder = Path(self.path)
                self._folder.mkdir(parents=True, exist_ok=True)
            else:
                self._folder = _folder.temporary()
            held = _folder.hold(self._folder)
        # Also at the interpreter's exit, and where nobody calls close.
        self._end = weakref.finalize(
            self, _give_back, self._shards, held, self._folder, self._kept, self._pid
        )

    def ensure(self, layout: Layout) -> None:
        """Create the collection where it is absent; check it where it is there."""
        with self._failing():
            self._shard(layout)

    def search(
        self,
        layout: Layout,
        branches: Sequence[Branch],
        *,
        depth: int,
        where: Where,
        payload: Sequence[str] = (),
    ) -> list[list[Hit]]:
        """The ``depth`` best points of each branch. A collection that is not there holds none."""
        shard = self._open(layout)
        if shard is None or not branches or depth < 1 or not all(where.values()):
            return [[] for _ in branches]
        chosen = _filter(where)
        with self._failing():
            asked = []
            for branch in branches:
                params: edge.SearchParams | None
                if branch.dense is not None:
                    query = edge.Query.Nearest(branch.dense.tolist(), using=layout.dense)
                    params = shard.dense_params()
                else:
                    ids, values = branch.words or ([], [])
                    query = edge.Query.Nearest(
                        edge.SparseVector(indices=ids, values=values), using=layout.sparse
                    )
                    params = shard.sparse_params()
                asked.append(
                    edge.QueryRequest(
                        limit=depth,
                        query=query,
                        filter=chosen,
                        params=params,
                        with_payload=list(payload) or False,
                    )
                )
            answers = shard.inner.query_batch(edge.QueryBatchRequest(asked))
        return [[Hit(_text(hit.id), hit.score, hit.payload or {}) for hit in hits] for hits in answers]

    def upsert(self, layout: Layout, points: Sequence[StoredPoint]) -> None:
        """Write points; the last of several with one id counts."""
        last = list({point.id: point for point in points}.values())
        with self._failing():
            shard = self._shard(layout)
            for start in range(0, len(last), _BATCH):
                batch = [
                    edge.Point(
                        _native(point.id),
                        _vectors(layout, point),
                        dict(point.payload),
                    )
                    for point in last[start : start + _BATCH]
                ]
                shard.upsert(batch)

    def delete(self, layout: Layout, ids: Sequence[str]) -> None:
        """Remove points; ids that are not there are no error."""
        shard = self._open(layout)
        if shard is not None and ids:
            with self._failing():
                shard.delete([_native(each) for each in ids])

    def scroll(
        self, layout: Layout, where: Where, keys: Sequence[str] = ()
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """All points that pass, as (id, payload), the payload cut to ``keys`` where they are given."""
        shard = self._open(layout)
        if shard is None or not all(where.values()):
            return
        wanted: Any = list(keys) or True
        offset = None
        while True:
            with self._failing():
                request = edge.ScrollRequest(
                    limit=_BATCH, offset=offset, filter=_filter(where), with_payload=wanted
                )
                found, offset = shard.inner.scroll(request)
            for record in found:
                yield _text(record.id), record.payload or {}
            if offset is None:
                return

    def collections(self) -> list[str]:
        """Names of all collections."""
        with self._failing():
            known = [_read(each) for each in self._folder.glob(f"{_START}*/{_LAYOUT}")]
        return sorted(str(each["collection"]) for each in known)

    def drop(self, collection: str) -> None:
        """Remove a collection whole; one that is not there is no error."""
        with self._lock, self._failing():
            shard = self._shards.pop(collection, None)
            if shard is not None:
                shard.inner.close()
            folder = self._of(collection)
            # First what makes it a collection, so that of one that is half removed nothing is left to see.
            (folder / _LAYOUT).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Flush, and give the folder back, even where flushing fails; may be called twice."""
        with self._lock:
            self._closed = True
            failed = self._end()
            if failed is not None:
                raise MemoryUnavailableError(
                    f"The flow index could not be flushed: {failed}", where=self._where,
                    remedy="See that the folder can be written and has room, then write the flows again.",
                )  # fmt: skip

    def _of(self, collection: str) -> Path:
        # Names may hold what a file's must not, and differ by case alone.
        return self._folder / (_START + hashlib.sha256(collection.encode()).hexdigest()[:16])

    def _open(self, layout: Layout) -> _Shard | None:
        shard = self._shards.get(layout.collection)
        if shard is not None and shard.layout[:4] == layout[:4]:
            return shard
        with self._failing():
            there = (self._of(layout.collection) / _LAYOUT).exists()
            return self._shard(layout) if there else None

    def _shard(self, layout: Layout) -> _Shard:
        with self._lock:
            folder = self._of(layout.collection)
            known = self._shards.get(layout.collection)
            if known is not None:
                _check(known.layout, layout, folder)
                return known
            if (folder / _LAYOUT).exists():
                stored = _read(folder / _LAYOUT)
                held = Layout(stored["collection"], stored["size"], stored["dense"], stored["sparse"])
                _check(held, layout, folder)
                inner = edge.EdgeShard.load(str(folder / "shard"))
            else:
                shutil.rmtree(folder, ignore_errors=True)  # what a killed process began
                inner = self._create(layout, folder)
            made = _Shard(layout, inner, folder)
            self._shards[layout.collection] = made
            return made

    def _create(self, layout: Layout, folder: Path) -> edge.EdgeShard:
        (folder / "shard").mkdir(parents=True)
        bits = edge.TurboQuantQuantizationConfig(always_ram=True, bits=edge.TurboQuantBitSize.Bits4)
        config = edge.EdgeConfig(
            vectors={layout.dense: edge.EdgeVectorParams(size=layout.size, distance=edge.Distance.Cosine)},
            sparse_vectors={layout.sparse: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
            quantization_config=bits,
            # One segment is searched by one thread; a second one lets two callers search at once.
            max_search_threads=2,
            wal_enabled=self._kept,
        )
        inner = edge.EdgeShard.create(str(folder / "shard"), config)
        for key in layout.indexed:
            inner.update(edge.UpdateOperation.create_field_index(key, edge.PayloadSchemaType.Keyword))
        if self._kept:
            inner.flush()
        told = {
            "collection": layout.collection,
            "size": layout.size,
            "dense": layout.dense,
            "sparse": layout.sparse,
        }
        fresh = folder / f"{_LAYOUT}.new"
        fresh.write_text(json.dumps(told), encoding="utf-8")
        fresh.replace(folder / _LAYOUT)
        return inner

    @property
    def _where(self) -> str:
        return f"qdrant-edge, {self.path}"

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """What the shard raises is a bare ``Exception``, or where it panics, as over a damaged file, not even that."""
        if os.getpid() != self._pid:
            raise MemoryUnavailableError(
                "The flow index was opened before this process was forked",
                where=self._where,
                remedy="Open it in the process that uses it, or start processes by spawn.",
            )
        try:
            if self._closed:
                raise MemoryUnavailableError("The flow index is closed", where=self._where, remedy=_ANEW)
            yield
        except (JazzmineError, TypeError, AttributeError, NameError):
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
                raise
            if self._closed:
                raise MemoryUnavailableError(
                    "The flow index is closed", where=self._where, remedy=_ANEW
                ) from error
            raise MemoryUnavailableError(
                f"The flow index does not answer: {format_error(error)}",
                where=self._where,
                remedy="See that the folder can be written and has room, or remove it and build it anew.",
            ) from error


_ANEW = "Make a new one."
_PANIC = "PanicException"
"""Of pyo3, which lets nobody import it. It derives from ``BaseException``, so that nothing would stand in for it."""


class _Shard:
    """An open shard, and what BM25 must know of it."""

    def __init__(self, layout: Layout, inner: edge.EdgeShard, folder: Path) -> None:
        self.layout = layout
        self.inner = inner
        self._mark = folder / _STALE
        self._stale = self._mark.exists()
        self._write = threading.Lock()
        self._points = inner.info().points_count
        self._exact = edge.SearchParams(exact=True)
        self._rescored = edge.SearchParams(
            quantization=edge.QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING)
        )
        # Document frequencies of the points that are there: the shard's own go on counting removed ones.
        self._recounted = edge.SearchParams(idf=edge.IdfParams(corpus=edge.Filter()))

    def upsert(self, batch: list[Any]) -> None:
        with self._write:
            if not self._stale and self.inner.retrieve(
                [point.id for point in batch], with_payload=False, with_vector=False
            ):
                self._outdate()
            self.inner.update(edge.UpdateOperation.upsert_points(batch))
            self._points = self.inner.info().points_count

    def delete(self, ids: list[Any]) -> None:
        with self._write:
            self._outdate()
            self.inner.update(edge.UpdateOperation.delete_points(ids))
            self._points = self.inner.info().points_count

    def dense_params(self) -> edge.SearchParams:
        return self._exact if self._points <= EXACT_UP_TO else self._rescored

    def sparse_params(self) -> edge.SearchParams | None:
        return self._recounted if self._stale else None

    def _outdate(self) -> None:
        if not self._stale:
            self._mark.touch()
            self._stale = True


def _native(point: str) -> int | str:
    """An id as the shard keeps it: a small one as a number, since a search gives hundreds of them back."""
    number = uuid.UUID(point).int
    return number if number < 2**64 else point


@functools.lru_cache(maxsize=2**17)
def _text(point: int | uuid.UUID) -> str:
    return str(uuid.UUID(int=point) if isinstance(point, int) else point)


def _vectors(layout: Layout, point: StoredPoint) -> dict[str, Any]:
    made: dict[str, Any] = {layout.dense: point.dense.tolist()}
    if point.sparse[0]:  # without words it is no document, and must not count as one
        made[layout.sparse] = edge.SparseVector(indices=point.sparse[0], values=point.sparse[1])
    return made


def _filter(where: Where) -> Any:
    if not where:
        return None
    return edge.Filter(
        must=[edge.FieldCondition(key, match=edge.MatchAny(list(values))) for key, values in where.items()]
    )


def _check(held: Layout, asked: Layout, folder: Path) -> None:
    if (held.size, held.dense, held.sparse) != (asked.size, asked.dense, asked.sparse):
        raise DimensionError(
            f"The collection {asked.collection!r} holds vectors of {held.size} numbers ({held.dense!r}, "
            f"{held.sparse!r}), not of {asked.size} ({asked.dense!r}, {asked.sparse!r})",
            where=str(folder),
            remedy="Use the embedding model that it was built with, or another folder or collection.",
        )


def _read(path: Path) -> dict[str, Any]:
    read = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(read, dict):
        raise ValueError(f"{path} tells of no collection")
    return read


def _give_back(shards: dict[str, _Shard], held: Any, folder: Path, kept: bool, pid: int) -> str | None:
    """Close all, whatever fails; what failed first, which is also logged: at the interpreter's exit nobody asks."""
    if os.getpid() != pid:  # a forked child that ends: all of it is its parent's
        return None
    failed: str | None = None
    try:
        for shard in shards.values():
            for end in (shard.inner.flush, shard.inner.close) if kept else (shard.inner.close,):
                try:
                    end()
                except BaseException as error:
                    if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
                        raise
                    # As a text: the frames of an exception would hold the shard.
                    failed = failed or format_error(error)
    finally:
        shards.clear()
        _folder.release(held)
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    if failed is not None:
        logger.warning("the flow index in %s could not be flushed: %s", folder, failed)
    return failed
