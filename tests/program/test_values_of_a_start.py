"""Whose a value is where a message starts a flow while the running flow awaits such a value."""

from __future__ import annotations

import json

import pytest

from jazzmine_dspy import FlowRegistry, load
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.models import Turn
from jazzmine_dspy.models.commands import SetSlot, StartFlow


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


RENTALS = FlowRegistry(
    [
        {
            "name": "book_table", "description": "Book a table at the restaurant",
            "examples": ["book a table", "I want to reserve a table"],
            "slots": [{"name": "guests", "type": "number", "description": "How many people come"}],
        },
        {
            "name": "rent_bikes", "description": "Rent bikes", "examples": ["rent bikes", "I want to hire a bike"],
            "slots": [
                {"name": "bikes", "type": "number", "description": "How many bikes"},
                {"name": "days", "type": "number", "description": "For how many days"},
            ],
        },
    ]
)  # fmt: skip
LONG = (
    "hello there, I was in your place last summer with my family and it was really lovely, thank you so much",
    "Thank you very much for the kind words, we are always glad to hear that our guests enjoyed the evening with us "
    "and hope to see you all again very soon. Is there anything else I can do for you today?",
)


@pytest.mark.row("C1")
def test_the_reader_drops_a_number_that_is_no_value_of_the_slot() -> None:
    program = load("base", flows=RENTALS, lm=None)
    commands = program.decide(Turn(text="I want to hire a bike for 3 days")).commands
    assert commands[0] == StartFlow(flow="rent_bikes")
    assert SetSlot(name="bikes", value=3) not in commands
    assert SetSlot(name="bikes", value=4) in program.decide(Turn(text="can we hire 4 bikes")).commands


@pytest.mark.row("C1")
def test_a_number_behind_the_words_that_the_reader_reads_is_kept() -> None:
    text = (
        "yes please, I would like to book a table at your restaurant, for my mother and father who are visiting us "
        "from Ljubljana, since it's been ages that we all went out together; there will be 7 of us"
    )
    history = [{"role": "user", "text": LONG[0]}, {"role": "assistant", "text": LONG[1]}]
    turn = Turn.model_validate({"text": text, "history": history})
    assert load("base", flows=RENTALS, lm=None).decide(turn).commands == [
        StartFlow(flow="book_table"),
        SetSlot(name="guests", value=7),
    ]
