"""Words, pairs of words, and pieces of words: what the lexical part of a head counts."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import chain, pairwise

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
