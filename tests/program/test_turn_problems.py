"""A turn whose state cannot be: the decision says so."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from jazzmine_dspy import NLUContext
from jazzmine_dspy.models import FlowRegistry, Turn, TurnDecision
from jazzmine_dspy.models.decision import Enhancement
from jazzmine_dspy.program.decider import Decided, Decider
from jazzmine_dspy.program.policy import Policy
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
        ({"awaiting": "order_id"}, "awaiting: 'order_id' is asked for, but no flow runs"),
        (
            {"flow": "cancel_order", "confirming": {"flow": "pay", "action": "Pay?"}},
            "confirming: no flow is called 'pay'",
        ),
        (
            {"flow": "cancel_order", "status": "awaiting_confirmation"},
            "status: a confirmation is open, but 'confirming' does not say which",
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


DELIVERY = {
    "name": "delivery",
    "description": "Deliver a parcel on a day.",
    "examples": ["deliver my parcel"],
    "slots": [{"name": "day", "type": "date", "description": "Day of the delivery"}],
}


def turn_of_a_text(program: TurnProgram) -> Turn:
    """The turn that a bare text is decided as."""
    turns: list[Turn] = []

    class Watching(Decider):
        def decide(self, state: Any, so_far: Any, deadline: Any) -> Decided:
            turns.append(state.turn)
            return Decided(Enhancement(enhanced_query=state.turn.text), commands=())

    watched = program.with_policy("local").bind(deciders={"watching": Watching()})
    watched.policy = Policy(deciders=(("watching", None),))
    watched.decide(text="tomorrow")
    return turns[0]


@pytest.mark.row("A8")
def test_a_bare_text_is_said_today_and_a_turn_when_it_says() -> None:
    program = TurnProgram(FlowRegistry([DELIVERY])).with_policy("fallback")
    asked = {"flow": "delivery", "awaiting": "day", "status": "collecting_slots"}
    tomorrow = (dt.date.today() + dt.timedelta(days=1)).isoformat()
    context = NLUContext(current_flow="delivery", waiting_for_slot="day")
    decision = program.decide(context, text="tomorrow")
    assert (decision.slot_value, decision.problems) == (tomorrow, ())
    assert turn_of_a_text(program).date == dt.date.today()
    dated = NLUContext(**asked, date="2026-03-04", text="tomorrow")
    assert program.decide(dated).slot_value == "2026-03-05"
    for turn in (Turn(text="tomorrow", **asked), {"text": "tomorrow", **asked}):
        decision = program.decide(turn)  # type: ignore[arg-type]
        assert decision.slot_value != tomorrow
        (problem,) = decision.problems
        assert problem.startswith("date: the turn has none")
        assert "'day'" in problem
    for text in ("14.03.2026", "no idea"):
        assert program.decide(Turn(text=text, **asked)).problems == ()
    assert program.decide(Turn(text="tomorrow", date="2026-03-04", **asked)).problems == ()
