"""Answers outside of the text, in the thoughts or as a tool call, and a temperature that thinking does not take."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fake_openai import FakeOpenAI
from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.lm import ReplayStore, replayed, resolve_lm
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.policy import Policy
from provider_server import Asked, ProviderServer, Reply, fitting_answer
from saying_server import Refusing, Saying, answering, asked_of

pytestmark = [pytest.mark.row("L1", "N5"), pytest.mark.usefixtures("no_proxy")]

FLOWS = [{"name": "pay_bill", "description": "Pay a bill.", "examples": ["i want to pay my bill"]}]
TEXT = "where is my zebra parcel"
ANSWER = fitting_answer(None, [{"content": TEXT}])
STYLES = pytest.mark.parametrize("style", ["sync", "async"])
SERVED = pytest.mark.parametrize(
    ("name", "flavour"),
    [
        ("openai/x", "vllm"),
        ("hosted_vllm/x", "vllm"),
        ("openrouter/maker/x", "vllm"),
        # DSPy asks it through LiteLLM.
        ("litellm_proxy/x", "litellm"),
    ],
)


def asked_for(lm: Any, style: str = "sync") -> Any:
    """The record of the stage that asks the language model."""
    program = TurnProgram(FlowRegistry(FLOWS), policy=Policy(shape="fused")).with_policy("lm").bind(lm=lm)
    turn = Turn(text=TEXT)
    decision = program.decide(turn) if style == "sync" else asyncio.run(program.adecide(turn))
    return decision.stages["enhance"]


def call_of(arguments: str, name: str = "json_tool_call") -> dict[str, Any]:
    return {
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}]
    }


DISPLACED = {
    "reasoning_content, null": answering(None, reasoning_content=ANSWER),
    "reasoning_content, empty": answering("", reasoning_content=ANSWER),
    "reasoning": answering(None, reasoning=ANSWER),
    "at the end of the thoughts": answering(None, reasoning=f"{{Hm}}, {{'flows': []}}? No:\n{ANSWER}"),
    "a tool call": answering(None, "tool_calls", **call_of(ANSWER)),
    "a tool call that stops": answering("", "stop", **call_of(ANSWER)),
    "a tool call, wrapped": answering(
        None, "tool_calls", **call_of(json.dumps({"answer": json.loads(ANSWER)}))
    ),
}


@STYLES
@SERVED
@pytest.mark.parametrize("place", DISPLACED)
def test_an_answer_is_read_where_the_server_has_put_it(
    place: str, name: str, flavour: Any, style: str
) -> None:
    with Saying([DISPLACED[place]], for_ever=True, flavour=flavour) as server:
        record = asked_for(resolve_lm(name, api_base=server.address, api_key="k"), style)
    assert (record.source, record.cause) == ("lm", None)
    assert len(server.calls) == 1


@STYLES
@SERVED
@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (answering(None, reasoning="Let me think."), "LMNoAnswerError: The answer is empty: the model only"),
        (answering(None, "tool_calls", **call_of("{}", "web_search")), "AnswerError: The model calls a tool"),
    ],
)  # fmt: skip
def test_the_cause_says_that_there_are_thoughts_or_a_tool_alone(
    body: dict[str, Any], cause: str, name: str, flavour: Any, style: str
) -> None:
    with Saying([body], for_ever=True, flavour=flavour) as server:
        record = asked_for(resolve_lm(name, api_base=server.address, api_key="k", num_retries=0), style)
    assert record.degraded
    assert cause in record.cause


@pytest.mark.parametrize("place", DISPLACED)
def test_a_displaced_answer_is_stored(place: str, tmp_path: Path) -> None:
    with Saying([DISPLACED[place]], for_ever=True) as server:
        lm = resolve_lm("openai/x", api_base=server.address, api_key="k")
        for _ in range(2):
            assert asked_for(replayed(lm, ReplayStore(tmp_path / "answers.db"))).source == "lm"
    assert len(server.calls) == 1


REFUSALS = (
    "`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation",
    "temperature must be unset when reasoning effort is high",
    "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
    "temperature: Input should be 1",
    "Setting the temperature is incompatible with reasoning",
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
)


@STYLES
@SERVED
@pytest.mark.parametrize("words", REFUSALS)
def test_a_refused_temperature_is_left_out_once(words: str, name: str, flavour: Any, style: str) -> None:
    with Refusing({"temperature": words}, flavour) as server:
        lm = resolve_lm(name, api_base=server.address, api_key="k")
        for _ in range(2):
            assert asked_for(lm, style).source == "lm", server.refused
    assert asked_of(server, "temperature") == [(0.0,), (None,), (None,)]


@STYLES
def test_what_was_left_out_in_vain_is_sent_again(style: str) -> None:
    """A gateway repeats the request in its errors, and so names all that it held."""
    echo = "blocked: {messages: [...], temperature: 0, max_tokens: 1024, max_completion_tokens: 1024}"
    with Refusing({"messages": echo}) as server:
        lm = resolve_lm("openai/x", api_base=server.address, api_key="k")
        record = asked_for(lm, style)
        assert "LMInvalidRequestError, HTTP 400" in record.cause
        assert len(server.calls) <= 4
        server.words = {}
        assert asked_for(lm, style).source == "lm"
    assert asked_of(server, "temperature", "max_completion_tokens")[-1] == (0.0, 1024)


class FakeAnthropic(ProviderServer):
    """Thinks, and refuses a temperature beside it.

    Args:
        blocks: The content of its answers.
    """

    def __init__(self, blocks: list[dict[str, Any]]) -> None:
        super().__init__()
        self.blocks = blocks

    def is_call(self, asked: Asked) -> bool:
        return asked.path.endswith("/messages")

    def error(self, status: int, said: str, code: str | None = None) -> Any:
        return {"type": "error", "error": {"type": code or "invalid_request_error", "message": said}}

    def completed(self, asked: Asked, text: str, reason: str) -> Any:
        raise NotImplementedError

    def respond(self, asked: Asked) -> Reply:
        if asked.body.get("temperature") is not None:
            return Reply(400, self.error(400, REFUSALS[0]))
        if asked.body["max_tokens"] <= asked.body["thinking"]["budget_tokens"]:
            return Reply(400, self.error(400, "`max_tokens` must be greater than `thinking.budget_tokens`."))
        stop = "tool_use" if self.blocks[-1]["type"] == "tool_use" else "end_turn"
        return Reply(
            200,
            {
                "id": "m1", "type": "message", "role": "assistant", "model": "claude-x", "content": self.blocks,
                "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 9},
            },
        )  # fmt: skip


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}


@STYLES
@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": ANSWER},
        {"type": "tool_use", "id": "t1", "name": "json_tool_call", "input": json.loads(ANSWER)},
    ],
)
def test_anthropics_own_interface(block: dict[str, Any], style: str) -> None:
    with FakeAnthropic([THOUGHT, block]) as server:
        address = f"{server.root}/v1"
        lm = resolve_lm("anthropic/claude-x", api_base=address, api_key="k", reasoning_effort="low")
        for _ in range(2):
            assert asked_for(lm, style).cause is None
    assert [call.body.get("temperature") for call in server.calls] == [0.0, None, None]


def test_a_text_stays_the_answer_beside_thoughts() -> None:
    draft = json.dumps({**json.loads(ANSWER), "intent": "chitchat"})
    with Saying([answering(ANSWER, reasoning=draft)], for_ever=True) as server:
        lm = resolve_lm("openai/x", api_base=server.address, api_key="k")
        program = TurnProgram(FlowRegistry(FLOWS), policy=Policy(shape="fused")).with_policy("lm").bind(lm=lm)
        decision = program.decide(Turn(text=TEXT))
    assert decision.enhancement.intent != "chitchat"
    assert isinstance(server, FakeOpenAI)
