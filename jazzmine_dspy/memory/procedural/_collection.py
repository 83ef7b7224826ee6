"""One collection of Qdrant's embedded mode: points with a dense and a BM25 vector, searched by both."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jazzmine_dspy.models.errors import JazzmineError, MemoryUnavailableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Words = tuple[list[int], list[float]]
"""A sparse vector: ids of word stems, and their weights."""

PREFIX = "flows-"
DENSE_STEP = 1e-6
BM25_STEP = 3e-7
"""What equal scores are set apart by: above the noise of float32, below what a score means. The first is
absolute (a cosine may be 0), the second relative."""


class Point(NamedTuple):
    """One searchable text of a flow; ``conversation`` is the labelled one that it is from, or empty."""

    text: str
    flow: str
    kind: str
    conversation: str


class Search(NamedTuple):
    """One ranked list that enters the fusion: ``dense`` with a vector, or ``bm25`` with words."""

    using: str
    vector: Any
    weight: float


class Collection:
    """A collection by its name, made where it is not there yet.

    Qdrant's embedded mode breaks when two threads are in it at once, so every call is made under one lock.

    Args:
        path: ``:memory:``, or a folder.
        name: Starts with ``PREFIX`` and stands for the content: a collection of that name is taken as it is,
            and those of other content are dropped.
        points: What it holds, in the order that decides between equal scores.
        size: Length of a dense vector.
        vectors: Gives the points' vectors, if they are needed.

    Raises:
        MemoryUnavailableError: Qdrant fails, or another process has the folder open.
    """

    def __init__(
        self,
        path: str,
        name: str,
        points: Sequence[Point],
        *,
        size: int,
        vectors: Callable[[list[str]], tuple[NDArray[np.float32], list[Words]]],
    ) -> None:
        from qdrant_client import QdrantClient

        self._path = path
        self._name = name
        self._lock = threading.Lock()
        self._closed = False
        try:
            self._client: Any = QdrantClient(":memory:") if path == ":memory:" else QdrantClient(path=path)
            # Left to the garbage collector at the interpreter's exit, the client complains on stderr.
            weakref.finalize(self, self._client.close)
            if not self._is_kept(len(points)):
                self._store(points, size, *vectors([point.text for point in points]))
        except JazzmineError:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise self._unavailable(error) from error

    def fused(
        self,
        searches: Sequence[Search],
        *,
        rrf_k: int,
        depth: int,
        flows: Sequence[str] | None,
        exclude: Sequence[str],
    ) -> list[tuple[int, float]]:
        """Numbers of the best points with their fused scores, best first.

        Args:
            searches: The lists to fuse.
            rrf_k: A point of rank r, from 0, gets 1 / ((r + 1) / weight + k - 1) from each list.
            depth: Points of each list.
            flows: Flows to look at; None means all.
            exclude: Conversations to leave out.

        Raises:
            MemoryUnavailableError: Qdrant fails, or the collection is closed.
        """
        from qdrant_client import models

        if not searches:
            return []
        must: Any = None
        must_not: Any = None
        if flows is not None:
            must = [models.FieldCondition(key="flow", match=models.MatchAny(any=list(flows)))]
        if exclude:
            must_not = [models.FieldCondition(key="conversation", match=models.MatchAny(any=list(exclude)))]
        # Inside each branch: outside, it would leave fewer than `depth` points of each list.
        chosen = models.Filter(must=must, must_not=must_not) if must or must_not else None
        prefetch = []
        for using, what, _ in searches:
            if using == "bm25":
                vector: Any = models.SparseVector(indices=what[0], values=what[1])
            else:
                vector = [*what, 1.0]
            prefetch.append(models.Prefetch(query=vector, using=using, limit=depth, filter=chosen))
        fusion = models.Rrf(k=rrf_k, weights=[weight for _, _, weight in searches])
        with self._lock:
            if self._closed:
                raise MemoryUnavailableError("The flow index is closed", remedy="Make a new one.")
            try:
                answer = self._client.query_points(
                    self._name,
                    prefetch=prefetch,
                    query=models.RrfQuery(rrf=fusion),
                    limit=depth * len(searches),
                    with_payload=False,
                )
            except Exception as error:
                raise self._unavailable(error) from error
        return [(int(point.id), float(point.score)) for point in answer.points]

    def close(self) -> None:
        """Give it back, and the folder's lock with it."""
        with self._lock:
            self._closed = True
            if hasattr(self, "_client"):
                self._client.close()

    def _is_kept(self, points: int) -> bool:
        kept = [each.name for each in self._client.get_collections().collections]
        if self._name in kept and self._client.count(self._name).count == points:
            return True
        for name in kept:
            if name.startswith(PREFIX):
                self._client.delete_collection(name)
        return False

    def _store(
        self, points: Sequence[Point], size: int, vectors: NDArray[np.float32], words: list[Words]
    ) -> None:
        from qdrant_client import models

        # Qdrant leaves the order of equal scores to chance. Equal BM25 scores are common (one shared word),
        # equal dense ones are those of equal texts. So that the earlier point comes first on every machine,
        # the later ones lose a trace: by a factor on the words, and by a last component that meets a 1 in
        # every query.
        self._client.create_collection(
            self._name,
            vectors_config={"dense": models.VectorParams(size=size + 1, distance=models.Distance.DOT)},
            sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        stored = []
        seen = dict.fromkeys((point.text for point in points), 0)
        for number, point in enumerate(points):
            dense = [*vectors[number].tolist(), -DENSE_STEP * seen[point.text]]
            values = [value * (1.0 - BM25_STEP * number) for value in words[number][1]]
            seen[point.text] += 1
            sparse = models.SparseVector(indices=words[number][0], values=values)
            payload = {"flow": point.flow, "kind": point.kind, "conversation": point.conversation}
            vector: Any = {"dense": dense, "bm25": sparse}
            stored.append(models.PointStruct(id=number, vector=vector, payload=payload))
        self._client.upsert(self._name, points=stored)

    def _unavailable(self, error: Exception) -> MemoryUnavailableError:
        return MemoryUnavailableError(
            f"The flow index does not answer: {type(error).__name__}: {error}",
            where=f"Qdrant embedded, {self._path}",
            remedy="Close what else has this folder open, or use ':memory:'.",
        )
