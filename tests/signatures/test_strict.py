"""Every schema that a program can make fits the published subset of strict structured output, and loses no answer."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from enum import StrEnum
from typing import Any

import jsonschema
import pytest

from jazzmine_dspy import FlowRegistry, Turn
from jazzmine_dspy.models.slots import SLOT_TYPES, Slot
from jazzmine_dspy.program.lm.requests import request_for
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.signatures.schema import static_format, strict
from large_catalogue import catalogue
from strict_schema import format_problems

PREDICTORS = ("enhance", "select", "understand", "fused")
STATES: list[dict[str, Any]] = [
    {},
    {"flow": "f0", "awaiting": "s0", "status": "collecting_slots"},
    {"flow": "f0", "slots": {"s0": "x"}, "paused": ["f1"], "status": "collecting_slots"},
    {"flow": "f0", "confirming": {"flow": "f0"}, "status": "awaiting_confirmation"},
]


def slot(number: int, kind: str, rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"name": f"s{number}", "type": kind, "description": f"the value {number}"}
    if kind == "choice":
        many = rng.choice([2, 9, 300, 1500])
        made["options"] = [f"{rng.choice(['Öl', 'a', 'long ' * 12])} {n}" for n in range(many)]
    return made


def registry(flows: int, rng: random.Random) -> FlowRegistry:
    kinds = sorted(SLOT_TYPES)
    made = []
    for number in range(flows):
        slots = [slot(n, rng.choice(kinds), rng) for n in range(rng.choice([0, 1, 4, 12]))]
        made.append({"name": f"f{number}", "description": f"Do {number}.", "slots": slots})
    return FlowRegistry(made)


def states() -> list[TurnState]:
    rng = random.Random(7)
    made = []
    for size in (1, 2, 8, 40, 61):
        for state in STATES:
            flows = registry(size, rng)
            state = {key: value for key, value in state.items() if key != "paused" or size > 1}
            turn = Turn(text="the second one, " * rng.choice([1, 400]), **state)
            offered = rng.sample(list(flows), min(size, rng.choice([0, 1, 4])))
            recalled = tuple(Recalled(name, 0.5) for name in offered)
            made.append(TurnState(turn, flows, recalled=recalled))
    nothing = TurnState(Turn(text="where is my sofa"), FlowRegistry(catalogue()))
    eight = tuple(Recalled(name, 0.5) for name in list(nothing.registry)[:8])
    return [*made, replace(nothing, recalled=eight), nothing]


@pytest.mark.row("L1")
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_every_schema_of_a_program_fits_the_published_subset(predictor: str) -> None:
    sizes = set()
    for state in states():
        for top_k in (1, 4, 8):
            policy = Policy(top_k=top_k)
            given = request_for(replace(state, policy=policy), predictor).config["response_format"]
            sent = strict(given)
            assert format_problems(sent) == []
            assert sent["json_schema"]["strict"] is True
            sizes.add(len(json.dumps(sent)))
            before, after = (each["json_schema"]["schema"]["properties"] for each in (given, sent))
            assert list(before) == list(after)
            if letters := before.get("flows", {}).get("items", {}).get("enum"):
                assert after["flows"]["items"] == {"type": "string", "enum": letters}
    assert len(sizes) > 1


@pytest.mark.row("L1")
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_the_schema_for_all_turns_fits_it_too_and_does_not_change(predictor: str) -> None:
    sent = strict(static_format(predictor))
    assert format_problems(sent) == []
    assert sent == strict(static_format(predictor))


@pytest.mark.row("L1")
@pytest.mark.parametrize("kind", sorted(SLOT_TYPES))
def test_what_a_slot_type_asks_for_is_kept(kind: str) -> None:
    """Whatever fits a slot's own schema fits what is sent."""
    rng = random.Random(kind)
    own = Slot.model_validate(slot(0, kind, rng))
    flows = FlowRegistry([{"name": "f0", "description": "Do.", "slots": [own.model_dump()]}])
    turn = Turn(text="ten", flow="f0", awaiting="s0", status="collecting_slots")
    given = request_for(TurnState(turn, flows), "understand").config["response_format"]
    examples: list[Any] = [own.kind.example, "x", 3, 2.5, True, ["a", "b"], *own.options[:3]]
    fitting = [
        value for value in examples if jsonschema.Draft202012Validator(own.kind.schema(own)).is_valid(value)
    ]
    assert fitting
    schema = jsonschema.Draft202012Validator(strict(given)["json_schema"]["schema"])
    for value in fitting:
        schema.validate({"commands": [{"set_slot": "s0", "value": value}]})
    assert not schema.is_valid({"commands": [{"set_slot": "s0"}]})
    assert not schema.is_valid({"commands": [{"set_slot": "s0", "value": None}]})


@pytest.mark.row("L1", "P5")
def test_the_schema_repeats_nothing_that_the_prompt_lists() -> None:
    """A form for each kind of command, whatever the number of slots and options; letters are its only names."""
    rng = random.Random(3)
    small, large = registry(8, rng), registry(8, rng)
    sizes = []
    for flows, names in ((small, list(small)), (large, list(large))):
        turn = Turn(text="ten", flow="f0", status="in_flow")
        state = TurnState(turn, flows, recalled=tuple(Recalled(name, 0.5) for name in names))
        call = request_for(state, "fused")
        text = json.dumps(strict(call.config["response_format"]))
        assert '"s0"' not in text
        assert not any(
            option in text for flow in flows.values() for slot in flow.slots for option in slot.options
        )
        forms = call.config["response_format"]["json_schema"]["schema"]["properties"]["commands"]["items"][
            "anyOf"
        ]
        assert forms[-1]["enum"][:7] == list("ABCDEFG")
        sizes.append(len(forms))
    assert max(sizes) <= 4


FOREIGN: list[dict[str, Any]] = [
    {"oneOf": [{"type": "string", "pattern": "a+"}, {"type": "integer", "minimum": 3}]},
    {"const": "x"},
    {"enum": [1, "a", None, True, 2.5]},
    {"enum": [[1], "a"]},
    {"$ref": "#/$defs/x"},
    {"type": "object", "patternProperties": {"a": {"type": "string"}}},
    {"allOf": [{"type": "string"}]},
    {"type": ["string", "null"]},
    {"type": "array"},
    {"anyOf": [{"type": "string"}, {"enum": ["a"]}, {"enum": [3]}]},
    {"enum": [f"{n:0200}" for n in range(1200)]},
    {},
]


@pytest.mark.row("L1")
@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_slot_type_of_ones_own_may_ask_for_anything(foreign: dict[str, Any]) -> None:
    nested: dict[str, Any] = foreign
    for _ in range(12):
        nested = {"type": "object", "properties": {"x": nested}}
    for each in (
        foreign,
        nested,
        {"anyOf": [nested, {"type": "object", "properties": {"x": foreign, "y": foreign}}]},
    ):
        given = {
            "type": "json_schema",
            "json_schema": {
                "name": "answer",
                "strict": True,
                "schema": {"type": "object", "properties": {"value": each}},
            },
        }
        assert format_problems(strict(given)) == []


def test_values_of_an_enum_class_stay_the_choices() -> None:
    class Size(StrEnum):
        SMALL = "small"
        LARGE = "large"

    made = strict({"json_schema": {"schema": {"enum": list(Size)}}})["json_schema"]["schema"]
    assert made == {"type": "string", "enum": ["small", "large"]}
