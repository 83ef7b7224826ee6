"""Whose a value is where a message starts a flow while the running flow awaits such a value."""

from __future__ import annotations

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.models import Turn


@pytest.mark.row("F10", "U9")
@pytest.mark.parametrize("text", ["please cancel order 5519", "I want to cancel order 5519"])
def test_the_value_is_the_one_of_the_flow_that_starts(text: str) -> None:
    turn = Turn(text=text, flow="track_order", awaiting="order_id", status="collecting_slots")
    decision = load("support", lm=None).decide(turn)
    commands = [
        (one.type, getattr(one, "flow", None) or getattr(one, "value", None)) for one in decision.commands
    ]
    assert commands == [("start_flow", "cancel_order"), ("set_slot", "5519")]
