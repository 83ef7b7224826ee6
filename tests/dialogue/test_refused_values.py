"""Values that a slot cannot hold: the user hears why, or is asked which of several is meant."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import Enhancement, FlowRegistry, Selection, TurnDecision
from jazzmine_dspy.runtime import NextStep, apply


@pytest.mark.row("U9", "U17")
def test_the_user_is_told_why_a_value_is_refused_or_what_it_may_mean() -> None:
    size = {"name": "room_size", "type": "choice", "options": ["single", "double"], "ask": "Which size?"}
    guests = {"name": "guests", "type": "number", "min": 1, "max": 6, "ask": "How many?"}
    flows = FlowRegistry([{"name": "book", "description": "Book a room.", "slots": [size, guests]}])
    state = WorkingMemory(conversation_id="c", user_id="u")

    def say(*commands: dict[str, Any]) -> NextStep:
        nonlocal state
        made = TurnDecision(
            enhancement=Enhancement(enhanced_query="x"), selection=Selection(), commands=list(commands)
        )
        state, step = apply(state, made, flows)
        return step

    say({"type": "start_flow", "flow": "book"})
    step = say({"type": "set_slot", "name": "room_size", "value": "single or double"})
    assert (step.kind, step.text) == ("reask", "Do you mean single or double?")
    assert state.active_flow is not None
    assert state.active_flow.values == {}
    step = say({"type": "set_slot", "name": "room_size", "value": "penthouse"})
    assert step.text == "'penthouse' is none of single, double. Which size?"
    assert say({"type": "set_slot", "name": "room_size", "value": "the second one"}).text == "How many?"
    step = say({"type": "set_slot", "name": "guests", "value": "a dozen"})
    assert step.text == "12 is not between 1 and 6. How many?"
    assert say({"type": "set_slot", "name": "guests", "value": "two"}).kind == "run_flow"
    assert state.active_flow.values == {"room_size": "double", "guests": 2}


@pytest.mark.row("U9", "U12")
def test_a_change_that_is_refused_is_asked_about_before_the_flow_runs(talk: Any) -> None:
    """Also if a value for another flow is refused in the same message."""
    talk({"type": "start_flow", "flow": "track_order"})
    talk(
        {"type": "start_flow", "flow": "cancel_order"},
        {"type": "set_slot", "name": "order_id", "value": "4471"},
    )
    other = {"type": "set_slot", "name": "order_id", "value": "12", "flow": "track_order"}
    step = talk("affirm", other, {"type": "correct_slot", "name": "order_id", "value": "99"})
    assert (step.kind, step.flow, step.slot) == ("reask", "cancel_order", "order_id")
