"""Words, pairs of words, and pieces of words: what the lexical part of a head counts."""

from __future__ import annotations

import re
from itertools import pairwise

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
    counts: dict[str, int] = {}
    for gram in found:
        counts[gram] = counts.get(gram, 0) + 1
    for first, second in pairwise(found):
        pair = f"{first} {second}"
        counts[pair] = counts.get(pair, 0) + 1
    return counts


def pieces(text: str) -> dict[str, int]:
    """Runs of 2 to 5 characters within words, a space on both sides being part of a word, with their counts.

    Example:
        >>> list(pieces("Hi"))
        [' h', 'hi', 'i ', ' hi', 'hi ', ' hi ']
    """
    counts: dict[str, int] = {}
    for word in _SPACES.sub(" ", text[:MAX_CHARACTERS].lower()).split():
        padded = f" {word} "
        for length in range(_SHORTEST, min(_LONGEST, len(padded)) + 1):
            for start in range(len(padded) - length + 1):
                piece = padded[start : start + length]
                counts[piece] = counts.get(piece, 0) + 1
    return counts
