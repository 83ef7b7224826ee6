"""A code next to the name of its slot is its value, also in the message that starts the flow."""

from __future__ import annotations

import pytest

from jazzmine_dspy import FlowRegistry
from jazzmine_dspy.program.heads.acts.named import named_texts

CODE = {"name": "code", "type": "text", "ask": "What is your reservation code?"}
BOOKING = {"name": "booking_number", "type": "text", "ask": "Which booking?"}
FLOW = FlowRegistry([{"name": "cancel", "description": "Cancel a table.", "slots": [CODE, BOOKING]}])[
    "cancel"
]


@pytest.mark.row("U5")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("also can you cancel my other reservation, code is KX81", {"code": "KX81"}),
        ("cancel it, booking number 4471 please", {"booking_number": "4471"}),
        ("cancel my table, i lost the code", {}),
        ("what is a code for two people", {}),
    ],
)
def test_a_code_behind_its_name(text: str, values: dict[str, str]) -> None:
    assert named_texts(FLOW, text).values == values
