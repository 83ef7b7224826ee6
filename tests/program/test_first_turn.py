"""What a first turn takes beside itself takes nothing of its deadline (P4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.errors import EmbeddingError
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Heavy:
    """An embedder whose weights take so many seconds to load."""

    fingerprint, size, feature_size = "heavy", 1, 1

    def __init__(self, clock: Clock, seconds: float, fails: bool = False) -> None:
        self.clock, self.seconds, self.fails = clock, seconds, fails
        self.loaded = False
        self.loads = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Heavy:
        return self

    def load(self) -> None:
        self.loads += 1
        self.clock.now += self.seconds
        if self.fails:
            raise EmbeddingError("the weights are gone")
        self.loaded = True

    def features(self, texts: Any) -> Any:
        if not self.loaded:
            raise EmbeddingError("the weights are gone")
        return np.zeros((len(texts), 1), dtype=np.float32)


class Reads:
    """A head of selection that wants to see the message."""

    fingerprint = "reads"

    def __deepcopy__(self, memo: dict[int, Any]) -> Reads:
        return self

    def texts(self, message: str) -> tuple[str, ...]:
        return (message,)

    def predict(self, given: Any) -> Any:
        return SelectionOutput(("track_order",), 1.0, (("track_order", 1.0),))


def _decided(recall: Any, embedder: Heavy, style: str, deadline: float) -> Any:
    program = TurnProgram(recall.registry, policy=Policy().named("local")).bind(recall=recall)
    program.bind(heads={"select": Reads()}, embedder=embedder, clock=embedder.clock)
    if style == "sync":
        return program.decide(Turn(text="is it here"), deadline=deadline)
    return asyncio.run(program.adecide(Turn(text="is it here"), deadline=deadline))


@pytest.mark.row("P4")
@pytest.mark.parametrize("style", ["sync", "async"])
def test_loading_the_weights_takes_nothing_of_the_deadline(
    registry: FlowRegistry, overlap: Make, style: str
) -> None:
    embedder = Heavy(Clock(), seconds=30.0)
    decision = _decided(overlap(registry), embedder, style, deadline=5.0)
    assert decision.selection.flows == ["track_order"]
    assert not decision.stages["select"].cause
    assert embedder.loads == 1


@pytest.mark.row("P4")
@pytest.mark.parametrize("style", ["sync", "async"])
def test_weights_that_cannot_be_loaded_degrade_the_stage(
    registry: FlowRegistry, overlap: Make, style: str
) -> None:
    record = _decided(overlap(registry), Heavy(Clock(), 1.0, fails=True), style, deadline=5.0).stages[
        "select"
    ]
    assert (record.source, record.degraded) == ("fallback", True)
    assert "EmbeddingError" in str(record.cause)
