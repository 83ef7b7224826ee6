"""The prefix cache: an answer does not depend on what was asked before it."""

from __future__ import annotations

import pytest

from jazzmine_dspy.lm import resolve_lm

BEGINNINGS = ("You answer briefly. " * 12, "You answer in one word. " * 12)
QUESTIONS = ("Where is my parcel?", "Cancel order 4471, please.", "Thanks!")


@pytest.mark.long
@pytest.mark.local_lm
def test_answers_do_not_depend_on_earlier_calls() -> None:
    pytest.importorskip("xllamacpp")
    lm = resolve_lm("local/smollm2-135m", max_tokens=12)

    def ask(beginning: int, question: int) -> str:
        messages = [
            {"role": "system", "content": BEGINNINGS[beginning]},
            {"role": "user", "content": QUESTIONS[question]},
        ]
        return str(lm(messages=messages)[0])

    first = {(b, q): ask(b, q) for b in (0, 1) for q in (0, 1, 2)}
    # Backwards, and with beginnings that alternate: every call follows another one than before.
    again = {(b, q): ask(b, q) for q in (2, 1, 0) for b in (1, 0)}
    assert again == first
    assert len(set(first.values())) > 1
