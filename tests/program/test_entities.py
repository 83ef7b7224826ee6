"""The things that a message names: by number, by slot values and as noun phrases."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.commands import Command, SetSlot, StartFlow
from jazzmine_dspy.models.slots import Slot
from jazzmine_dspy.program.entities import entities_of
from jazzmine_dspy.program.heads.acts.referred import referred_value

FLOWS = FlowRegistry([
    {
        "name": "send_back", "description": "Send an item back.",
        "slots": [
            {"name": "order_id", "type": "text", "pattern": r"\d{4}", "description": "Number of the order"},
            {"name": "item", "type": "text", "description": "What goes back"},
            {"name": "day", "type": "date", "description": "Day of the pick-up"},
            {"name": "phone", "type": "phone", "description": "Phone of the user"},
            {"name": "price", "type": "money", "description": "What was paid"},
        ],
    },
])  # fmt: skip
START = StartFlow(flow="send_back")


def names(text: str, *commands: Command, **state: Any) -> list[str]:
    return [each.name for each in entities_of(Turn(text=text, **state), FLOWS, commands)]


@pytest.mark.row("E4")
@pytest.mark.parametrize("text", ["where is order 5519?", "where is Order #5519?", "it's no. 5519"])
def test_a_numbered_thing_is_named_by_kind_and_number(text: str) -> None:
    assert names(text) == ["Order 5519"]


@pytest.mark.row("E4")
@pytest.mark.parametrize(
    "text",
    [
        "I paid £4471",
        "it was 4471 euros",
        "call 020 7946 2041",
        "a customer since 2024",
        "the postcode is 2041",
    ],
)
def test_amounts_phones_years_and_postcodes_number_no_thing(text: str) -> None:
    assert names(text) == []
    assert names(f"{text}, order 5519") == ["Order 5519"]
    assert names("order 5519 €50 back") == ["Order 5519"]


@pytest.mark.row("E4")
def test_values_of_text_slots_are_things_and_those_of_days_amounts_and_phones_are_not() -> None:
    said = [
        START,
        SetSlot(name="item", value="walnut stool"),
        SetSlot(name="day", value="2026-03-01"),
        SetSlot(name="phone", value="+4915112345678"),
        SetSlot(name="price", value="20.00 EUR"),
    ]
    assert names("walnut stool back on 1 march, 20 euros, +49 151 12345678", *said) == ["walnut stool"]


@pytest.mark.row("E4")
def test_noun_phrases_are_things_and_bare_words_are_not() -> None:
    assert names("the blue kettle is broken, is my order still at the same address?") == ["blue kettle"]
    assert names("hello there") == []


@pytest.mark.row("E8")
def test_what_the_task_holds_is_named_where_the_message_goes_on_with_it() -> None:
    state = {
        "flow": "send_back",
        "slots": {"order_id": "5519"},
        "entities": [{"name": "Order 5519"}, {"name": "lamp"}],
    }
    assert names("tomorrow", SetSlot(name="day", value="2026-03-01"), **state) == ["Order 5519"]
    assert names("the lamp, not the rug", START, **state) == ["lamp"]


@pytest.mark.row("E8")
def test_it_is_the_one_thing_of_the_conversation_that_has_a_number() -> None:
    slot = Slot(name="order_id", type="text", pattern=r"\d{4}")
    history = [{"role": "user", "text": "hi"}, {"role": "assistant", "text": "Order 5519 leaves today."}]
    one = Turn(text="send it back", history=history, entities=[{"name": "lamp"}, {"name": "Order 5519"}])
    assert referred_value(slot, one, starts=True) == "5519"
    two = one.model_copy(
        update={"entities": (*one.entities, one.entities[1].model_copy(update={"name": "Order 6001"}))}
    )
    assert referred_value(slot, two, starts=True) is None
