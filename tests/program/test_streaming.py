"""``dspy.streamify`` yields the prediction with the decision, whichever way the program is streamed, and no tokens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.streaming import StreamListener

from jazzmine_dspy.models import Turn
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
WAYS = pytest.mark.parametrize("way", ["sync", "sync generator", "async"])
TEXT = "it is late, my order 4471, where is it"


def streamed(program: dspy.Module, way: str, **options: Any) -> list[Any]:
    """All that a stream yields about one message."""
    if way == "sync generator":
        return list(dspy.streamify(program, async_streaming=False, **options)(text=TEXT))

    async def read() -> list[Any]:
        stream = dspy.streamify(program, is_async_program=way == "async", **options)
        return [item async for item in stream(text=TEXT)]

    return asyncio.run(read())


@pytest.mark.row("P4", "A10")
@WAYS
@pytest.mark.parametrize("shape", ["staged", "fused"])
@pytest.mark.parametrize("listens", [False, True])
def test_a_stream_yields_the_prediction_alone(
    speak: Make, make_program: Make, way: str, shape: str, listens: bool
) -> None:
    program = make_program(speak(), shape)
    plain = program.decide(TEXT)
    options = {"stream_listeners": [StreamListener("enhanced_query")]} if listens else {}
    (prediction,) = streamed(program, way, **options)
    assert isinstance(prediction, dspy.Prediction)
    assert prediction.decision.content() == plain.content()
    assert not prediction.decision.degraded


class Desk(dspy.Module):
    """A module of a user's own, with a program for a part."""

    def __init__(self, program: TurnProgram) -> None:
        super().__init__()
        self.understand = program

    def forward(self, text: str) -> dspy.Prediction:
        first, second = self.understand.decide_many(
            [Turn(text=text), Turn(text="when are you open")], workers=2
        )
        alone = self.understand(text=text).decision
        return dspy.Prediction(decisions=[first, second, alone])


@pytest.mark.row("P4", "A10")
@pytest.mark.parametrize("way", ["sync", "sync generator"])
def test_a_program_within_a_streamed_module_decides_in_threads_of_its_own(
    speak: Make, make_program: Make, way: str
) -> None:
    (prediction,) = streamed(Desk(make_program(speak(), "fused")), way)
    assert [each.degraded for each in prediction.decisions] == [False, False, False]


@pytest.mark.row("P4", "L3")
def test_a_model_that_hangs_is_cut_off_at_the_deadline(make_program: Make, speak: Make) -> None:
    release = threading.Event()

    def hang(_: Any) -> Any:
        # Never answers while the turn is decided.
        release.wait(20.0)
        return "late"

    program = make_program(speak(fused=hang), "fused")

    class Quick(dspy.Module):
        def forward(self, text: str) -> dspy.Prediction:
            return dspy.Prediction(decision=program(text=text, deadline=0.2).decision)

    try:
        (prediction,) = streamed(Quick(), "sync")
    finally:
        release.set()
    assert prediction.decision.degraded
    assert "deadline" in str(prediction.decision.stages["enhance"].cause)
