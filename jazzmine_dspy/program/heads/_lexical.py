"""The lexical part of a head: a linear model over words and pieces of words, in 8 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jazzmine_dspy.program.heads._ngrams import pieces, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


class Lexical:
    """Scores of labels by the n-grams of a text: tf-idf of length 1 for words and for pieces, times weights.

    Args:
        words, pieces: N-grams that are known; the rows of the arrays, in this order.
        idf: Shape (n-grams,).
        weights: Shape (n-grams, labels), int8.
        scales: Shape (n-grams,): what 1 in a row of ``weights`` is worth.
        bias: Shape (labels,).
    """

    def __init__(
        self,
        words: Sequence[str],
        pieces: Sequence[str],
        idf: Floats,
        weights: NDArray[np.int8],
        scales: Floats,
        bias: Floats,
    ) -> None:
        self.words, self.pieces = tuple(words), tuple(pieces)
        self.idf, self.weights, self.scales, self.bias = idf, weights, scales, bias
        self._words = {gram: row for row, gram in enumerate(self.words)}
        self._pieces = {gram: row for row, gram in enumerate(self.pieces, start=len(self.words))}

    def scores(self, text: str) -> tuple[Floats, float]:
        """Scores of shape (labels,), and the share of the text's pieces that are known."""
        first, _ = self._side(words(text), self._words)
        second, known = self._side(pieces(text), self._pieces)
        return self.bias + first + second, known

    def _side(self, counts: Mapping[str, int], rows: Mapping[str, int]) -> tuple[Floats, float]:
        found = [(row, count) for gram, count in counts.items() if (row := rows.get(gram)) is not None]
        if not found:
            return np.zeros_like(self.bias), 0.0
        index = np.array([row for row, _ in found])
        weight = (1.0 + np.log([count for _, count in found])) * self.idf[index]
        weight = (weight / np.linalg.norm(weight) * self.scales[index]).astype(np.float32)
        return weight @ self.weights[index].astype(np.float32), len(found) / len(counts)


def quantised(weights: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Rows in 8 bits, and the scale of each: off by 1/254 of the row's largest weight at most."""
    scales = np.maximum(np.abs(weights).max(axis=1), 1e-12) / 127.0
    return np.rint(weights / scales[:, None]).astype(np.int8), scales.astype(np.float32)
