"""What is done where nobody is sure: a flow that destroys is asked about, a text is taken, nothing is certain."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Turn, TurnProgram
from jazzmine_dspy.models.commands import CancelFlow, SetSlot, StartFlow
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled

FLOWS: list[dict[str, Any]] = [
    {"name": "return_item", "description": "Send an item back.", "examples": ["send it back"],
     "slots": [{"name": "reason", "type": "text"}, {"name": "order_id", "type": "text", "pattern": r"\d{4}"}]},
    {"name": "cancel_order", "description": "Call off an order.", "confirm": "Cancel it. Shall I?"},
    {"name": "track_order", "description": "Tell where an order is."},
]  # fmt: skip
REASON = {"status": "collecting_slots", "flow": "return_item", "awaiting": "reason"}


class Fixed:
    """A recall that always finds the same."""

    fingerprint = "fixed"

    def __init__(self, **scores: float) -> None:
        self.found = [Recalled(name, score) for name, score in scores.items()]

    def __deepcopy__(self, memo: dict[int, Any]) -> Fixed:
        return self

    def recall(self, query: str, **options: Any) -> list[Recalled]:
        return self.found


def program(busy: float = 1.0, **scores: float) -> TurnProgram:
    policy = Policy(fallback_score={"idle": 0.12, "busy": busy}).named("fallback")
    return TurnProgram(FlowRegistry(FLOWS), policy=policy).bind(recall=Fixed(**scores))


# --- a flow that destroys ---------------------------------------------------------------------------------


@pytest.mark.row("F11", "U12")
def test_a_flow_that_is_confirmed_is_asked_about_where_the_next_is_near() -> None:
    near = program(cancel_order=0.5, track_order=0.49).decide("my order")
    assert (near.selection.flows, near.selection.clarify) == ([], ["cancel_order", "track_order"])
    far = program(cancel_order=0.5, track_order=0.4).decide("my order")
    assert far.selection.flows == ["cancel_order"]


@pytest.mark.row("F11")
def test_what_does_no_harm_is_begun_without_asking() -> None:
    decision = program(track_order=0.5, cancel_order=0.49).decide("my order")
    assert decision.commands == [StartFlow(flow="track_order")]


# --- a text that was asked for ----------------------------------------------------------------------------


@pytest.mark.row("U5", "U14")
@pytest.mark.parametrize("text", ["it arrived broken", "I know it is late", "no lid on the pot", "Genoa"])
def test_the_message_is_the_text_that_was_asked_for(text: str) -> None:
    [given] = program(cancel_order=0.3).decide(Turn(text=text, **REASON)).commands
    assert isinstance(given, SetSlot)
    assert (given.name, given.value in text) == ("reason", True)


@pytest.mark.row("U5", "U14")
def test_an_act_another_flow_another_value_or_a_question_is_none() -> None:
    made = program(cancel_order=0.3)
    assert made.decide(Turn(text="never mind", **REASON)).commands == [CancelFlow()]
    assert made.decide(Turn(text="what does that mean?", **REASON)).commands == []
    assert made.decide(Turn(text="it is order 4471", **REASON)).commands == [
        SetSlot(name="order_id", value="4471")
    ]
    surer = program(busy=0.6, track_order=0.8).decide(Turn(text="where is it now", **REASON))
    assert surer.commands == [StartFlow(flow="track_order")]
    # One that has a form, or another type, tells by itself what it is.
    asked = Turn(text="it arrived broken", **{**REASON, "awaiting": "order_id"})
    assert made.decide(asked).commands == []


# --- nothing found ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "turn",
    [
        Turn(text="wibble"),
        Turn(text="thanks"),
        Turn(text="wibble", flow="track_order"),
        Turn(text="yes", status="awaiting_confirmation", flow="cancel_order", confirming={"action": "x"}),
        Turn(text="neither", clarifying=("cancel_order", "track_order")),
    ],
)
@pytest.mark.parametrize("flows", [FLOWS, []])
def test_nothing_found_is_never_certain(turn: Turn, flows: list[Any]) -> None:
    sure = {"fallback": 1.0, "local": 1.0}
    policy = Policy(trust=sure).named("fallback")
    decision = TurnProgram(FlowRegistry(flows), policy=policy).decide(turn)
    assert decision.selection.flows == []
    assert decision.selection.confidence < 1.0
    assert decision.commands or decision.stages["understand"].confidence < 1.0
