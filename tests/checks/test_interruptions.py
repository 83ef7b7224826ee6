"""Interruptions: few labelled turns start a flow in the middle of another, so the estimate counts there."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy import Turn


@pytest.mark.long
@pytest.mark.row("F9", "U11")
def test_a_fresh_program_starts_another_flow_in_the_middle_of_a_form(fitted_support: Any) -> None:
    policy = fitted_support.program.policy
    assert 0.0 < policy.busy_head_weight < 0.2 < policy.head_weight < 1.0
    flows = []
    for text in (
        "hang on, where is my order 5519?",
        "oh and please cancel order 2207 as well",
        "the blue kettle",
    ):
        turn = Turn(
            text=text, flow="return_item", status="collecting_slots", awaiting="item", slots={"order_id": "5520"},
            history=[{"role": "assistant", "text": "What would you like to return?"}],  # type: ignore[list-item]
        )  # fmt: skip
        flows.append(fitted_support.program.decide(turn).selection.flows)
    assert flows == [["track_order"], ["cancel_order"], []]
