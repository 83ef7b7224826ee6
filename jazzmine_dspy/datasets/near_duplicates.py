"""Turns that resemble each other, by shared words and character trigrams, through inverted lists in numpy."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

JACCARD = 0.8
COSINE = 0.9


def delexicalise(text: str) -> str:
    """Lower case, each run of digits as ``#``, no punctuation; what is left of templates then looks alike.

    Example:
        >>> delexicalise("Where's order 4471?!")
        'wheres order #'
    """
    lowered = re.sub(r"\d+", "#", text.casefold())
    plain = " ".join(re.sub(r"[^\w#\s]", " ", re.sub(r"['\u2019`]", "", lowered)).split())
    return plain or " ".join(text.split())


def _trigrams(text: str) -> Counter[str]:
    """Character trigrams of a text with a blank at both ends."""
    padded = f" {text} "
    return Counter(padded[i : i + 3] for i in range(max(1, len(padded) - 2)))


class _InvertedLists:
    """For each feature the rows that have it, so that a row meets only rows that share something."""

    def __init__(self, rows: Sequence[Mapping[str, float]]) -> None:
        import numpy as np

        self._size = len(rows)
        lists: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, row in enumerate(rows):
            for feature, weight in row.items():
                lists[feature].append((number, weight))
        self._lists = {
            feature: (np.array([number for number, _ in pairs]), np.array([weight for _, weight in pairs]))
            for feature, pairs in lists.items()
        }

    def dot(self, row: Mapping[str, float]) -> NDArray[np.float64]:
        """The row's product with every row of the lists, shape (rows,)."""
        import numpy as np

        pairs = [(self._lists[feature], weight) for feature, weight in row.items() if feature in self._lists]
        if not pairs:
            return np.zeros(self._size)
        numbers = np.concatenate([rows for (rows, _), _ in pairs])
        weights = np.concatenate([weights * weight for (_, weights), weight in pairs])
        return np.bincount(numbers, weights, minlength=self._size).astype(np.float64)


def _unit(row: Mapping[str, float]) -> dict[str, float]:
    length = math.sqrt(sum(weight * weight for weight in row.values())) or 1.0
    return {feature: weight / length for feature, weight in row.items()}


def near_duplicates(texts: Sequence[str]) -> list[list[tuple[int, float]]]:
    """For each delexicalised text the others that are nearly the same: (number, likeness), likest first.

    That is, Jaccard index of the words at least 0.8, or cosine of the character trigrams at least 0.9.
    """
    import numpy as np

    words = [dict.fromkeys(text.split(), 1.0) for text in texts]
    grams = [_unit(_trigrams(text)) for text in texts]
    by_word, by_gram = _InvertedLists(words), _InvertedLists(grams)
    sizes = np.array([len(row) for row in words], dtype=np.float64)
    pairs: list[list[tuple[int, float]]] = []
    for number in range(len(texts)):
        shared = by_word.dot(words[number])
        jaccard = shared / np.maximum(sizes + sizes[number] - shared, 1.0)
        cosine = by_gram.dot(grams[number])
        alike = np.flatnonzero((jaccard >= JACCARD - 1e-9) | (cosine >= COSINE - 1e-9))
        likeness = np.maximum(jaccard, cosine)
        others = [(int(other), float(min(likeness[other], 1.0))) for other in alike if other != number]
        pairs.append(sorted(others, key=lambda pair: (-pair[1], pair[0])))
    return pairs


def nearest(queries: Iterable[str], texts: Sequence[str]) -> list[int]:
    """For each query the number of the nearest text, by cosine of TF-IDF weighted character trigrams."""
    import numpy as np

    counts = [_trigrams(text.casefold()) for text in texts]
    documents = Counter(feature for row in counts for feature in row)
    idf = {feature: math.log((1 + len(texts)) / (1 + n)) + 1.0 for feature, n in documents.items()}
    lists = _InvertedLists(
        [_unit({feature: n * idf[feature] for feature, n in row.items()}) for row in counts]
    )
    rare = math.log(1 + len(texts)) + 1.0
    weighted = (
        {f: n * idf.get(f, rare) for f, n in _trigrams(query.casefold()).items()} for query in queries
    )
    return [int(np.argmax(lists.dot(row))) for row in weighted]
