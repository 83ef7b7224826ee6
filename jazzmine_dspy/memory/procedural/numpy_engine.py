"""The engine in this process: exact search and BM25 in NumPy, over points that last as long as the engine."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.memory.procedural.engine import (
    ALL,
    CollectionSpec,
    Engine,
    Filter,
    Hit,
    Point,
    Query,
    dimension_error,
)


class NumpyEngine(Engine):
    """An engine that compares a query with every point. Nothing is stored outside of it.

    Example:
        >>> engine = NumpyEngine()
        >>> list(engine.scroll(CollectionSpec("flows", 4)))
        []
    """

    where = ":memory:"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: defaultdict[str, dict[str, Point]] = defaultdict(dict)
        self._tables: dict[str, _Table] = {}

    def ensure(self, spec: CollectionSpec) -> None:
        """Nothing: a collection exists once a point is written."""

    def search(
        self,
        spec: CollectionSpec,
        queries: Sequence[Query],
        *,
        limit: int,
        where: Filter = ALL,
        fields: Sequence[str] = (),
    ) -> list[list[Hit]]:
        """Return the ``limit`` best points of each query; equal scores stand in the order of writing."""
        table = self._table(spec)
        passing = table.passing(where)
        return [
            [
                Hit(point.id, score, _fields(point, fields))
                for point, score in table.best(query, passing, limit)
            ]
            for query in queries
        ]

    def upsert(self, spec: CollectionSpec, points: Sequence[Point]) -> None:
        """Write points; an id that exists is replaced.

        Raises:
            DimensionError: A vector has another length than those of the collection. Nothing is written.
        """
        for length in {len(point.dense) for point in points} - {spec.size}:
            raise dimension_error(spec, f"{length} in a new point", self.where)
        with self._lock:
            self._points[spec.name] |= {point.id: point for point in points}
            self._tables.pop(spec.name, None)

    def delete(self, spec: CollectionSpec, ids: Sequence[str]) -> None:
        """Remove points; unknown ids are ignored."""
        with self._lock:
            for point_id in ids:
                self._points[spec.name].pop(point_id, None)
            self._tables.pop(spec.name, None)

    def scroll(
        self, spec: CollectionSpec, where: Filter = ALL, fields: Sequence[str] = ()
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Iterate over (id, payload) of all points that pass, as they are when the first one is read."""
        table = self._table(spec)
        for row in np.flatnonzero(table.passing(where)).tolist():
            point = table.points[row]
            yield point.id, _fields(point, fields or [*point.payload])

    def close(self) -> None:
        """Forget all points."""
        with self._lock:
            self._points.clear()
            self._tables.clear()

    def _table(self, spec: CollectionSpec) -> _Table:
        with self._lock:
            if spec.name not in self._tables:
                self._tables[spec.name] = _Table([*self._points[spec.name].values()], spec.size)
            return self._tables[spec.name]


class _Table:
    """Points laid out for search. It never changes, so that threads need no lock.

    Args:
        points: All points of a collection.
        size: Length of a dense vector.
    """

    def __init__(self, points: Sequence[Point], size: int) -> None:
        self.points = points
        dense = np.array([point.dense for point in points], np.float32).reshape(-1, size)
        self._dense = dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), np.float32(1e-30))
        rows: dict[int, dict[int, float]] = {}
        for row, point in enumerate(points):
            for stem, weight in zip(*point.sparse, strict=True):
                rows.setdefault(stem, {})[row] = weight
        documents = sum(bool(point.sparse[0]) for point in points)
        self._words = {}
        for stem, weights in rows.items():
            idf = math.log((documents - len(weights) + 0.5) / (len(weights) + 0.5) + 1)
            self._words[stem] = np.array([*weights]), idf * np.array([*weights.values()])
        self._columns: dict[str, tuple[dict[Any, int], NDArray[np.intp]]] = {}

    def passing(self, where: Filter) -> NDArray[np.bool_]:
        """Which points pass, in their order."""
        passing = np.ones(len(self.points), bool)
        for part, expected in ((where.must, True), (where.must_not, False)):
            for key, values in part.items():
                distinct, numbers = self._column(key)
                chosen = np.zeros(len(distinct), bool)
                chosen[[distinct[value] for value in values if value in distinct]] = True
                passing &= chosen[numbers] == expected
        return passing

    def best(self, query: Query, passing: NDArray[np.bool_], limit: int) -> Iterator[tuple[Point, float]]:
        """The best points of those that pass, with their scores, best first."""
        found = np.flatnonzero(passing)
        if query.dense is not None:
            vectors = self._dense if len(found) == len(self.points) else self._dense[found]
            # Not ``@``: BLAS takes ten times as long where other threads are busy.
            scores = np.einsum(
                "ij,j->i", vectors, query.dense / max(float(np.linalg.norm(query.dense)), 1e-30)
            )
        else:
            gains = np.zeros(len(self.points))
            for stem, weight in zip(*query.sparse, strict=True):
                if stem in self._words:
                    rows, weights = self._words[stem]
                    gains[rows] += weight * weights
            found = found[gains[found] > 0]
            scores = gains[found]
        if len(found) > limit:
            best = scores >= np.partition(scores, -limit)[-limit]
            found, scores = found[best], scores[best]
        order = np.argsort(-scores, kind="stable")[:limit]
        for row, score in zip(found[order].tolist(), scores[order].tolist(), strict=True):
            yield self.points[row], score

    def _column(self, key: str) -> tuple[dict[Any, int], NDArray[np.intp]]:
        """Numbers of the distinct values of a payload's key, and the number of each point's value."""
        if key not in self._columns:
            values = [point.payload.get(key) for point in self.points]
            distinct = {value: number for number, value in enumerate(dict.fromkeys(values))}
            self._columns[key] = distinct, np.array([distinct[value] for value in values], np.intp)
        return self._columns[key]


def _fields(point: Point, fields: Sequence[str]) -> dict[str, Any]:
    return {key: point.payload[key] for key in fields if key in point.payload}
