"""Turns that resemble each other, by the edit distance of their words in sorted order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LIKENESS = 90.0
"""Likeness from which two texts are near-duplicates, in [0, 100]; 100 for the same words in any order."""

_BLOCK = 500
"""Texts that are compared with all others at a time, so that memory grows with their number alone."""


def delexicalise(text: str) -> str:
    """Lower case, each run of digits as ``#``, no punctuation; what is left of templates then looks alike.

    Example:
        >>> delexicalise("Where's order 4471?!")
        'wheres order #'
    """
    lowered = re.sub(r"\d+", "#", text.casefold())
    plain = " ".join(re.sub(r"[^\w#\s]", " ", re.sub(r"['\u2019`]", "", lowered)).split())
    return plain or " ".join(text.split())


def near_duplicates(texts: Sequence[str]) -> list[list[int]]:
    """For each delexicalised text the numbers of the others that are nearly the same, the most alike first.

    Example:
        >>> near_duplicates(["where is order #", "is order # where", "a cake please"])
        [[1], [0], []]
    """
    found = []
    for number, row in enumerate(_likeness(texts, texts, LIKENESS)):
        alike = sorted(row.nonzero()[0].tolist(), key=lambda other: (-row[other], other))
        found.append([other for other in alike if other != number])
    return found


def nearest(queries: Sequence[str], texts: Sequence[str]) -> list[int]:
    """For each query the number of the text that is most alike."""
    lowered = [text.casefold() for text in texts]
    return [int(row.argmax()) for row in _likeness([query.casefold() for query in queries], lowered)]


def _likeness(
    queries: Sequence[str], texts: Sequence[str], least: float = 0.0
) -> Iterator[NDArray[np.float32]]:
    """The likeness of each query to all texts, in [0, 100]; 0 below ``least``."""
    from rapidfuzz import fuzz, process

    queries, texts = ([" ".join(sorted(text.split())) for text in each] for each in (queries, texts))
    for start in range(0, len(queries), _BLOCK):
        yield from process.cdist(
            queries[start : start + _BLOCK], texts, scorer=fuzz.ratio, score_cutoff=least
        )
