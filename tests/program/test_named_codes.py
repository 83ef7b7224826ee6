"""A code next to the name of its slot is its value, also in the message that starts the flow."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.models import Turn
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


REFUND = {
    "name": "refund_visit",
    "description": "Pay back a visit.",
    "slots": [
        {"name": "code", "type": "text", "pattern": r"A\d{3}", "ask": "What is the code of your visit?"},
        {"name": "amount", "type": "money", "ask": "How much did you pay?"},
    ],
}


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("awaiting", "text", "values"),
    [
        ("code", "102", {"code": "A102"}),
        ("code", "102 pounds", {"amount": "102.00 GBP"}),
        ("amount", "102", {"amount": "102.00 GBP"}),
        ("amount", "102 pounds", {"amount": "102.00 GBP"}),
    ],
)
def test_digits_get_the_letter_of_a_code_where_it_is_asked_for(
    awaiting: str, text: str, values: dict[str, str]
) -> None:
    program = TurnProgram(FlowRegistry([REFUND], currency="GBP"))
    held: dict[str, Any] = {} if awaiting == "code" else {"code": "A555"}
    turn = Turn(text=text, flow="refund_visit", awaiting=awaiting, status="collecting_slots", slots=held)
    given = [c.model_dump() for c in program.decide(turn).commands if c.type == "set_slot"]
    assert {each["name"]: each["value"] for each in given} == values
