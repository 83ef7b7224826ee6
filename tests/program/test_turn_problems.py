"""A turn whose state cannot be: the decision says so."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.models import FlowRegistry, Turn, TurnDecision
from jazzmine_dspy.program.turn import TurnProgram

FLOWS = [
    {
        "name": "cancel_order",
        "description": "Call off an order.",
        "confirm": "Cancel {order_id}?",
        "slots": [{"name": "order_id", "type": "text", "pattern": r"\d{4}"}],
    }
]


@pytest.mark.row("U3", "F14")
@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"flow": "cancel_ordr"}, "flow: no flow is called 'cancel_ordr'"),
        (
            {"flow": "cancel_order", "awaiting": "order"},
            "awaiting: flow 'cancel_order' has no slot 'order'",
        ),
        ({"awaiting": "order_id"}, "awaiting: 'order_id' is awaited, but no flow runs"),
        (
            {"flow": "cancel_order", "confirming": {"flow": "pay", "action": "Pay?"}},
            "confirming: no flow is called 'pay'",
        ),
        (
            {"flow": "cancel_order", "status": "awaiting_confirmation"},
            "status: a confirmation is awaited, but 'confirming' does not say which",
        ),
    ],
)
def test_what_cannot_be_is_named_in_the_decision(
    state: dict[str, Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    program = TurnProgram(FlowRegistry(FLOWS)).with_policy("fallback")
    decided = program.decide(Turn(text="yes please", **state))
    assert decided.problems == (problem,)
    assert problem in caplog.text
    assert decided.model_dump(mode="json")["problems"] == [problem]
    assert TurnDecision.model_validate_json(decided.model_dump_json()) == decided


@pytest.mark.row("U3")
def test_a_state_that_can_be_has_no_problems() -> None:
    program = TurnProgram(FlowRegistry(FLOWS)).with_policy("fallback")
    sound: list[dict[str, Any]] = [
        {},
        {"flow": "cancel_order", "status": "collecting_slots", "awaiting": "order_id"},
        {
            "flow": "cancel_order",
            "status": "awaiting_confirmation",
            "confirming": {"flow": "cancel_order", "action": "Cancel 4471?"},
        },
    ]
    for state in sound:
        decided = program.decide(Turn(text="yes please", **state))
        assert decided.problems == ()
        assert "problems" not in decided.model_dump(mode="json")
