"""BM25 as sparse vectors, by fastembed; nothing is downloaded."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.memory.procedural.engine import SparseVector
from jazzmine_dspy.models.base import sha256

_STOP_WORDS = """
a an the
i me my mine myself we us our ours you your yours he him his she her hers it its they them their theirs
this that these those there here
am is are was were be been being do does did done doing have has had having
will would shall should can could may might must
and or but so if then than as because while
of to in on at by for with from into about
what which who whom whose
just please also too very really quite some any such
m s t d ll re ve im ive
hi hello hey thanks thank ok okay
"""
"""English words that say nothing about the task. Negations, particles and the question words of place, time and amount
are not among them: "not", "off", "back", "where", "when" distinguish tasks ("send it back", "call it off")."""

_AVERAGE_LENGTH = 12.0
"""Words in an average text of the index; fastembed's 256 is for pages."""

FINGERPRINT = sha256([sorted(_STOP_WORDS.split()), _AVERAGE_LENGTH])
"""Changes with whatever changes the words of a text or their weights."""


@functools.cache
def _bm25() -> Any:
    from fastembed import SparseTextEmbedding

    # Any path does: with one, fastembed does not download its own stop words.
    return SparseTextEmbedding(
        "Qdrant/bm25",
        specific_model_path="bm25",
        language="english",
        stopwords=set(_STOP_WORDS.split()),
        avg_len=_AVERAGE_LENGTH,
    )


def documents(texts: Sequence[str]) -> list[SparseVector]:
    """The word stems of each text with BM25's weights; the engine counts document frequencies."""
    return [(each.indices.tolist(), each.values.tolist()) for each in _bm25().embed(list(texts))]


def query(text: str) -> SparseVector:
    """The word stems of a query, each of weight 1; none where it has only stop words."""
    each = next(iter(_bm25().query_embed(text)))
    indices = sorted(each.indices.tolist())
    return indices, [1.0] * len(indices)
