"""A deadline reaches the engine of a language model, so that a call ends that no turn waits for any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from jazzmine_dspy.lm.engines import call_limit, scripted_lm

Make = Callable[..., Any]


@pytest.mark.row("P4", "L3")
def test_a_call_that_is_left_behind_knows_when_it_ends(make_program: Make) -> None:
    limits: list[float] = []
    ended = threading.Event()

    def hang(_: Any) -> str:
        limits.append(call_limit(120.0) or 0.0)
        threading.Event().wait(max(0.0, limits[0] - monotonic()))
        ended.set()
        return "{}"

    began = monotonic()
    decision = make_program(scripted_lm(hang), "fused").decide("where is my order", deadline=0.5)
    assert decision.degraded
    assert limits[0] < began + 60
    assert ended.wait(30)
