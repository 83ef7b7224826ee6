"""P3: a turn costs one call of a language model at most in the fused shape, and three in the staged one.

One more asks once again for what was refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.models import Turn

Make = Callable[..., Any]
RUNNING = {"flow": "track_order", "awaiting": "order_id", "status": "collecting_slots"}
TURNS = {
    "idle": Turn(text="please call off the order"),
    "running": Turn(text="and can I buy a gift card instead", **RUNNING),  # type: ignore[arg-type]
    "confirming": Turn(
        text="yes", status="awaiting_confirmation", flow="cancel_order", confirming={"action": "Cancel it?"}
    ),
}
ANSWERS: dict[str, dict[str, Any]] = {
    "good": {},
    "another flow": {"select": {"flows": ["A"]}},
    "unreadable": dict.fromkeys(("enhance", "select", "understand", "fused"), "no JSON"),
    "broken off": dict.fromkeys(("enhance", "select", "understand", "fused"), '{"enhanced_query": "where'),
}


CASES = [
    pytest.param(turn, shape, most, answers, id=f"{name}-{shape}-{answers}")
    for name, turn in TURNS.items()
    for shape, most in (("fused", 1), ("staged", 3))
    for answers in ANSWERS
    # While a flow runs, the staged shape reads a message a second time for the slots of another flow: a fourth call.
    if (name, shape, answers) not in {(n, "staged", "another flow") for n in ("running", "confirming")}
]


@pytest.mark.row("P3")
@pytest.mark.parametrize(("turn", "shape", "most", "answers"), CASES)
def test_a_turn_costs_no_more_calls_than_its_shape_promises(
    speak: Make, make_program: Make, turn: Turn, shape: str, most: int, answers: str
) -> None:
    lm = speak(again=True, **ANSWERS[answers])
    decision = make_program(lm, shape).decide(turn)
    retried = sum(bool(record.retried) for record in decision.stages.values()) > 0
    assert 0 < lm.engine.calls <= most + retried
    assert retried or answers not in ("unreadable", "broken off")
    assert decision.usage.lm_calls == lm.engine.calls


@pytest.mark.row("P3")
def test_recall_of_the_one_call_knows_the_message_the_rules_and_the_summaries(
    speak: Make, make_program: Make, registry: Any, overlap: Make, enhanced: dict[str, Any]
) -> None:
    """It comes before the call, so that it cannot use the rewrite of the language model."""
    order: list[str] = []

    def answer(request: Any) -> dict[str, Any]:
        order.append("language model")
        return {**enhanced, "enhanced_query": "cancel the red lamp", "flows": [], "commands": []}

    class Recall(overlap):  # type: ignore[misc, valid-type]
        def recall(self, query: str, **options: Any) -> Any:
            order.append("recall")
            return super().recall(query, **options)

    recall = Recall(registry)
    program = make_program(speak(fused=answer), "fused", recall=recall)
    program.decide(Turn(text="can it be quicker", episode_summaries=["A parcel was late."]))
    assert order == ["recall", "language model"]
    [asked] = recall.asked
    assert (asked["query"], asked["summaries"]) == ("can it be quicker", ("A parcel was late.",))
    program.decide(Turn(text="the second one", clarifying=["track_order", "gift_card"]))
    assert recall.asked[-1]["query"] == "gift card"
