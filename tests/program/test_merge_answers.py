"""U12 and U11: what is said to an open question, and to an offer, as the merge takes it."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.models import Enhancement, FlowRegistry, Selection, Turn, command
from jazzmine_dspy.models.commands import Deny, SetSlot
from jazzmine_dspy.program.merge import merge

REGISTRY = FlowRegistry(
    {"name": name, "description": name, "slots": [{"name": slot, "type": "text"} for slot in slots]}
    for name, slots in {"ship": ["order", "speed"], "gift": ["amount"]}.items()
)


def decide(turn: Turn, flows: list[str], *forms: Any) -> list[dict[str, Any]]:
    commands = [command({"type": form} if isinstance(form, str) else form) for form in forms]
    _, _, merged = merge(turn, REGISTRY, Enhancement(enhanced_query="x"), Selection(flows=flows), commands)
    return [{k: v for k, v in one.model_dump(mode="json").items() if v is not None} for one in merged]


def fill(kind: str, name: str, value: str = "1") -> dict[str, Any]:
    return {"type": kind, "name": name, "value": value}


OPEN = Turn(text="yes", flow="ship", slots={"order": "9", "speed": "1"}, confirming={"action": "Go?"})
NO_ORDER: dict[str, Any] = {"type": "deny", "slot": "order"}
CLEAR: dict[str, Any] = {"type": "clear_slot", "name": "speed"}


@pytest.mark.row("U12", "U16")
@pytest.mark.parametrize(
    ("said", "comes_to"),
    [
        (["affirm"], [{"type": "affirm"}]),
        (["deny"], [{"type": "deny"}]),
        ([NO_ORDER], [NO_ORDER]),
        # A change is a no, with or without one, and also with a yes.
        ([fill("correct_slot", "order")], [NO_ORDER, fill("correct_slot", "order")]),
        (["deny", fill("correct_slot", "order")], [NO_ORDER, fill("correct_slot", "order")]),
        (["affirm", fill("set_slot", "order")], [NO_ORDER, fill("correct_slot", "order")]),
        # Several changes: one no, with the first slot.
        ([NO_ORDER, CLEAR, {"type": "deny", "slot": "speed"}, fill("correct_slot", "order")],
         [{"type": "deny", "slot": "speed"}, CLEAR, fill("correct_slot", "order")]),
        ([CLEAR], [{"type": "deny", "slot": "speed"}, CLEAR]),
        # What is said as it was leaves the yes a yes.
        (["affirm", fill("correct_slot", "order", "9")], [{"type": "affirm"}]),
        # "No, forget it", and a yes after all.
        (["deny", "cancel_flow"], [{"type": "cancel_flow"}]),
        (["affirm", "cancel_flow"], [{"type": "cancel_flow"}]),
        (["cancel_flow", "affirm"], [{"type": "affirm"}]),
    ],
)  # fmt: skip
def test_what_is_said_to_an_open_question(said: list[Any], comes_to: list[Any]) -> None:
    assert decide(OPEN, [], *said) == comes_to


@pytest.mark.row("U12")
def test_a_further_value_is_no_change_and_stands_before_the_yes() -> None:
    turn = OPEN.model_copy(update={"slots": Turn(text="x", slots={"order": "9"}).slots})
    further = fill("set_slot", "speed")
    assert decide(turn, [], "affirm", further) == [further, {"type": "affirm"}]
    assert decide(turn, [], further) == [further]


@pytest.mark.row("U11")
@pytest.mark.parametrize(
    ("said", "comes_to"), [("affirm", "resume_flow"), ("deny", "cancel_flow"), ("chitchat", "chitchat")]
)
def test_yes_and_no_answer_the_offer_to_go_back(said: str, comes_to: str) -> None:
    turn = Turn(text="x", paused=["gift", "ship"], offering="gift")
    assert decide(turn, [], said)[0] == {"type": comes_to} | ({"flow": "gift"} if "_" in comes_to else {})


def test_yes_and_no_to_the_question_for_a_boolean_are_its_value() -> None:
    slots = [{"name": "gift", "type": "boolean"}, {"name": "note", "type": "text"}]
    registry = FlowRegistry([{"name": "pack", "description": "Pack it.", "slots": slots}])
    for awaiting, found in (
        ("gift", {"affirm": True, "deny": False}),
        ("note", {"affirm": None, "deny": None}),
    ):
        for kind, value in found.items():
            turn = Turn(text="x", flow="pack", awaiting=awaiting)
            _, _, merged = merge(
                turn, registry, Enhancement(enhanced_query="x"), Selection(), [command({"type": kind})]
            )
            if value is not None:
                assert merged == [SetSlot(name="gift", value=value)]
            else:
                assert all(isinstance(one, Deny) for one in merged)


@pytest.mark.row("U16")
@pytest.mark.parametrize(
    ("held", "said", "comes_to"),
    [
        ({}, [["a cup"], ["plate"]], ("set_slot", ["cup", "plate"])),
        ({}, ["a cup", ["plate", "cup"]], ("set_slot", ["cup", "plate"])),
        ({}, [["cup"]], ("set_slot", ["cup"])),
        # A correction replaces what is held: its parts are no first values.
        ({"things": ["bowl"]}, [["cup"]], ("correct_slot", ["cup"])),
    ],
)
def test_lists_said_one_after_the_other_are_one(
    held: dict[str, Any], said: list[Any], comes_to: tuple[str, list[str]]
) -> None:
    lists = FlowRegistry(
        [{"name": "bring", "description": "Bring.", "slots": [{"name": "things", "type": "list"}]}]
    )
    commands = [command({"type": "set_slot", "name": "things", "value": value}) for value in said]
    turn = Turn(text="x", flow="bring", slots=held)
    _, _, merged = merge(turn, lists, Enhancement(enhanced_query="x"), Selection(), commands)
    (one,) = (each.model_dump(mode="json") for each in merged)
    assert (one["type"], one["value"]) == comes_to


@pytest.mark.row("U16")
def test_a_list_taken_back_and_said_anew_is_the_new_one() -> None:
    lists = FlowRegistry(
        [{"name": "bring", "description": "Bring.", "slots": [{"name": "things", "type": "list"}]}]
    )
    said = [{"type": "set_slot", "name": "things", "value": ["cup"]}, {"type": "clear_slot", "name": "things"},
            {"type": "set_slot", "name": "things", "value": ["plate"]}]  # fmt: skip
    turn = Turn(text="x", flow="bring")
    _, _, merged = merge(
        turn, lists, Enhancement(enhanced_query="x"), Selection(), [command(one) for one in said]
    )
    assert merged == [SetSlot(name="things", value=["plate"])]
