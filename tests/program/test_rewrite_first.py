"""Where the rewrite of the language model came first, recall and selection read it (E18, P3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.models import Turn
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.program.turn_confidence import TurnConfidence

Make = Callable[..., Any]
TURN = Turn(text="so do that then for me please", history=[{"role": "user", "text": "hello, a question"}])


@pytest.mark.row("E18", "P3")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize(("policy", "shape", "calls"), [("shipped", "fused", 1), ("lm", "staged", 3)])
def test_recall_and_selection_read_the_rewrite(
    speak: Make, overlap: Make, letters: Make, registry: Any, enhanced: dict[str, Any],
    style: str, policy: Any, shape: Any, calls: int,
) -> None:  # fmt: skip
    enhanced["enhanced_query"] = "please buy me a gift card"
    lm, recall = speak(enhance=enhanced, select={"flows": ["A"]}), overlap(registry)
    certain = Policy(turn_confidence=TurnConfidence(offset=9.0, gate=0.5), shape=shape, enhance="lm")
    program = TurnProgram(registry, policy=certain).bind(recall=recall, embedder=letters(), lm=lm)
    program = program.with_policy(policy)
    decision = program.decide(TURN) if style == "sync" else asyncio.run(program.adecide(TURN))
    assert recall.asked[-1]["query"] == decision.enhancement.enhanced_query == enhanced["enhanced_query"]
    assert decision.selection.flows == ["gift_card"]
    assert (decision.stages["enhance"].source, lm.engine.calls) == ("lm", calls)
