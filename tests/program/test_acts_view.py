"""What the head of acts sees of a text is what weights were fitted on, to the last bit."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazzmine_dspy.program.heads.acts.view import HASHED, hashed
from jazzmine_dspy.program.heads.features import pieces, words


def by_place(text: str) -> np.ndarray:
    """The definition: every n-gram is added to the array at its place, one after the other."""
    plain = "".join("0" if letter.isdecimal() else letter for letter in text.lower())
    said, counts, half = plain.split(), words(plain), HASHED // 2
    if said:
        counts |= {f"^ {said[0]}": 1, f"$ {said[-1]}": 1}
    row = np.zeros(HASHED, np.float32)
    for offset, grams in ((0, counts), (half, pieces(plain))):
        part = np.zeros(half, np.float32)
        for gram, count in grams.items():
            code = zlib.crc32(gram.encode())
            part[code % half] += (1.0 if code & (1 << 30) else -1.0) * (1.0 + np.log(count))
        if norm := float(np.linalg.norm(part)):
            row[offset : offset + half] = part / norm
    return row


@pytest.mark.row("C2")
@given(st.text(alphabet="abcdé 0172,.!?'", max_size=400))
def test_ngrams_are_hashed_as_when_the_weights_were_fitted(text: str) -> None:
    assert np.array_equal(hashed(text), by_place(text))


@pytest.mark.row("C2")
def test_ngrams_that_share_a_place_are_added() -> None:
    # Of so many n-grams hundreds meet.
    text = " ".join(f"word{chr(97 + number % 26)}{chr(97 + number // 26)}x" for number in range(400))
    assert np.array_equal(hashed(text), by_place(text))
    assert not hashed("").any()
