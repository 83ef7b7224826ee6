"""Which turns resemble each other: shared words and character trigrams, through inverted lists in numpy."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

JACCARD = 0.8
COSINE = 0.9

Floats = npt.NDArray[np.float64]


def delexicalise(text: str) -> str:
    """Lower case, each run of digits as ``#``, no punctuation; what is left of templates then looks alike.

    Example:
        >>> delexicalise("Where's order 4471?!")
        'wheres order #'
    """
    lowered = re.sub(r"\d+", "#", text.casefold())
    plain = " ".join(re.sub(r"[^\w#\s]", " ", re.sub(r"['\u2019`]", "", lowered)).split())
    return plain or " ".join(text.split())


def trigrams(text: str) -> Counter[str]:
    """Character trigrams of a text with a blank at both ends."""
    padded = f" {text} "
    return Counter(padded[i : i + 3] for i in range(max(1, len(padded) - 2)))


class Lists:
    """For each feature the rows that have it, so that a row meets only rows that share something."""

    def __init__(self, rows: Sequence[Mapping[str, float]]) -> None:
        self.size = len(rows)
        collected: dict[str, tuple[list[int], list[float]]] = {}
        for number, row in enumerate(rows):
            for feature, weight in row.items():
                numbers, weights = collected.setdefault(feature, ([], []))
                numbers.append(number)
                weights.append(weight)
        self._lists = {
            feature: (np.array(numbers, dtype=np.intp), np.array(weights, dtype=np.float64))
            for feature, (numbers, weights) in collected.items()
        }

    def dot(self, row: Mapping[str, float]) -> Floats:
        """The row's product with every row of the lists, shape (rows,)."""
        found = [(self._lists[feature], weight) for feature, weight in row.items() if feature in self._lists]
        if not found:
            return np.zeros(self.size)
        numbers = np.concatenate([listed[0] for listed, _ in found])
        weights = np.concatenate([listed[1] * weight for listed, weight in found])
        return np.bincount(numbers, weights, minlength=self.size).astype(np.float64)


def _unit(row: Mapping[str, float]) -> dict[str, float]:
    length = math.sqrt(sum(weight * weight for weight in row.values())) or 1.0
    return {feature: weight / length for feature, weight in row.items()}


def near_duplicates(texts: Sequence[str]) -> list[list[tuple[int, float]]]:
    """For each delexicalised text the others that are nearly the same: (number, likeness), likest first.

    That is, Jaccard index of the words at least 0.8, or cosine of the character trigrams at least 0.9.
    """
    words = [dict.fromkeys(text.split(), 1.0) for text in texts]
    grams = [_unit(trigrams(text)) for text in texts]
    by_word, by_gram = Lists(words), Lists(grams)
    sizes = np.array([len(row) for row in words], dtype=np.float64)
    found: list[list[tuple[int, float]]] = []
    for number in range(len(texts)):
        shared = by_word.dot(words[number])
        jaccard = shared / np.maximum(sizes + sizes[number] - shared, 1.0)
        cosine = by_gram.dot(grams[number])
        alike = np.flatnonzero((jaccard >= JACCARD - 1e-9) | (cosine >= COSINE - 1e-9))
        likeness = np.maximum(jaccard, cosine)
        pairs = [(int(other), float(min(likeness[other], 1.0))) for other in alike if other != number]
        found.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
    return found


def nearest(queries: Iterable[str], texts: Sequence[str]) -> list[int]:
    """For each query the number of the nearest text, by cosine of TF-IDF weighted character trigrams."""
    counts = [trigrams(text.casefold()) for text in texts]
    documents = Counter(feature for row in counts for feature in row)
    idf = {feature: math.log((1 + len(texts)) / (1 + n)) + 1.0 for feature, n in documents.items()}
    lists = Lists([_unit({feature: n * idf[feature] for feature, n in row.items()}) for row in counts])
    rare = math.log(1 + len(texts)) + 1.0
    weighted = ({f: n * idf.get(f, rare) for f, n in trigrams(query.casefold()).items()} for query in queries)
    return [int(np.argmax(lists.dot(row))) for row in weighted]
