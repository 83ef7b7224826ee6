"""Messages that ask for time: what is one, and what a program without a language model decides."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.program.acts import WAIT, asks_for_time
from jazzmine_dspy.program.turn import TurnProgram

FLOWS = [
    {
        "name": "pay_bill",
        "description": "Pay a bill.",
        "examples": ["pay my bill"],
        "confirm": "Pay bill {bill}?",
        "slots": [{"name": "bill", "type": "text"}, {"name": "stay", "type": "duration"}],
    }
]


@pytest.mark.row("U18")
@pytest.mark.parametrize(
    "text",
    [
        *sorted(WAIT), "bear with me, I'm looking for the invoice", "hang on let me find my phone", "5 mins pls",
        "give me a moment to think", "Hang on...", "hold on, I have to ask my wife first", "let me check my calendar",
        "one sec, need to find it", "hold on a sec while I look it up", "I'm still looking for it", "hmmm",
    ],
)  # fmt: skip
def test_what_asks_for_time(text: str) -> None:
    assert asks_for_time(text)


@pytest.mark.row("U18")
@pytest.mark.parametrize(
    "text",
    [
        "wait no", "wait, it's 4471", "let me see my orders", "just a moment of kindness would have been nice",
        "hold up my order", "let me get a refund", "hold on to my parcel", "a minute ago", "wait until friday",
        "let me check the status of my order", "hang on, that's wrong", "one", "I'll check it out later, cancel it",
        "I need a moment to cancel", "stop", "", "later", "uh uh",
    ],
)  # fmt: skip
def test_what_says_something(text: str) -> None:
    assert not asks_for_time(text)


@pytest.mark.row("U18", "W6")
@pytest.mark.parametrize(
    "state",
    [
        {"status": "collecting_slots", "awaiting": "bill"},
        {"status": "awaiting_confirmation", "confirming": {"flow": "pay_bill", "action": "Pay bill 1?"}},
    ],
    ids=["asked", "confirming"],
)
def test_a_pause_is_decided_by_rule(state: dict[str, Any]) -> None:
    program = TurnProgram(FlowRegistry(FLOWS)).with_policy("fallback")
    decided = program.decide(Turn(text="hang on, let me find my glasses", flow="pay_bill", **state))
    assert (decided.commands, decided.pause) == ([], True)
    assert {record.source for record in decided.stages.values()} == {"rule"}
    assert not program.decide(Turn(text="bill 7", flow="pay_bill", **state)).pause


@pytest.mark.row("U18")
def test_a_value_is_no_pause_and_one_may_be_where_nothing_waits() -> None:
    program = TurnProgram(FlowRegistry(FLOWS)).with_policy("fallback")
    asked = {"flow": "pay_bill", "status": "collecting_slots", "awaiting": "stay"}
    decided = program.decide(Turn(text="one minute", **asked))
    assert ([c.type for c in decided.commands], decided.pause) == (["set_slot"], False)
    assert program.decide(Turn(text="hang on")).pause
    assert not program.decide(Turn(text="ok")).pause
    assert not program.decide(Turn(text="hang on", **{**asked, "locale": "de"})).pause
    assert "pause" not in decided.model_dump(mode="json")


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    ("text", "agrees"), [("lol ok", False), ("ok thanks", False), ("yes", True), ("ok do it", True)]
)
@pytest.mark.parametrize("asked", ["hang on", "what does it cost"])
def test_an_ok_to_a_pause_is_no_yes(text: str, agrees: bool, asked: str) -> None:
    """The question is asked again; an ok that answers the question itself is a yes."""
    turn = Turn(
        text=text,
        flow="pay_bill",
        status="awaiting_confirmation",  # type: ignore[arg-type]
        slots={"bill": "7"},  # type: ignore[arg-type]
        confirming={"action": "Pay bill 7?"},  # type: ignore[arg-type]
        history=(
            {"role": "user", "text": asked},  # type: ignore[arg-type]
            {"role": "assistant", "text": "Take your time."},  # type: ignore[arg-type]
        ),
    )
    program = TurnProgram(FlowRegistry(FLOWS)).with_policy("fallback")
    kinds = [command.type for command in program.decide(turn).commands]
    assert kinds == (["affirm"] if agrees or asked != "hang on" else [])


@pytest.mark.row("U19")
@pytest.mark.parametrize(
    ("text", "flow", "paused"),
    [
        ("I need to get my card quickly", "pay_bill", True),
        ("I need to get my card quickly", None, False),
        ("hang on let me get my card", None, True),
    ],
)
def test_getting_a_thing_asks_for_time_only_while_something_waits(
    text: str, flow: str | None, paused: bool
) -> None:
    state = {"flow": flow, "status": "collecting_slots", "awaiting": "bill"} if flow else {}
    program = TurnProgram(FlowRegistry(FLOWS)).with_policy("fallback")
    assert program.decide(Turn(text=text, **state)).pause is paused  # type: ignore[arg-type]
