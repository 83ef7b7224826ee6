"""Limits that users give, and parameters that a provider refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import dspy
import pytest

from fake_openai import FakeOpenAI
from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.policy import Policy
from provider_server import Asked

FLOWS = [{"name": "pay_bill", "description": "Pay a bill.", "examples": ["i want to pay my bill"]}]


class Thinking(FakeOpenAI):
    """A reasoning model under the name of a deployment, which no table knows."""

    def _body_refusal(self, body: dict[str, Any], model: str) -> tuple[int, str, str | None] | None:
        return super()._body_refusal(body, "o3")


def _answers(lm: Any, style: str) -> bool:
    """Whether the language model's answer is used for a turn."""
    program = TurnProgram(FlowRegistry(FLOWS), policy=Policy(shape="fused")).with_policy("lm")
    turn = Turn(text="where is my zebra parcel")
    with dspy.context(lm=lm):
        decision = program.decide(turn) if style == "sync" else asyncio.run(program.adecide(turn))
    records = [record for record in decision.stages.values() if record.usage.lm_calls]
    return bool(records) and all(record.source == "lm" for record in records)


def _limits(calls: list[Asked], name: str) -> set[Any]:
    return {call.body.get(name) for call in calls}


@pytest.mark.row("N5", "L1")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_larger_limit_is_sent(no_proxy: None, name: str, style: str) -> None:
    with FakeOpenAI(flavour="vllm") as server:
        lm = resolve_lm("openai/thinker", api_base=server.address, **{name: 8000})
        assert _answers(lm, style), server.refused
    assert server.refused == []
    assert _limits(server.calls, "max_completion_tokens") | _limits(server.calls, "max_tokens") == {
        8000,
        None,
    }


@pytest.mark.row("N5", "L1", "O3")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("settings", [{}, {"max_tokens": 20_000}])
def test_a_refused_parameter_is_left_out_and_remembered(
    no_proxy: None, style: str, settings: dict[str, int]
) -> None:
    with Thinking() as server:
        lm = resolve_lm("openai/prod", api_base=server.address, **settings)
        for _ in range(2):
            assert _answers(lm, style), server.refused
    assert len(server.refused) == 1
    assert [call.body.get("temperature") for call in server.calls[1:]] == [None, None]
    assert _limits(server.calls[1:], "max_completion_tokens") == {settings.get("max_tokens", 16_000)}
