"""Points in the embedded mode of qdrant-client: plain Python, a folder or memory, one process."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qdrant_client import models

from jazzmine_dspy.memory.procedural import _client
from jazzmine_dspy.memory.procedural.engine import Branch, Hit, Layout, StoredPoint, Where
from jazzmine_dspy.models.errors import JazzmineError, MemoryUnavailableError, format_error

_BATCH = 1000


class LocalEngine:
    """Collections in memory or in a folder, for small ones: a search takes time with every point.

    The client breaks when two threads are in it at once, so every call is made under one lock.

    Args:
        path: A folder, made where it is absent, or ``:memory:``.

    Raises:
        MemoryUnavailableError: another engine, of this process or another one, has the folder open; or it can't be
            written.

    Example:
        >>> engine = LocalEngine(":memory:")
        >>> engine.collections()
        []
        >>> engine.close()
    """

    name = "local"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from qdrant_client import QdrantClient

        self.path = os.fspath(path)
        self._lock = threading.RLock()
        self._closed = False
        with self._alone():
            if self.path == ":memory:":
                self._client: Any = QdrantClient(":memory:")
            else:
                # Calls are made from any thread, but never from two at once.
                self._client = QdrantClient(path=self.path, force_disable_check_same_thread=True)
        # Left to the garbage collector at the interpreter's exit, the client complains on stderr.
        weakref.finalize(self, self._client.close)

    def ensure(self, layout: Layout) -> None:
        """Create the collection where it is absent; check it where it is there."""
        with self._alone():
            if self._client.collection_exists(layout.collection):
                params = self._client.get_collection(layout.collection).config.params
                _client.check(layout, params, f"Qdrant embedded, {self.path}")
            else:
                _client.create(self._client, layout)

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
        lists: list[list[Hit]] = []
        with self._alone():
            nothing = depth < 1 or not all(where.values())
            if nothing or not self._client.collection_exists(layout.collection):
                return [[] for _ in branches]
            for branch in branches:
                asked = _client.question(layout, branch)
                if asked is None:
                    lists.append([])
                    continue
                answer = self._client.query_points(
                    layout.collection,
                    query=asked[0],
                    using=asked[1],
                    limit=depth,
                    query_filter=_client.condition(where),
                    with_payload=list(payload) or False,
                )
                lists.append([Hit(str(hit.id), float(hit.score), hit.payload or {}) for hit in answer.points])
        return lists

    def upsert(self, layout: Layout, points: Sequence[StoredPoint]) -> None:
        """Write points; the last of several with one id counts."""
        last = {point.id: point for point in points}
        made = [_client.struct(layout, point) for point in last.values()]
        with self._alone(), warnings.catch_warnings():
            # Above 20,000 points it recommends a server at every call.
            warnings.filterwarnings("ignore", message="Local mode is not recommended")
            self.ensure(layout)
            for start in range(0, len(made), _BATCH):
                self._client.upsert(layout.collection, points=made[start : start + _BATCH])

    def delete(self, layout: Layout, ids: Sequence[str]) -> None:
        """Remove points; ids that are not there are no error."""
        with self._alone():
            if ids and self._client.collection_exists(layout.collection):
                self._client.delete(layout.collection, points_selector=models.PointIdsList(points=list(ids)))

    def scroll(
        self, layout: Layout, where: Where, keys: Sequence[str] = ()
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """All points that pass, as (id, payload), the payload cut to ``keys`` where they are given."""
        if not all(where.values()):
            return
        offset = None
        while True:
            with self._alone():
                if not self._client.collection_exists(layout.collection):
                    return
                found, offset = self._client.scroll(
                    layout.collection,
                    scroll_filter=_client.condition(where),
                    limit=_BATCH,
                    offset=offset,
                    with_payload=list(keys) or True,
                )
            for record in found:
                yield str(record.id), record.payload or {}
            if offset is None:
                return

    def collections(self) -> list[str]:
        """Names of all collections."""
        with self._alone():
            return sorted(each.name for each in self._client.get_collections().collections)

    def drop(self, collection: str) -> None:
        """Remove a collection whole; one that is not there is no error."""
        with self._alone():
            if self._client.collection_exists(collection):
                self._client.delete_collection(collection)

    def close(self) -> None:
        """Give the folder back; may be called twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._client.close()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            where = f"Qdrant embedded, {self.path}"
            if self._closed:
                raise MemoryUnavailableError(
                    "The flow index is closed", where=where, remedy="Make a new one."
                )
            try:
                yield
            except (JazzmineError, TypeError, AttributeError, NameError):
                raise
            except Exception as error:
                if "already accessed" in str(error):
                    raise MemoryUnavailableError(
                        "The folder of the flow index is already open in another client or process",
                        where=where,
                        remedy="Close that one, or use another folder, or ':memory:'.",
                    ) from error
                raise MemoryUnavailableError(
                    f"The flow index does not answer: {format_error(error)}",
                    where=where,
                    remedy="See that the folder can be written and has room, or remove it and build it anew.",
                ) from error
