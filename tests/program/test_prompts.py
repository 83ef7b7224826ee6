"""Decision 2: the prompt is static, the schema is not. U3: what the prompts show of a turn."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demonstrations import demo_texts
from jazzmine_dspy.lm.engines import response_schema, scripted_lm, system_text, user_text
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.program.lm import render

SAID = [{"role": role, "text": f"{role} says {n}"} for n in range(4) for role in ("user", "assistant")]
BUSY: dict[str, Any] = {
    "flow": "change_shipping", "awaiting": "speed", "slots": {"order_id": "4471"}, "paused": ["track_order"],
    "history": SAID, "status": "collecting_slots",
}  # fmt: skip
TURNS = [
    Turn(text="where is my order"),
    Turn(text="express, please", **BUSY),
    Turn(
        text="hm",
        **BUSY | {"confirming": {"flow": "change_shipping", "action": "Ship 4471 by express."}},
        explicit_context=["Express costs 5 euros."],
        date=dt.date(2026, 5, 4),
    ),
]
Make = Callable[..., Any]


def requests_by_prompt(lm: dspy.LM, asked_of: Make) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for request in lm.engine.requests:
        found.setdefault(asked_of(request), []).append(request)
    return found


@pytest.mark.row("P5")
@pytest.mark.parametrize(("shape", "prompts"), [("staged", 3), ("fused", 1)])
def test_the_head_of_a_prompt_is_the_same_for_every_turn(
    speak: Make, make_program: Make, asked_of: Make, shape: str, prompts: int
) -> None:
    lm = speak()
    program = make_program(lm, shape)
    for turn in TURNS:
        program.decide(turn)
    found = requests_by_prompt(lm, asked_of)
    assert len(found) == prompts
    for requests in found.values():
        assert len(requests) == len(TURNS)
        assert len({system_text(request).encode() for request in requests}) == 1
        assert len({user_text(request) for request in requests}) == len(TURNS)
        for request in requests:
            # The constant part is the whole of what comes before the turn.
            assert [message.role for message in request.messages] == ["user"]


@pytest.mark.row("P5")
def test_demonstrations_stand_between_head_and_turn_the_same_each_time(
    speak: Make, make_program: Make
) -> None:
    lm = speak()
    program = make_program(lm)
    program.select.demos = [
        dspy.Example(
            about="", flows_offered="A x: y", situation="nothing running", message='"do y"', flows=["A"]
        )
    ]
    program.decide(TURNS[0])
    program.decide(TURNS[1])
    shown = [demo_texts(request) for request in lm.engine.requests]
    (demo,) = next(texts for texts in shown if texts)
    assert demo == ('flows_offered: A x: y\nsituation: nothing running\nmessage: "do y"', '{"flows":["A"]}')
    assert [texts for texts in shown if texts] == [[demo], [demo]]


def schema(lm: dspy.LM, asked_of: Make, name: str, number: int = -1) -> dict[str, Any]:
    found = response_schema(requests_by_prompt(lm, asked_of)[name][number])
    assert found is not None
    return found["properties"]


def commands(properties: dict[str, Any]) -> dict[str, Any]:
    """Kind of command, or letter, to the form of its name; None of what stands alone."""
    found: dict[str, Any] = {}
    for option in options(properties):
        named = next(iter(option["properties"].items()), ()) if "properties" in option else ()
        found |= {named[0]: named[1]} if named else dict.fromkeys(option["enum"])
    return found


def options(properties: dict[str, Any]) -> list[dict[str, Any]]:
    """The forms that a command may have."""
    items = properties["commands"]["items"]
    return items.get("anyOf", [items])  # type: ignore[no-any-return]


BOUNDS = {"minLength", "maxLength", "minItems", "maxItems", "pattern"}


def within(schema: Any) -> list[dict[str, Any]]:
    """A schema and all that it is made of."""
    if isinstance(schema, list):
        return [part for item in schema for part in within(item)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(part for item in schema.values() for part in within(item))]


@pytest.mark.row("N5")
@pytest.mark.parametrize("shape", ["staged", "fused"])
@pytest.mark.parametrize("model", ["openai/gpt-x", "anthropic/claude-x"])
def test_a_hosted_model_gets_the_schema_that_strict_mode_takes(
    any_answer: Make, make_program: Make, shape: str, model: str
) -> None:
    """No lengths and patterns, and every property required."""
    lm = scripted_lm(any_answer, model)
    program = make_program(lm, shape)
    for turn in TURNS:
        program.decide(turn)
    schemas = [response_schema(request) for request in lm.engine.requests]
    assert schemas
    for schema in schemas:
        parts = within(schema)
        objects = [part for part in parts if isinstance(part.get("properties"), dict)]
        assert objects
        assert all(part["additionalProperties"] is False for part in objects)
        loose = [part for part in objects if list(part["required"]) != list(part["properties"])]
        bounded = [part for part in parts if BOUNDS & part.keys()]
        assert (bounded, loose) == ([], [])


@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_the_schema_that_reaches_the_decoder_has_the_choices_of_the_turn(
    speak: Make, make_program: Make, asked_of: Make, shape: str, registry: FlowRegistry
) -> None:
    lm = speak()
    program = make_program(lm, shape, top_k=3)
    name = (lambda stage: "fused") if shape == "fused" else (lambda stage: stage)
    letters = set("ABC") if shape == "fused" else set()
    talk = letters | {"ask", "clarify", "repeat", "restart", "chitchat", "handoff", "out_of_scope"}
    program.decide(TURNS[0])
    if shape == "staged":
        first = schema(lm, asked_of, "enhance")
        assert first["intent"]["enum"][:5] == list(registry)
        assert schema(lm, asked_of, "select")["flows"]["items"] == {"type": "string", "enum": ["A", "B", "C"]}
    idle = commands(schema(lm, asked_of, name("understand")))
    # In one call the likeliest flows may start, so their slots may be filled; nothing else is open.
    assert set(idle) == talk | ({"set_slot"} if shape == "fused" else set())
    program.decide(TURNS[1])
    busy = commands(schema(lm, asked_of, name("understand")))
    assert set(busy) - talk == {
        "set_slot", "clear_slot", "skip_slot", "resume_flow", "cancel_flow", "deny",
    }  # fmt: skip
    assert busy["set_slot"] == busy["clear_slot"] == {"type": "string"}
    assert busy["skip_slot"] is None
    program.decide(TURNS[2])
    assert {"affirm", "deny"} <= set(commands(schema(lm, asked_of, name("understand"))))
    # The options stand in the prompt.
    values = [
        option["properties"]["value"]
        for option in options(schema(lm, asked_of, name("understand")))
        if "value" in option.get("properties", ())
    ]
    assert values == [{"type": ["string", "boolean"] if shape == "fused" else "string"}]
    assert "standard|express" in user_text(lm.engine.requests[-1])


def test_only_the_flows_of_the_turn_are_offered(speak: Make, make_program: Make, asked_of: Make) -> None:
    lm = speak(select={"flows": ["C"]})
    program = make_program(lm)
    views = tuple(view for view in program.registry.views if view.name in ("gift_card", "opening_hours"))
    decision = program.decide(Turn(text="where is my order", available_flows=views))
    assert schema(lm, asked_of, "select")["flows"]["items"] == {"type": "string", "enum": ["A", "B"]}
    assert {name for name, _ in decision.selection.candidates} == {"gift_card", "opening_hours"}
    assert decision.selection.flows == []
    assert decision.stages["select"].degraded


def test_a_model_without_schemas_gets_none_and_its_answer_is_validated(
    speak: Make, make_program: Make, asked_of: Make
) -> None:
    lm = speak(schema=False, select={"flows": ["A"]}, understand='Sure: {"commands": "affirm"}')
    decision = make_program(lm).decide(TURNS[0])
    assert [request.config.response_format for request in lm.engine.requests] == [None] * 3
    assert decision.selection.flows == ["track_order"]
    assert not decision.stages["select"].degraded
    assert "UnderstandingError" in str(decision.stages["understand"].cause)


def test_a_model_that_knows_json_mode_alone_gets_that(speak: Make, make_program: Make) -> None:
    lm = speak(schema=False)
    lm.engine.supported_params = {"response_format", "temperature", "max_tokens"}
    make_program(lm).decide(TURNS[0])
    assert [request.config.response_format for request in lm.engine.requests] == [{"type": "json_object"}] * 3


@pytest.mark.row("U3")
def test_the_understanding_prompt_shows_the_last_five_messages(
    speak: Make, make_program: Make, asked_of: Make
) -> None:
    lm = speak()
    make_program(lm).decide(TURNS[1])
    text = user_text(requests_by_prompt(lm, asked_of)["understand"][0])
    shown = [line for line in text.splitlines() if " says " in line]
    assert shown == [
        f'{"history: " if n == 0 else ""}{said["role"]}: "{said["text"]}"' for n, said in enumerate(SAID[-5:])
    ]


@pytest.mark.row("U3")
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_flows_are_shown_with_category_and_keywords(
    speak: Make, make_program: Make, asked_of: Make, shape: str
) -> None:
    lm = speak()
    make_program(lm, shape).decide(TURNS[0])
    name = "select" if shape == "staged" else "fused"
    text = user_text(requests_by_prompt(lm, asked_of)[name][0])
    described = "Tell where an order is. When: " if shape == "staged" else ""
    known = "orders, parcel" if shape == "staged" else "orders, where"
    assert f"A track_order [{known}]: {described}An order is under way." in text
    assert ("Effect: The customer knows the day." in text) == (shape == "staged")


@pytest.mark.row("U3")
def test_the_situation_tells_the_state() -> None:
    turn = TURNS[2].model_copy(update={"entities": ()})
    assert render.situation(turn) == (
        'running change_shipping; asked for speed; asked yes or no: "Ship 4471 by express."; '
        'known order_id="4471"; paused track_order; today Monday 2026-05-04'
    )
    assert render.situation(Turn(text="hi")) == "nothing running"
    assert render.context_snippets(TURNS[2]) == '1. "Express costs 5 euros."'
    assert render.context_snippets(TURNS[0]) == ""


@pytest.mark.row("E13")
@given(st.text(), st.integers(4, 60))
def test_what_is_quoted_stays_on_its_line_and_can_be_read_back(text: str, limit: int) -> None:
    quoted = render.quoted(text, limit)
    assert len(quoted.splitlines()) == 1
    assert quoted[0] == quoted[-1] == '"'
    back = json.loads(quoted)
    assert back == text if len(text) <= limit else back.startswith(text[: limit // 2])


def test_more_candidates_than_letters_are_cut() -> None:
    flows = FlowRegistry([{"name": f"f{n}", "description": f"Do {n}."} for n in range(12)])
    addresses = render.Addresses(Turn(text="hi"), flows, list(flows))
    assert [line[0] for line in render.flows_offered(addresses, {}).splitlines()] == list("ABCDEFGH")
    assert render.flows_offered(render.Addresses(Turn(text="hi"), flows), {}) == "none"


def test_held_values_are_shown_as_they_would_be_answered() -> None:
    """Not as Python prints them: a model copies what it sees."""
    held = {
        "guests": 4,
        "sea_view": True,
        "items": ["two bathrobes", "ice"],
        "address": "6 Larch Close, " * 6,
    }
    turn = Turn(text="and soap", flow="room_service", slots=held)
    shown = render.situation(turn)
    assert 'guests=4, items=["two bathrobes", "ice"], sea_view=true' in shown
    assert f"address={json.dumps(held['address'])}" in shown
    assert "…" in render.situation(turn.model_copy(update={"slots": turn.slots.of({"address": "x" * 200})}))


@pytest.mark.row("U3")
def test_an_open_question_stands_once() -> None:
    asked = "Ship 4471 by express."
    said = [{"role": "assistant", "text": f"{asked} Is that right?"}]
    turn = Turn(
        text="hm", **{**BUSY, "confirming": {"flow": "change_shipping", "action": asked}, "history": said}
    )
    assert "asked yes or no;" in render.situation(turn)
    assert f'asked yes or no: "{asked}"' in render.situation(turn.model_copy(update={"history": ()}))


@pytest.mark.row("P5")
def test_texts_of_flows_are_whole_while_there_is_room() -> None:
    flows = FlowRegistry([{"name": f"f{n}", "description": f"{n} " + "word " * 35} for n in range(5)])
    addresses = render.Addresses(Turn(text="hi"), flows, list(flows))
    lines = render.flows_offered(addresses, dict.fromkeys(flows, ())).splitlines()
    whole = [line.endswith("word") for line in lines]
    assert whole == [True, True, False, False, False]
    assert lines[2].endswith("…")
    assert lines[3:] == ["D f3", "E f4"]
    assert sum(map(len, lines)) < 560
