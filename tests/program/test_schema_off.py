"""Schema off: a model that keeps to no list. What it makes up is refused, degraded, and never decided."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.models import FlowRegistry, StageRecord, Turn, TurnDecision
from jazzmine_dspy.models.decision import STAGES
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
IDLE = Turn(text="hm, well")
BUSY = Turn(
    text="hm, well",
    flow="change_shipping",
    awaiting="speed",
    slots={"order_id": "4471"},
    status="collecting_slots",
)
SHAPES = pytest.mark.parametrize("shape", ["staged", "fused"])


def decide(speak: Make, make_program: Make, shape: str, turn: Turn, **parts: Any) -> TurnDecision:
    enhance = {"enhanced_query": turn.text, "sentiment_score": 0, "intent": "x", "entities": [],
               "is_cancellation": False, "is_continuation": True}  # fmt: skip
    select, understand = ({name: parts.get(name, [])} for name in ("flows", "commands"))
    fused = enhance | select | understand
    lm = speak(schema=False, enhance=enhance, fused=fused, select=select, understand=understand)
    decision: TurnDecision = make_program(lm, shape, top_k=3).decide(turn)
    return decision


@pytest.mark.row("F8")
@SHAPES
@pytest.mark.parametrize(
    "letters", [["D"], ["Z", "H"], ["track_order"], ["1"], ["A, B"], ["none of these"], ["AA"]]
)
def test_letters_outside_of_the_list(speak: Make, make_program: Make, shape: str, letters: list[str]) -> None:
    decision = decide(speak, make_program, shape, IDLE, flows=letters)
    assert decision.selection.flows == []
    assert decision.commands == []
    record = decision.stages["select"]
    assert (record.source, record.degraded) == ("fallback", True)
    assert "no such flow was offered" in str(record.cause)


@pytest.mark.row("F8")
@SHAPES
@pytest.mark.parametrize(
    ("letters", "flows"),
    [
        (["A"], ["track_order"]), ([" b. "], ["cancel_order"]), (["B", "A", "B"], ["cancel_order", "track_order"]),
        (["A", "Z"], ["track_order"]), ([], []), (["none"], []), (["None"], []), (["none", "A"], ["track_order"]),
    ],
)  # fmt: skip
def test_letters_of_the_list(
    speak: Make, make_program: Make, shape: str, letters: list[str], flows: list[str]
) -> None:
    decision = decide(speak, make_program, shape, IDLE, flows=letters)
    assert decision.selection.flows == flows
    assert [command.flow for command in decision.commands if command.type == "start_flow"] == flows
    assert decision.selection.mode == ("sequential" if len(flows) > 1 else "single")
    assert not decision.stages["select"].degraded


UNFIT: list[tuple[Turn, dict[str, Any]]] = [
    (IDLE, {"type": "affirm"}), (IDLE, {"type": "deny"}), (BUSY, {"type": "affirm"}), (IDLE, {"type": "cancel_flow"}),
    (IDLE, {"type": "resume_flow"}), (BUSY, {"type": "resume_flow", "name": "track_order"}),
    (IDLE, {"type": "set_slot", "name": "no_such_slot", "value": "1"}),
    (BUSY, {"type": "correct_slot", "name": "cancel_reason", "value": "x"}),
    (BUSY, {"type": "set_slot", "name": "speed", "value": None}),
    (BUSY, {"type": "set_slot", "name": "speed", "value": ""}),
    (BUSY, {"type": "set_slot", "value": "express"}), (BUSY, {"type": "clear_slot", "name": "speed"}),
    (IDLE, {"type": "clear_slot", "name": "order_id"}), (IDLE, {"type": "skip_slot"}),
    (BUSY, {"type": "skip_slot", "name": "order_id"}),
]  # fmt: skip


@SHAPES
@pytest.mark.parametrize(("turn", "command"), UNFIT, ids=str)
def test_commands_that_do_not_fit_the_state(
    speak: Make, make_program: Make, shape: str, turn: Turn, command: dict[str, Any]
) -> None:
    decision = decide(speak, make_program, shape, turn, commands=[command])
    assert decision.commands == []
    record = decision.stages["understand"]
    assert (record.source, record.degraded) == ("fallback", True)
    assert command["type"] in str(record.cause)


@SHAPES
def test_what_fits_is_kept_beside_what_does_not(speak: Make, make_program: Make, shape: str) -> None:
    said = [{"type": "affirm"}, {"type": "set_slot", "name": "speed", "value": "express"}, {"type": "ask"}]
    decision = decide(speak, make_program, shape, BUSY, commands=said)
    assert [command.type for command in decision.commands] == ["set_slot", "ask"]


@SHAPES
@pytest.mark.parametrize(
    ("turn", "command", "made"),
    [
        (BUSY, {"type": "set_slot", "name": "order_id", "value": "1"},
         {"type": "correct_slot", "name": "order_id", "value": "1"}),
        (BUSY, {"type": "correct_slot", "name": "speed", "value": "x"},
         {"type": "set_slot", "name": "speed", "value": "x"}),
        (BUSY, {"type": "skip_slot"}, {"type": "skip_slot", "name": "speed"}),
        (BUSY, {"type": "cancel_flow"}, {"type": "cancel_flow", "flow": None}),
        (Turn(text="x", paused=["gift_card", "track_order"]), {"type": "cancel_flow"},
         {"type": "cancel_flow", "flow": "track_order"}),
        (Turn(text="x", paused=["gift_card"]), {"type": "resume_flow"}, {"type": "resume_flow", "flow": None}),
        (Turn(text="x", flow="gift_card", confirming="Buy?"), {"type": "deny"}, {"type": "deny", "slot": None}),
        (Turn(text="x", flow="gift_card"), {"type": "set_slot", "name": "wrapped", "value": False},
         {"type": "set_slot", "name": "wrapped", "value": False}),
    ],
)  # fmt: skip
def test_commands_take_the_form_that_the_state_gives_them(
    speak: Make, make_program: Make, shape: str, turn: Turn, command: dict[str, Any], made: dict[str, Any]
) -> None:
    decision = decide(speak, make_program, shape, turn, commands=[command])
    assert [one.model_dump(mode="json") for one in decision.commands] == [made]
    assert not decision.stages["understand"].degraded


WORDS = st.sampled_from(
    ["A", "Z", "track_order", "order_id", "speed", "affirm", "resume_flow", "set_slot", "", "no"]
)
JUNK = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "name", "value", "x"]), inner)
    ),
    max_leaves=6,
)
KEYS = [
    "enhanced_query",
    "sentiment_score",
    "intent",
    "entities",
    "is_cancellation",
    "is_continuation",
    "flows",
    "commands",
]


@pytest.mark.row("G2")
@pytest.mark.fuzz
@settings(max_examples=60)
@given(
    junk=st.dictionaries(st.sampled_from(KEYS), JUNK),
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(["staged", "fused"]),
)
def test_garbage_gives_a_valid_decision_and_never_an_invented_name(
    junk: dict[str, Any], seed: int, shape: Any
) -> None:
    registry = FlowRegistry(
        [{"name": "track_order", "description": "x", "slots": [{"name": "order_id", "type": "text"}]}]
    )
    text = json.dumps(junk)
    text = text[: random.Random(seed).randint(0, len(text))] if seed % 3 == 0 else text
    lm = scripted_lm(lambda request: text, schema=False)
    program = TurnProgram(registry, policy=Policy(shape=shape).named("lm")).bind(lm=lm)
    for turn in (IDLE, BUSY, Turn(text="x", flow="track_order", confirming="ok?", paused=["gone"])):
        decision = program.decide(turn)
        assert set(decision.selection.flows) <= set(registry)
        assert set(decision.stages) == set(STAGES)
        assert all(isinstance(record, StageRecord) for record in decision.stages.values())
        for command in decision.commands:
            assert getattr(command, "flow", None) in (None, "track_order", "gone", turn.flow)
            assert command.type != "set_slot" or command.name == "order_id"
        assert TurnDecision.model_validate(decision.model_dump(mode="json")) == decision
