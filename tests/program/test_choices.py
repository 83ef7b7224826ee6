"""An option that a message means without saying it."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.program.local.understanding import LIKELY_ASKED, LIKELY_TOLD
from jazzmine_dspy.program.turn import TurnProgram

RETURN, CANCEL, PART = "return_reason", "cancel_reason", "day_part"
SPEED, MAILS, ROOM = "speed", "frequency", "room"
OPTIONS = {
    RETURN: ["damaged", "wrong_item", "not_as_described", "no_longer_wanted"],
    CANCEL: ["changed_mind", "too_slow", "wrong_item", "found_cheaper"],
    PART: ["morning", "afternoon", "evening"],
    SPEED: ["standard", "express", "pickup"],
    MAILS: ["weekly", "monthly", "never"],
    ROOM: ["single", "double", "suite"],
}
MEANT = [
    (RETURN, "its broken", "damaged"),
    (RETURN, "glass cracked when it came", "damaged"),
    (RETURN, "the screen is smashed", "damaged"),
    (RETURN, "i dont want them any longer", "no_longer_wanted"),
    (RETURN, "you sent me the wrong one", "wrong_item"),
    (CANCEL, "i found it for less elsewhere", "found_cheaper"),
    (CANCEL, "saw it cheaper", "found_cheaper"),
    (CANCEL, "it takes too long", "too_slow"),
    (CANCEL, "i ordered the wrong size", "wrong_item"),
]
NONE = [
    (RETURN, "is it my fault"),
    (RETURN, "its brand new"),
    (RETURN, "it is not broken"),
    (RETURN, "it isn't damaged at all"),
    (RETURN, "i am not sure"),
    (RETURN, "it's none of your business"),
    (RETURN, "was it broken when you sent it?"),
    (CANCEL, "i was waiting for you"),
    (PART, "i was out yesterday"),
    (SPEED, "it was nice of you"),
    (MAILS, "it depends"),
    (CANCEL, "it's too slow, forget it"),
    (CANCEL, "i can't be bothered with it, cancel that"),
    (ROOM, "a triple"),
    (ROOM, "one bed for my wife and me"),
    (ROOM, "we are five"),
]


@pytest.fixture(scope="module")
def program() -> TurnProgram:
    slots = [
        {"name": name, "type": "choice", "options": options, "ask": "Which?"}
        for name, options in OPTIONS.items()
    ]
    made = TurnProgram(FlowRegistry([{"name": "task", "description": "Do a task.", "slots": slots}]))
    bind_recall(made, "minilm")
    return made


def said(program: TurnProgram, slot: str, text: str, **state: Any) -> list[Command]:
    turn = Turn(text=text, flow="task", status="collecting_slots", awaiting=slot, **state)
    return list(program.decide(turn).commands)


@pytest.mark.row("U7")
@pytest.mark.parametrize(("slot", "text", "option"), MEANT)
def test_an_option_in_other_words_is_taken(program: TurnProgram, slot: str, text: str, option: str) -> None:
    (found,) = said(program, slot, text)
    assert (found.type, found.slot_name, found.value) == ("set_slot", slot, option)  # type: ignore[union-attr]


@pytest.mark.row("U7")
@pytest.mark.parametrize(("slot", "text"), NONE)
def test_what_means_no_option_is_not_taken_for_one(program: TurnProgram, slot: str, text: str) -> None:
    assert not [command for command in said(program, slot, text) if command.order == "value"]


def test_other_languages_and_other_models_are_left_alone(program: TurnProgram) -> None:
    assert not [c for c in said(program, RETURN, "its broken", locale="de") if c.order == "value"]
    other = program.with_policy(program.policy)
    other.bind(embedder=None)
    turn = Turn(text="its broken", flow="task", status="collecting_slots", awaiting=RETURN)
    assert not [c for c in other.decide(turn).commands if c.order == "value"]
    assert 0.5 <= LIKELY_TOLD <= LIKELY_ASKED < 1
