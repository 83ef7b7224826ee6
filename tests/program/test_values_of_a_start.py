"""Whose a value is where a message starts a flow while the running flow awaits such a value."""

from __future__ import annotations

import json

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.lm import scripted_lm
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


@pytest.mark.row("U19")
@pytest.mark.parametrize("text", ["where is order 4471, you idiots!!!", "wheres order 4471 ffs"])
def test_the_head_starts_a_flow_that_cancels_only_if_the_message_asks_for_it(text: str) -> None:
    decision = load("support", lm=None).decide(Turn(text=text))
    assert decision.selection.flows == ["track_order"]


@pytest.mark.row("U19")
def test_a_language_model_may_cancel_without_a_word_for_it() -> None:
    answer = {
        "enhanced_query": "where is order 4471, you idiots",
        "sentiment_score": 0.0, "intent": "unknown", "entities": [],
        "is_cancellation": False, "is_continuation": True, "commands": ["cancel_order"],
    }  # fmt: skip
    lm = scripted_lm(lambda _: json.dumps(answer))
    program = load("support", lm=None).with_policy("lm").bind(lm=lm)
    decision = program.decide(Turn(text="where is order 4471, you idiots"))
    assert decision.selection.flows == ["cancel_order"]
