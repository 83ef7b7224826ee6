"""What the engines over qdrant-client have in common: how layouts, points, questions and filters are said to it."""

from __future__ import annotations

from typing import Any

from qdrant_client import models

from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.memory.procedural.engine import Branch, Layout, StoredPoint, Where


def create(client: Any, layout: Layout) -> None:
    """Create a collection."""
    client.create_collection(
        layout.collection,
        vectors_config={layout.dense: models.VectorParams(size=layout.size, distance=models.Distance.COSINE)},
        sparse_vectors_config={layout.sparse: models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )


def check(layout: Layout, params: models.CollectionParams, where: str) -> None:
    """Refuse a collection that is there with other vectors.

    Raises:
        DimensionError: they have another length, distance or name.
    """
    vectors = params.vectors if isinstance(params.vectors, dict) else {}
    dense = vectors.get(layout.dense)
    if dense is None or dense.size != layout.size or dense.distance != models.Distance.COSINE:
        held = f"{dense.size} ({dense.distance.value})" if dense is not None else "none of that name"
        raise DimensionError(
            f"The collection {layout.collection!r} has other vectors: of {layout.dense!r} {held}, "
            f"where the embedding model makes {layout.size} (Cosine)",
            where=where,
            remedy="Use the embedding model that it was made with, or another folder, prefix or collection.",
        )
    if layout.sparse not in (params.sparse_vectors or {}):
        raise DimensionError(
            f"The collection {layout.collection!r} has no sparse vector {layout.sparse!r}",
            where=where,
            remedy="Choose another prefix, or let the collection be made anew.",
        )


def struct(layout: Layout, point: StoredPoint) -> models.PointStruct:
    """A point to be written. One without words is no document, and must not count as one."""
    vectors: dict[str, Any] = {layout.dense: point.dense.tolist()}
    if point.sparse[0]:
        vectors[layout.sparse] = models.SparseVector(indices=point.sparse[0], values=point.sparse[1])
    return models.PointStruct(id=point.id, vector=vectors, payload=dict(point.payload))


def question(layout: Layout, branch: Branch) -> tuple[Any, str] | None:
    """What to look for, and by which vector; None where there is nothing to look for."""
    if branch.dense is not None:
        return branch.dense.tolist(), layout.dense
    if branch.words is not None and branch.words[0]:
        return models.SparseVector(indices=branch.words[0], values=branch.words[1]), layout.sparse
    return None


def condition(where: Where) -> models.Filter | None:
    """A filter; None lets all pass."""
    if not where:
        return None
    return models.Filter(
        must=[
            models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))
            for key, values in where.items()
        ]
    )
