"""Many turns at once, while a part hangs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Turn, TurnProgram
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn_confidence import TurnConfidence

Make = Callable[..., Any]
HISTORY = [{"role": "user", "text": "hello, I have a question"}]


@pytest.mark.row("A7", "P4", "U15")
@pytest.mark.parametrize("style", ["sync", "async"])
def test_two_hundred_turns_whose_recall_hangs_are_neither_late_nor_lost(
    overlap: Make, letters: Make, registry: FlowRegistry, speak: Make, style: str
) -> None:
    go = threading.Event()

    class Hanging(overlap):  # type: ignore[misc]
        def recall(self, query: str, **options: Any) -> Any:
            go.wait(60)
            return super().recall(query, **options)

    policy = Policy(turn_confidence=TurnConfidence(offset=9.0, gate=0.5))
    program = TurnProgram(registry, policy=policy)
    program = program.bind(recall=Hanging(registry), embedder=letters(), lm=speak())
    turns = [Turn(text=f"where is my order {number}", history=HISTORY) for number in range(200)]
    took: list[float] = []

    async def one(turn: Turn) -> TurnDecision:
        began = time.monotonic()
        decision = await program.adecide(turn, deadline=1.0)
        took.append(time.monotonic() - began)
        return decision

    async def all_of_them() -> list[TurnDecision]:
        return await asyncio.gather(*map(one, turns))

    began = time.monotonic()
    runner = asyncio.Runner()
    try:
        if style == "sync":
            decisions = program.decide_many(turns, workers=200, deadline=1.0)
        else:
            decisions = runner.run(all_of_them())
    finally:
        go.set()
        runner.close()
    # One after the other they would take 200 s; what is over the second is the work of a busy machine.
    assert time.monotonic() - began < 20
    assert [one.enhancement.enhanced_query for one in decisions] == [turn.text for turn in turns]
    for decision in decisions:
        assert "recall: " in str(decision.stages["select"].cause)
        assert "deadline" in str(decision.stages["select"].cause)
