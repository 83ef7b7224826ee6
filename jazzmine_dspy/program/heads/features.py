"""What a head sees of a turn beside its embedding: the message's n-grams, the state, and what recall found."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models import ConversationStatus, Recalled, Turn
from jazzmine_dspy.program.ports import Floats

# Not the enum's own order: a status added there must not move the others.
_STATUSES = (
    ConversationStatus.IDLE,
    ConversationStatus.IN_FLOW,
    ConversationStatus.COLLECTING_SLOTS,
    ConversationStatus.AWAITING_CONFIRMATION,
    ConversationStatus.EXECUTING_ACTION,
)
STATE_SIZE = len(_STATUSES) + 3
"""Features that stem from the state."""

_STATE_SCALE = 2.0
"""What a state feature is instead of 1: the message's features have a length of about 10."""

EVIDENCE = ("votes", "similarity", "fused", "running")
"""What recall tells of one flow: logarithm of the support, similarity, share of the best fused score; and whether it
is the flow that runs."""

_LEAST_SUPPORT = 1e-4
SIMILARITY_SCALE = 10.0
"""What a cosine of 1 is in the evidence."""

_FUSED_SCALE = 4.0


def state_features(turn: Turn) -> Floats:
    """The state before a message.

    Returns:
        Shape (8,), float32: one-hot status; whether the user has begun, a paused flow, an awaited slot. What holds
        is 2, what does not 0.

    Example:
        >>> from jazzmine_dspy.models.turn import Turn
        >>> state_features(Turn(text="hello")).tolist()
        [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    state = [float(turn.status is status) for status in _STATUSES]
    state += [float(turn.begun), float(bool(turn.paused)), float(turn.awaiting is not None)]
    return np.multiply(state, _STATE_SCALE, dtype=np.float32)


def evidence(recalled: Sequence[Recalled], column: Mapping[str, int], running: str | None) -> Floats:
    """What recall tells of flows, shape (flows, 4), float32; see :data:`EVIDENCE`.

    A flow that was not recalled has the least support, the least similarity that was recalled, and no fused score.

    Args:
        recalled: What recall found; flows without a column do not count.
        column: Row of each flow in the result.
        running: The flow that runs.
    """
    found = [one for one in recalled if one.name in column]
    told = np.zeros((len(column), len(EVIDENCE)), dtype=np.float32)
    told[:, 0] = np.log(_LEAST_SUPPORT)
    if found:
        best = max(one.score for one in found)
        told[:, 1] = min(one.similarity for one in found) * SIMILARITY_SCALE
        for one in found:
            fused = one.score / best * _FUSED_SCALE if best > 0 else 0.0
            told[column[one.name], :3] = (
                np.log(max(one.support, 0.0) + _LEAST_SUPPORT),
                one.similarity * SIMILARITY_SCALE,
                fused,
            )
    if running is not None and running in column:
        told[column[running], 3] = 1.0
    return told


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


_WORD = re.compile(r"\b\w+\b")
_SPACES = re.compile(r"\s\s+")
_SHORTEST, _LONGEST = 2, 5
MAX_CHARACTERS = 2_000
"""Of a text; the embedding model reads no further either, and counting costs time with every one."""


def words(text: str) -> dict[str, int]:
    """Words and pairs of words in lower case, with their counts.

    Example:
        >>> words("Stop it, stop")
        {'stop': 2, 'it': 1, 'stop it': 1, 'it stop': 1}
    """
    found = _WORD.findall(text[:MAX_CHARACTERS].lower())
    return dict(Counter([*found, *map(" ".join, pairwise(found))]))


def pieces(text: str) -> dict[str, int]:
    """Runs of 2 to 5 characters within words, a space on both sides being part of a word, with their counts.

    Example:
        >>> list(pieces("Hi"))
        [' h', 'hi', 'i ', ' hi', 'hi ', ' hi ']
    """
    words = _SPACES.sub(" ", text[:MAX_CHARACTERS].lower()).split()
    return dict(Counter(chain.from_iterable(map(_pieces_of, words))))


# Most words of a message are common ones, and several heads count its pieces.
@lru_cache(maxsize=4096)
def _pieces_of(word: str) -> tuple[str, ...]:
    padded = f" {word} "
    lengths = range(_SHORTEST, min(_LONGEST, len(padded)) + 1)
    return tuple(
        padded[start : start + length] for length in lengths for start in range(len(padded) - length + 1)
    )
