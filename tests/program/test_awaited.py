"""A city is asked for: values of other slots fill theirs, and no act becomes a city."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy import artifacts
from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.commands import SetSlot
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

FLIGHTS = FlowRegistry(
    [
        {
            "name": "book_flight",
            "description": "Book a flight.",
            "examples": ["book a flight"],
            "slots": [
                {"name": "origin", "type": "text", "ask": "From where?"},
                {"name": "destination", "type": "text", "ask": "Where to?"},
                {"name": "date", "type": "date", "ask": "When?"},
            ],
        }
    ]
)
TRIP = {"origin": "Boston", "destination": "Paris", "date": "2026-05-08"}
NAMES = ("fallback", "local")


def asked(text: str) -> Turn:
    """A message that follows the question for the origin, on a Monday."""
    return Turn(
        text=text,
        flow="book_flight",
        awaiting="origin",
        status="collecting_slots",
        history=[{"role": "assistant", "text": "From where?"}],  # type: ignore[arg-type]
        date=dt.date(2026, 5, 4),
    )


@pytest.fixture(scope="module", params=NAMES)
def program(request: pytest.FixtureRequest) -> TurnProgram:
    """A program without a language model, with and without trained models."""
    made = TurnProgram(FLIGHTS, policy=Policy().named(request.param))
    artifacts.bind_recall(made, FastembedEmbedder())
    return made


def values(program: TurnProgram, turn: Turn) -> dict[str, Any]:
    """Slots to values."""
    commands = program.decide(turn).commands
    return {one.name: one.value for one in commands if isinstance(one, SetSlot)}


@pytest.mark.row("U5", "U14")
@pytest.mark.parametrize("text", ["Cancel", "cancel!", "No", "Yes", "help", "Help!", "start over", "thanks"])
def test_no_act_becomes_the_city_that_was_asked_for(program: TurnProgram, text: str) -> None:
    assert values(program, asked(text)) == {}


@pytest.mark.row("U5", "U14")
@pytest.mark.parametrize("text", ["Genoa", "St. Louis", "Nola"])
def test_a_city_that_sounds_like_an_act_is_the_city(program: TurnProgram, text: str) -> None:
    assert values(program, asked(text)) == {"origin": text}


@pytest.mark.row("U5", "U14")
@pytest.mark.parametrize("program", ["local"], indirect=True)
def test_a_correction_is_no_city(program: TurnProgram) -> None:
    assert "origin" not in values(program, asked("Actually, change it to Boston"))


@pytest.mark.row("U5")
@pytest.mark.parametrize("shape", ["staged", "fused", "no language model"])
def test_one_message_fills_the_awaited_slot_and_two_others(
    speak: Callable[..., Any], overlap: Callable[..., Any], enhanced: dict[str, Any], shape: str
) -> None:
    if shape == "no language model":
        program = TurnProgram(FLIGHTS, policy=Policy().named("local"))
        artifacts.bind_recall(program, FastembedEmbedder())
    else:
        filled = [
            {"type": "set_slot", "name": name, "value": value}
            for name, value in {**TRIP, "date": "Friday"}.items()
        ]
        lm = speak(understand={"commands": filled}, fused={**enhanced, "flows": [], "commands": filled})
        program = TurnProgram(FLIGHTS, policy=Policy(shape=shape).named("lm"))
        program.bind(lm=lm, recall=overlap(FLIGHTS))
    assert values(program, asked("from Boston to Paris on Friday")) == TRIP
