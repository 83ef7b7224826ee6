"""What the lexical part of a head counts, and its weights in 8 bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazzmine_dspy.program.heads.features import pieces, quantised, words


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=40) | st.text(alphabet="aB é'\t\n_1", max_size=30))
def test_ngrams_are_those_of_scikit_learn(text: str) -> None:
    vectorizers = pytest.importorskip("sklearn.feature_extraction.text")
    word = vectorizers.TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b").build_analyzer()
    piece = vectorizers.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5)).build_analyzer()
    for mine, theirs in ((words, word), (pieces, piece)):
        found: dict[str, int] = {}
        for gram in theirs(text):
            found[gram] = found.get(gram, 0) + 1
        assert mine(text) == found


def test_eight_bits_are_near_enough() -> None:
    weights = np.random.default_rng(0).normal(size=(40, 7)).astype(np.float32)
    held, scales = quantised(weights)
    assert np.abs(held * scales[:, None] - weights).max() <= np.abs(weights).max() / 250


def test_a_very_long_message_is_read_in_part() -> None:
    assert words("word " * 10_000) == words("word " * 400)
