"""A refused part of an answer is asked for once more, with the reason; a yes of the model stands (E18, P3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Runtime
from jazzmine_dspy.lm import resolve_lm, scripted_lm
from jazzmine_dspy.models import Turn, TurnDecision
from jazzmine_dspy.models.commands import Affirm, CorrectSlot
from jazzmine_dspy.models.decision import Enhancement, Selection
from jazzmine_dspy.program.lm.calls import SHARE, Retries
from jazzmine_dspy.program.merge import merge
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
STYLES = pytest.mark.parametrize("style", ["sync", "async"])
SHAPES = pytest.mark.parametrize("shape", ["staged", "fused"])
TURN = Turn(
    text="and where is that one?",
    history=[{"role": "user", "text": "My parcels are 4471 and 3302."}],
)
WRONG, RIGHT = "Where is the parcel 4417?", "Where is the parcel 3302?"


def decide(program: TurnProgram, style: str, turn: Turn) -> TurnDecision:
    return program.decide(turn) if style == "sync" else asyncio.run(program.adecide(turn))


def in_turn(*answers: Any) -> Callable[[Any], Any]:
    """Each call gets the next answer, the last one for good."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.row("E18", "P3")
@STYLES
@SHAPES
def test_a_refused_part_is_asked_for_once_more_with_the_reason(
    speak: Make, make_program: Make, enhanced: dict[str, Any], style: str, shape: str
) -> None:
    first = {**enhanced, "enhanced_query": WRONG, "sentiment_score": -0.5}
    second = {**enhanced, "enhanced_query": RIGHT, "sentiment_score": 0.9}
    rest = {"flows": ["A"], "commands": []}
    other = {"flows": [], "commands": []}
    lm = speak(
        again=True,
        enhance=in_turn(first, second),
        select={"flows": ["A"]},
        fused=in_turn(first | rest, second | other),
    )
    decision = decide(make_program(lm, shape), style, TURN)
    # What stood stands as it was said first, though the second answer says otherwise.
    assert (decision.enhancement.enhanced_query, decision.enhancement.sentiment_score) == (RIGHT, -0.5)
    assert decision.selection.flows == ["track_order"]
    record = decision.stages["enhance"]
    assert (record.source, record.degraded, record.refused, record.cause) == ("lm", False, (), None)
    assert "brings a number" in record.retried[0]
    assert len(record.calls) == record.usage.lm_calls == 2
    assert lm.engine.calls == decision.usage.lm_calls == (2 if shape == "fused" else 4)
    asked, again = lm.engine.requests[:2]
    assert "refused in part: enhanced_query: it brings a number" in again.messages[-1].text
    assert again.messages[-1].text.startswith(asked.messages[-1].text.rstrip()[:40])
    restored = TurnDecision.model_validate_json(decision.model_dump_json())
    assert restored.stages["enhance"].retried == record.retried


@pytest.mark.row("E18")
@STYLES
@SHAPES
@pytest.mark.parametrize("second", ["refused again", "no JSON", "down"])
def test_a_part_that_is_refused_again_is_left_out(
    speak: Make, make_program: Make, enhanced: dict[str, Any], style: str, shape: str, second: str
) -> None:
    first = {**enhanced, "enhanced_query": WRONG, "flows": ["A"], "commands": []}
    answer = {
        "refused again": {**first, "enhanced_query": "Where is the parcel 1234?"},
        "no JSON": "no JSON",
        "down": ConnectionError("gone"),
    }[second]
    fields = ("flows", "commands")
    bare = {name: value for name, value in first.items() if name not in fields}
    lm = speak(
        again=True,
        enhance=in_turn(bare, answer if isinstance(answer, str | Exception) else {**bare, "enhanced_query": "1234?"}),
        select={"flows": ["A"]}, fused=in_turn(first, answer),
    )  # fmt: skip
    decision = decide(make_program(lm, shape), style, TURN)
    assert decision.enhancement.enhanced_query == TURN.text
    assert decision.selection.flows == ["track_order"]
    record = decision.stages["enhance"]
    assert (record.source, record.degraded) == ("lm", False)
    assert record.refused[0] == record.retried[0] == record.cause
    assert len(record.calls) == 2


@pytest.mark.row("P3")
def test_a_model_that_is_always_refused_is_asked_again_in_few_turns(
    speak: Make, make_program: Make, enhanced: dict[str, Any]
) -> None:
    wrong = {**enhanced, "enhanced_query": WRONG, "flows": [], "commands": []}
    lm = speak(again=True, fused=wrong)
    program = make_program(lm, "fused")
    turns = 200
    decisions = [program.decide(TURN.model_copy(update={"text": f"and that one? {n}"})) for n in range(turns)]
    calls = sum(decision.usage.lm_calls for decision in decisions)
    assert calls == lm.engine.calls
    assert turns + SHARE * turns / 2 < calls <= 1.05 * turns


@pytest.mark.row("P3", "V10")
def test_recorded_answers_are_never_asked_for_twice(tmp_path: Path) -> None:
    lm = resolve_lm(f"deferred:{tmp_path}")
    assert not Retries(lm).allow()
    assert not Retries(None).allow()
    asked = scripted_lm(lambda _: "{}")
    assert Retries(asked).allow()
    assert not Retries(asked).allow()


@pytest.mark.row("E18")
def test_an_optimizer_learns_from_the_first_answer(
    speak: Make, make_program: Make, enhanced: dict[str, Any]
) -> None:
    lm = speak(again=True, fused={**enhanced, "enhanced_query": WRONG, "flows": [], "commands": []})
    module = make_program(lm, "fused").trainable()
    prediction = module(turn=TURN)
    assert lm.engine.calls == 1
    assert "brings a number" in str(prediction.decision.stages["enhance"].cause)


ASKED = Turn(
    text="x", status="awaiting_confirmation", flow="cancel_order", slots={"order_id": "4471"},
    confirming={"flow": "cancel_order", "action": "Cancel order 4471?"},
)  # fmt: skip


@pytest.mark.row("E18", "U19")
@pytest.mark.parametrize(
    ("texts", "stands"),
    [
        (("yes I'm not coming", "no problem, do it", "Just cancel already!", "I'm not home, so yes"), True),
        (("yes, sorry for messing you about", "banana", "chef's kiss 👌", "not needed, so cancel it"), True),
        (("no", "🛑", "why", "not yet", "I'd rather not", "let me ask my wife", "of course not"), False),
        (("is that today?", "I'll sleep on it", "who is asking"), False),
    ],
)
def test_a_yes_of_the_model_falls_where_nothing_agrees_and_something_refuses(
    registry: Any, texts: tuple[str, ...], stands: bool
) -> None:
    for text in texts:
        refused: list[str] = []
        turn = ASKED.model_copy(update={"text": text})
        _, _, commands = merge(
            turn, registry, Enhancement(enhanced_query=text), Selection(), [Affirm()], refused, by_lm=True
        )
        assert (commands == [Affirm()]) is stands, text
        assert bool(refused) is not stands


@pytest.mark.row("E18", "U16")
def test_a_yes_with_a_change_stands_and_a_rule_reads_a_no() -> None:
    registry = FlowRegistry([CANCEL])
    turn = ASKED.model_copy(update={"text": "yes, but it is order 5519"})
    said = [Affirm(), CorrectSlot(name="order_id", value="5519")]

    def merged(by_lm: bool) -> list[str]:
        enhancement = Enhancement(enhanced_query=turn.text)
        return [c.type for c in merge(turn, registry, enhancement, Selection(), said, by_lm=by_lm)[2]]

    assert merged(by_lm=True) == ["correct_slot", "affirm"]
    assert merged(by_lm=False) == ["deny", "correct_slot"]


SET = {"type": "set_slot", "name": "order_id", "value": "5519"}
CLEAR = {"type": "clear_slot", "name": "note"}
CANCEL = {
    "name": "cancel_order",
    "description": "Cancel an order.",
    "confirm": "Cancel order {order_id}?",
    "slots": [
        {"name": "order_id", "type": "text", "ask": "Which order?"},
        {"name": "note", "type": "text", "required": False},
    ],
}
NOTE = {"type": "set_slot", "name": "note", "value": "late"}


@pytest.mark.row("E18", "U19")
@pytest.mark.parametrize("change", [SET, CLEAR], ids=["corrected", "cleared"])
async def test_nothing_runs_with_a_value_that_the_yes_changes(change: dict[str, Any]) -> None:
    said: dict[str, tuple[list[str], list[dict[str, Any]]]] = {
        "please cancel my order 4471 and note that it is late": (["A"], [SET | {"value": "4471"}, NOTE]),
        "yes, with the other number and without that note": ([], [{"type": "affirm"}, change]),
        "yes indeed, do that for me": ([], [{"type": "affirm"}]),
    }

    def script(request: Any) -> str:
        text = max(said, key=request.messages[-1].text.rfind)
        flows, commands = said[text]
        enhancement = {
            "enhanced_query": text,
            "sentiment_score": 0.0,
            "intent": "cancel_order",
            "entities": [],
        }
        flags = {"is_cancellation": False, "is_continuation": True}
        return json.dumps({**enhancement, **flags, "commands": [*flows, *commands]})

    program = TurnProgram(FlowRegistry([CANCEL])).with_policy("lm").bind(lm=scripted_lm(script))
    runtime = Runtime(program, agent_id="shop")
    steps = [(await runtime.process(conversation_id="c", user_id="u", text=text)).next.kind for text in said]
    assert steps == ["confirm", "confirm", "run_flow"]
