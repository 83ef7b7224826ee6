"""BM25 as sparse vectors, by fastembed; nothing is downloaded."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.memory.procedural._stopwords import ENGLISH
from jazzmine_dspy.models.base import sha256

AVERAGE_LENGTH = 12.0
"""Words in an average text of the index; fastembed's 256 is meant for pages."""

FINGERPRINT = sha256([sorted(ENGLISH), AVERAGE_LENGTH])
"""Changes with whatever may change the words of a text or their weights."""

_lock = threading.Lock()
_model: Any = None


def _bm25() -> Any:
    global _model
    with _lock:
        if _model is None:
            from fastembed import SparseTextEmbedding

            # Any path does: it only keeps fastembed from downloading stop words, which are given here.
            _model = SparseTextEmbedding(
                "Qdrant/bm25",
                specific_model_path="bm25",
                language="english",
                stopwords=set(ENGLISH),
                avg_len=AVERAGE_LENGTH,
            )
        return _model


def documents(texts: Sequence[str]) -> list[tuple[list[int], list[float]]]:
    """Ids of a text's word stems with BM25's weight of each; document frequencies are Qdrant's part."""
    return [(each.indices.tolist(), each.values.tolist()) for each in _bm25().embed(list(texts))]


def query(text: str) -> tuple[list[int], list[float]]:
    """Ids of a query's word stems, each of weight 1; none where it has only stop words."""
    each = next(iter(_bm25().query_embed(text)))
    indices = sorted(each.indices.tolist())
    return indices, [1.0] * len(indices)
