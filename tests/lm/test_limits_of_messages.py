"""Long messages: the limit of an answer grows with them, and no rewrite takes the place of more than it has seen."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import dspy
import pytest

from fake_openai import FakeOpenAI
from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.policy import Policy
from provider_server import fitting_answer

FLOWS = [{"name": "pay_bill", "description": "Pay a bill.", "examples": ["i want to pay my bill"]}]


def message_of(characters: int) -> str:
    words = "my zebra parcel number {} has not come "
    text = "".join(words.format(number) for number in range(characters // len(words) + 1))
    return text[: characters - 1] + "x"


def echo(body: dict[str, Any]) -> str:
    """The message as it was shown, as the rewrite."""
    schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    answer = json.loads(fitting_answer(schema, body["messages"]))
    shown = re.findall(r'^message: ("(?:[^"\\]|\\.)*")', body["messages"][-1]["content"], re.M)[-1]
    return json.dumps({**answer, "enhanced_query": json.loads(shown)})


def decided(lm: Any, text: str, style: str, way: str, shape: str = "fused") -> Any:
    program = TurnProgram(FlowRegistry(FLOWS), policy=Policy(shape=shape)).with_policy("lm")
    program = program.bind(lm=lm) if way == "bind" else program
    with dspy.context(lm=lm):
        turn = Turn(text=text)
        return program.decide(turn) if style == "sync" else asyncio.run(program.adecide(turn))


@pytest.mark.row("L1", "E9")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("way", ["bind", "configure"])
@pytest.mark.parametrize("characters", [500, 1309, 1571, 8000])
def test_a_long_message_is_answered_and_stays_whole(
    no_proxy: None, style: str, way: str, characters: int
) -> None:
    text = message_of(characters)
    with FakeOpenAI(flavour="vllm", answer=echo) as server:
        decision = decided(resolve_lm("openai/plain", api_base=server.address), text, style, way)
    assert decision.stages["enhance"].source == "lm", decision.stages["enhance"].cause
    assert decision.enhancement.enhanced_query == text
    assert len(server.calls) == 1
    limits = {call.body.get("max_completion_tokens") for call in server.calls}
    if characters == 500:
        assert limits == {1024}


@pytest.mark.row("L1", "E9")
def test_a_rewrite_that_breaks_off_does_not_replace_the_message(no_proxy: None) -> None:
    text = message_of(1500)

    def cut(body: dict[str, Any]) -> str:
        answer = json.loads(echo(body))
        return json.dumps({**answer, "enhanced_query": f"{text[:600]} … {text[-600:]}"})

    with FakeOpenAI(flavour="vllm", answer=cut) as server:
        decision = decided(
            resolve_lm("openai/plain", api_base=server.address), text, "sync", "bind", "staged"
        )
    assert decision.stages["enhance"].source == "lm"
    assert decision.enhancement.enhanced_query == text


@pytest.mark.row("E9")
def test_a_short_rewrite_is_taken(no_proxy: None) -> None:
    def short(body: dict[str, Any]) -> str:
        return json.dumps({**json.loads(echo(body)), "enhanced_query": "Where is parcel 7?"})

    with FakeOpenAI(flavour="vllm", answer=short) as server:
        lm = resolve_lm("openai/plain", api_base=server.address)
        decision = decided(lm, "where is it, the big brown parcel with the number 7", "sync", "bind")
    assert decision.enhancement.enhanced_query == "Where is parcel 7?"
