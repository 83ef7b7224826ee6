"""E18: what a language model says of a turn stands, or is refused field by field with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.models import Entity, Turn, TurnDecision
from jazzmine_dspy.models.decision import Enhancement
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
STYLES = pytest.mark.parametrize("style", ["sync", "async"])
SHAPES = pytest.mark.parametrize("shape", ["staged", "fused"])

FIRST = Turn(text="Actually the parcel 4471 please, sorry, 3302. Why is it late?")
LATER = Turn(
    text="and why is that late?",
    history=[
        {"role": "user", "text": "Where are the parcels 4471 and 3302?"},
        {"role": "assistant", "text": "4471 is here."},
    ],
)
TURNS = pytest.mark.parametrize("turn", [FIRST, LATER], ids=["first", "later"])
SAID: dict[str, Any] = {
    "enhanced_query": "Why is the parcel 3302 late?",
    "sentiment_score": -0.4,
    "intent": "track_order",
    "entities": [{"name": "parcel 3302", "attributes": ["late"]}],
    "is_cancellation": False,
    "is_continuation": False,
}
STANDS = Enhancement(**{**SAID, "entities": [Entity(name="parcel 3302", attributes=["late"])]})


def decide(program: TurnProgram, style: str, turn: Turn) -> TurnDecision:
    return program.decide(turn) if style == "sync" else asyncio.run(program.adecide(turn))


def asking(speak: Make, registry: Any, overlap: Make, shape: str, **answers: Any) -> tuple[TurnProgram, Any]:
    """A program in its default order, and its language model."""
    said = answers.pop("said", SAID)
    commands = answers.pop("commands", [])
    flows = answers.pop("flows", ["A"])
    lm = speak(
        again=True, enhance=said, select={"flows": flows}, understand={"commands": commands},
        fused={**said, "flows": flows, "commands": commands}, **answers,
    )  # fmt: skip
    program = TurnProgram(registry, policy=Policy(shape=shape)).bind(lm=lm, recall=overlap(registry))
    return program, lm


@pytest.mark.row("E18", "P3")
@STYLES
@TURNS
def test_what_the_one_call_says_stands_on_any_message(
    speak: Make, registry: Any, overlap: Make, style: str, turn: Turn
) -> None:
    program, lm = asking(speak, registry, overlap, "fused")
    decision = decide(program, style, turn)
    assert decision.enhancement == STANDS
    assert decision.selection.flows == ["track_order"]
    record = decision.stages["enhance"]
    assert (record.source, record.degraded, record.cause) == ("lm", False, None)
    assert (lm.engine.calls, decision.usage.lm_calls, len(decision.calls)) == (1, 1, 1)


@pytest.mark.row("E18")
@STYLES
@TURNS
def test_an_answer_that_was_paid_for_is_not_replaced_by_the_fallback_either(
    speak: Make, registry: Any, overlap: Make, style: str, turn: Turn
) -> None:
    program, lm = asking(speak, registry, overlap, "fused")
    assert decide(program, style, turn).enhancement == STANDS
    assert lm.engine.calls == 1
    # What the prompt leaves out was not paid for.
    program.policy = program.policy.model_copy(update={"unasked": tuple(SAID)})
    assert decide(program, style, turn).enhancement.enhanced_query == turn.text


@pytest.mark.row("E18", "P3")
@STYLES
def test_a_stage_of_its_own_is_one_call_more(
    speak: Make, registry: Any, overlap: Make, asked_of: Make, style: str
) -> None:
    program, lm = asking(speak, registry, overlap, "staged")
    for calls, turn in ((3, FIRST), (6, LATER)):
        decision = decide(program, style, turn)
        assert [asked_of(request) for request in lm.engine.requests[-3:]] == [
            "enhance",
            "select",
            "understand",
        ]
        # On the first message too it stands as it was said.
        assert (decision.enhancement, lm.engine.calls) == (STANDS, calls)
        assert len(decision.calls) == 3


@pytest.mark.row("E18", "C6")
@STYLES
@SHAPES
@pytest.mark.parametrize("text", ["hello", "4471", "yes", "human please"])
def test_what_rules_decide_alone_asks_nobody(
    speak: Make, registry: Any, overlap: Make, style: str, shape: str, text: str
) -> None:
    program, lm = asking(speak, registry, overlap, shape)
    states: dict[str, dict[str, Any]] = {
        "4471": {"flow": "track_order", "awaiting": "order_id", "status": "collecting_slots"},
        "yes": {"flow": "track_order", "confirming": "Shall I track it?"},
    }
    turn = Turn(text=text, **states.get(text, {}))
    # What is agreed to, its context tells.
    source = "fallback" if text == "yes" else "rule"
    decision = decide(program, style, turn)
    assert lm.engine.calls == 0
    assert decision.stages["enhance"].source == source
    bare = TurnProgram(registry).bind(recall=overlap(registry)).with_policy("fallback")
    assert decide(bare, style, turn).stages["enhance"].source == source


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # E4
    "no truth value": ({"is_cancellation": "false"}, {}, "is_cancellation"),
    "no score": ({"sentiment_score": "angry"}, {"sentiment_score": 0.0}, "sentiment_score"),
    "null": ({"intent": None}, {"intent": "unknown"}, "intent"),
    "letters": ({"entities": "red"}, {"entities": []}, "entities"),
    # E15
    "no flow": ({"intent": "order_pizza"}, {"intent": "unknown"}, "not one of the flows"),
    # E9; the rewrite alone is refused
    "another number": ({"enhanced_query": "Why is the parcel 3303 late?"}, {"enhanced_query": ""}, "a number"),
    "a name": ({"enhanced_query": "Why is the parcel 3302 for Ann late?"}, {"enhanced_query": ""}, "a name"),
    "a negation": ({"enhanced_query": "Why is 3302 not late?"}, {"enhanced_query": ""}, "a negation"),
    "another language": (
        {"enhanced_query": "Warum kommt die Sendung 3302 verspätet?"}, {"enhanced_query": ""}, "another language"
    ),
    "another script": ({"enhanced_query": "包裹 3302 为什么晚了"}, {"enhanced_query": ""}, "a script"),
}  # fmt: skip


@pytest.mark.row("E18", "E4", "E9", "E15")
@STYLES
@TURNS
@pytest.mark.parametrize(
    ("shape", "case"),
    # Intent and retraction are told by the commands where one call asks for everything.
    [(shape, case) for case in REFUSED for shape in ("staged", "fused")
     if shape == "staged" or not {"intent", "is_cancellation"} & {*REFUSED[case][0]}],
)  # fmt: skip
def test_each_field_is_refused_alone_with_the_reason(
    speak: Make, registry: Any, overlap: Make, style: str, shape: str, turn: Turn, case: str
) -> None:
    bad, instead, reason = REFUSED[case]
    program, lm = asking(speak, registry, overlap, shape, said=SAID | bad)
    decision = decide(program.with_policy("lm"), style, turn)
    update = {
        name: value or (turn.text if name == "enhanced_query" else value) for name, value in instead.items()
    }
    assert decision.enhancement == STANDS.model_copy(update=update)
    record = decision.stages["enhance"]
    assert record.source == "lm"
    assert reason in str(record.cause)
    assert record.degraded == (case in ("no truth value", "no score", "null", "letters"))
    # It is asked for once more, with the reason; no other stage is drawn into it.
    assert reason in "; ".join(record.retried)
    assert decision.selection.flows == ["track_order"]
    assert not decision.stages["select"].degraded
    assert lm.engine.calls == decision.usage.lm_calls == (2 if shape == "fused" else 4)


@pytest.mark.row("E18", "F10", "U4")
@STYLES
def test_commands_that_cannot_be_read_leave_the_rest(
    speak: Make, registry: Any, overlap: Make, style: str
) -> None:
    answer = {**SAID, "commands": ["A", {"type": 7}]}
    program, lm = asking(speak, registry, overlap, "fused")
    lm = speak(again=True, fused=answer)
    decision = decide(program.bind(lm=lm), style, LATER)
    assert decision.enhancement.enhanced_query == STANDS.enhanced_query
    assert (decision.enhancement.sentiment_score, decision.enhancement.entities) == (-0.4, STANDS.entities)
    assert {name: record.degraded for name, record in decision.stages.items()} == {
        "enhance": False, "select": True, "understand": True
    }  # fmt: skip
    assert "commands" in str(decision.stages["understand"].cause)
    assert {name for name, record in decision.stages.items() if record.retried} == {"select", "understand"}
    assert lm.engine.calls == 2


ASKED = {"flow": "cancel_order", "status": "awaiting_confirmation", "slots": {"order_id": "4471"}}
COLLECTING = {"flow": "track_order", "status": "collecting_slots", "awaiting": "order_id"}
COMMANDS: dict[str, tuple[Turn, list[dict[str, Any]], list[str], str]] = {
    "U19": (
        Turn(text="why would that be better?", confirming={"flow": "cancel_order", "action": "Cancel 4471"}, **ASKED),
        [{"type": "affirm"}, {"type": "ask"}], ["ask"], "affirm: the message does not agree",
    ),
    "U17": (
        Turn(text="it arrived broken, where do I complain?", **COLLECTING),
        [{"type": "set_slot", "name": "order_id", "value": "it arrived broken"}, {"type": "ask"}], ["ask"],
        "set_slot order_id: what is given is not a value of this slot",
    ),
    "U16": (
        Turn(text="so what is it then that comes next?", **COLLECTING),
        [{"type": "resume_flow", "name": "gift_card"}, {"type": "ask"}], ["ask"], "resume_flow",
    ),
}  # fmt: skip


@pytest.mark.row("E18", "U16", "U17", "U19")
@STYLES
@SHAPES
@pytest.mark.parametrize("row", COMMANDS)
def test_a_command_is_refused_alone_with_the_reason(
    speak: Make, registry: Any, overlap: Make, style: str, shape: str, row: str
) -> None:
    turn, commands, kinds, reason = COMMANDS[row]
    program, _ = asking(
        speak,
        registry,
        overlap,
        shape,
        commands=commands,
        flows=[],
        said=SAID | {"enhanced_query": turn.text},
    )
    decision = decide(program.with_policy("lm"), style, turn)
    assert [command.type for command in decision.commands] == kinds
    record = decision.stages["understand"]
    assert (record.source, record.degraded) == ("lm", False)
    assert reason in str(record.cause)
    assert decision.enhancement.sentiment_score == -0.4


@pytest.mark.row("E10")
@STYLES
@SHAPES
@pytest.mark.parametrize(
    ("text", "rewrite"),
    [("where's my parcel 4471??", "Where is my parcel 4471?"), ("u sure its 4471", "u sure its 4471"),
     ("order 4471 , wo ist sie", "Order 4471, wo ist sie?"),
     ("\u05d0\u05d9\u05e4\u05d4 4471", " \u05d0\u05d9\u05e4\u05d4 4471?")],
)  # fmt: skip
def test_a_complete_message_stays_letter_for_letter(
    speak: Make, registry: Any, overlap: Make, style: str, shape: str, text: str, rewrite: str
) -> None:
    program, _ = asking(speak, registry, overlap, shape, said=SAID | {"enhanced_query": rewrite})
    decision = decide(program.with_policy("lm"), style, Turn(text=text))
    assert decision.enhancement.enhanced_query == text
    assert decision.stages["enhance"].cause is None
