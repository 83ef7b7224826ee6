"""One answer, asked for as its provider takes it: refused parameters and schemas, limits, and no answers."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import replace
from typing import Any

import dspy
import pytest

from fake_ollama import FakeOllama
from fake_openai import FakeOpenAI
from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.lm.errors import LMWarning
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program import outages
from jazzmine_dspy.program.lm import calls
from jazzmine_dspy.program.policy import Policy
from provider_server import Fault
from saying_server import NOTHING, AtOnce, Refusing, Saying, ThinkingFirst, answering, asked_of

FLOWS = [{"name": "pay_bill", "description": "Pay a bill.", "examples": ["i want to pay my bill"]}]
STYLES = pytest.mark.parametrize("style", ["sync", "async"])
WAYS = pytest.mark.parametrize("way", ["bind", "configure"])


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch, no_proxy: None) -> list[float]:
    pauses: list[float] = []

    async def asleep(seconds: float) -> None:
        pauses.append(seconds)

    # One call of the program: what an unreadable answer brings beyond it is tested with the retries.
    monkeypatch.setattr(calls.Retries, "allow", lambda _: False)
    monkeypatch.setattr(outages, "SERVING", replace(outages.SERVING, sleep=pauses.append, asleep=asleep))
    monkeypatch.setenv("AZURE_API_VERSION", "2024-06-01")
    return pauses


def asked_for(lm: Any, style: str, way: str = "bind", text: str = "where is my zebra parcel") -> Any:
    """The record of the stage that asks the language model."""
    program = TurnProgram(FlowRegistry(FLOWS), policy=Policy(shape="fused")).with_policy("lm")
    program = program.bind(lm=lm) if way == "bind" else program
    turn = Turn(text=text)
    with dspy.context(lm=None if way == "bind" else lm):
        decision = program.decide(turn) if style == "sync" else asyncio.run(program.adecide(turn))
    return decision.stages["enhance"]


# --- parameters --------------------------------------------------------------------------------------------

KEY = "sk-live-4f1cab93d7"
BOTH = ("max_tokens", "max_completion_tokens")
REASONING = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) "
    "value is supported.",
}
SERVED: dict[str, tuple[str, Any]] = {
    "azure": ("azure/prod", "azure"),
    "a LiteLLM proxy": ("litellm_proxy/prod", "litellm"),
    "a gateway": ("openai/prod", "vllm"),
    "vLLM": ("hosted_vllm/prod", "vllm"),
}


@pytest.mark.row("L1", "N5")
@STYLES
@pytest.mark.parametrize("served", SERVED)
@pytest.mark.parametrize("name", BOTH)
def test_a_limit_of_the_users_goes_out_under_one_name(style: str, served: str, name: str) -> None:
    model, flavour = SERVED[served]
    with FakeOpenAI(flavour=flavour) as server:
        lm = resolve_lm(model, api_base=server.address, api_key="k", **{name: 9000})
        assert asked_for(lm, style).source == "lm", server.refused
    assert [set(limits) for limits in asked_of(server, *BOTH)] == [{9000, None}]


@pytest.mark.row("L1", "N5")
@STYLES
@WAYS
@pytest.mark.parametrize("served", ["azure", "a LiteLLM proxy", "a gateway"])
def test_a_reasoning_model_under_a_name_of_its_own_needs_no_setting(
    style: str, way: str, served: str
) -> None:
    model, flavour = SERVED[served]
    with Refusing(REASONING, flavour) as server:
        lm = resolve_lm(model, api_base=server.address, api_key="k")
        for _ in range(2):
            assert asked_for(lm, style, way).source == "lm", server.refused
    assert len(server.refused) == 1
    assert asked_of(server, *BOTH, "temperature")[1:] == [(None, 16_000, None)] * 2


@pytest.mark.row("L1", "N5")
@STYLES
@pytest.mark.parametrize(
    "words",
    [
        {
            "temperature": "invalid temperature: only 1 is allowed for this model",
            "max_tokens": "Unknown: max_tokens",
        },
        {"max_tokens": "this model is not supported MaxTokens, please use MaxCompletionTokens"},
        {"max_completion_tokens": "Unrecognized request argument supplied: max_completion_tokens"},
        {
            "temperature": "`temperature` is deprecated for this model.",
            "max_completion_tokens": "Extra inputs are not permitted: max_completion_tokens",
        },
    ],
)
def test_what_is_refused_in_turn_is_left_out_in_turn(style: str, words: dict[str, str]) -> None:
    with Refusing(words) as server:
        for name in ("openai/prod", "hosted_vllm/prod", "litellm_proxy/prod"):
            before = len(server.calls)
            lm = resolve_lm(name, api_base=server.address, api_key="k")
            for _ in range(2):
                assert asked_for(lm, style).source == "lm", server.refused
            assert len(server.calls) - before <= 2 + len(words)
            assert not server.calls[-1].body.keys() & words.keys()


@pytest.mark.row("L1", "N5")
@WAYS
@pytest.mark.parametrize("style", ["tasks", "threads", "batch"])
def test_calls_that_are_refused_at_once_are_all_made_again(style: str, way: str) -> None:
    """What the first of them learns is no news to the others, whose requests were under way."""
    turns = [Turn(text=f"where is parcel {number}") for number in range(6)]
    words = {**REASONING, "response_format": "This response_format type is unavailable now"}
    with AtOnce(len(turns), words) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", LMWarning)
        lm = dspy.LM(
            f"openai/{style}-{way}", api_base=server.address, api_key="k", cache=False, max_tokens=4000
        )
        program = TurnProgram(FlowRegistry(FLOWS), policy=Policy(shape="fused")).with_policy("lm")
        program = program.bind(lm=lm) if way == "bind" else program
        with dspy.context(lm=None if way == "bind" else lm):
            if style == "tasks":
                decisions = asyncio.run(program.adecide_many(turns, workers=len(turns)))
            elif style == "threads":
                decisions = program.decide_many(turns, workers=len(turns))
            else:
                examples = [dspy.Example(turn=turn).with_inputs("turn") for turn in turns]
                found = program.batch(examples, num_threads=len(turns), disable_progress_bar=True)
                decisions = [each.decision for each in found]
    assert [each.stages["enhance"].cause for each in decisions] == [None] * len(turns)
    assert len(server.calls) <= (2 + len(words)) * len(turns)
    assert not server.calls[-1].body.keys() & words.keys()


@pytest.mark.row("L1")
@STYLES
def test_a_copy_and_another_address_are_asked_as_they_are(style: str) -> None:
    with Refusing(REASONING) as server, FakeOpenAI(flavour="vllm") as other:
        lm = resolve_lm("openai/prod", api_base=server.address, api_key="k")
        assert asked_for(lm, style).source == "lm"
        assert asked_for(lm.copy(), style).source == "lm"
        assert len(server.refused) == 1
        elsewhere = resolve_lm("openai/prod", api_base=other.address, api_key="k")
        assert asked_for(elsewhere, style).source == "lm"
    assert asked_of(other, "max_completion_tokens", "temperature") == [(1024, 0.0)]


# --- models that think -------------------------------------------------------------------------------------


@pytest.mark.row("L1", "N5")
@STYLES
@WAYS
@pytest.mark.parametrize("most", [None, 5000])
def test_a_model_whose_thoughts_count_gets_more_room_from_then_on(
    style: str, way: str, most: int | None
) -> None:
    with ThinkingFirst(most=most) as server:
        lm = resolve_lm("openai/thinker", api_base=server.address, api_key="k")
        assert asked_for(lm, style, way).source == "lm", server.refused
        learnt = len(server.calls)
        assert asked_for(lm, style, way).source == "lm"
    assert learnt == (2 if most is None else 3)
    assert len(server.calls) == learnt + 1
    # A limit that is refused is left out.
    assert server.calls[-1].body.get("max_completion_tokens") == (16_000 if most is None else None)


@pytest.mark.row("L1")
@STYLES
def test_an_answer_that_breaks_off_gets_more_room_once(style: str) -> None:
    with FakeOpenAI(flavour="vllm", faults=Fault("cut")) as server:
        record = asked_for(resolve_lm("openai/wordy", api_base=server.address, api_key="k"), style)
        again = asked_for(resolve_lm("openai/wordy", api_base=server.address, api_key="k"), style)
    assert record.degraded
    assert "breaks off" in str(record.cause)
    assert again.degraded
    assert asked_of(server, "max_completion_tokens") == [(1024,), (4096,)] * 2


@pytest.mark.row("L1")
@STYLES
def test_room_that_does_not_fit_the_context_is_left_out_of_that_call_alone(style: str) -> None:
    class Short(FakeOpenAI):
        def _body_refusal(self, body: dict[str, Any], model: str) -> tuple[int, str, str | None] | None:
            if (body.get("max_completion_tokens") or 0) > 4000:
                said = "This model's maximum context length is 4096 tokens. However, you requested more."
                return 400, said, "context_length_exceeded"
            return super()._body_refusal(body, model)

    with Short(flavour="vllm") as server:
        lm = resolve_lm("openai/short", api_base=server.address, api_key="k", max_tokens=9000)
        for _ in range(2):
            assert asked_for(lm, style).source == "lm", server.refused
    assert asked_of(server, "max_completion_tokens") == [(9000,), (None,)] * 2


@pytest.mark.row("L1", "N5")
@STYLES
@WAYS
def test_ollama_thinks_without_a_limit_of_the_users(style: str, way: str) -> None:
    class Thinking(FakeOllama):
        def completed(self, asked: Any, text: str, reason: str) -> Any:
            made = super().completed(asked, text, reason)
            if asked.body["options"]["num_predict"] <= 2000:
                made |= {
                    "message": {"role": "assistant", "content": "", "thinking": "hm"},
                    "done_reason": "length",
                }
            return made

    with Thinking() as server:
        lm = resolve_lm("ollama_chat/deepseek-r1", api_base=server.address, think=True)
        assert asked_for(lm, style, way).source == "lm"
        assert len(server.calls) == 1
        # Some models think whether they are asked to or not.
        always = resolve_lm("ollama_chat/gpt-oss", api_base=server.address)
        for _ in range(2):
            assert asked_for(always, style, way).source == "lm"
    assert len(server.calls) == 1 + 2 + 1


# --- no answers --------------------------------------------------------------------------------------------


@pytest.mark.row("L3")
@STYLES
@WAYS
@pytest.mark.parametrize("said", NOTHING)
def test_no_answer_is_asked_for_again(slept: list[float], style: str, way: str, said: str) -> None:
    with Saying([NOTHING[said]] * 2) as server:
        record = asked_for(resolve_lm("openai/x", api_base=server.address, api_key="k"), style, way)
    assert record.source == "lm", record.cause
    assert len(server.calls) == 3
    assert len(slept) == 2


@pytest.mark.row("L3")
@STYLES
@pytest.mark.parametrize("said", ["no choices", "null"])
def test_no_answer_by_litellm_is_asked_for_again(style: str, said: str) -> None:
    with Saying([NOTHING[said]], flavour="litellm") as server:
        record = asked_for(resolve_lm("litellm_proxy/x", api_base=server.address, api_key="k"), style)
    assert record.source == "lm", record.cause
    assert len(server.calls) == 2


@pytest.mark.row("L3")
@STYLES
def test_a_model_that_never_answers_is_left_alone(style: str) -> None:
    with Saying([NOTHING["no choices"]], for_ever=True) as server:
        lm = resolve_lm("openai/x", api_base=server.address, api_key="k")
        first, second = asked_for(lm, style), asked_for(lm, style)
    assert len(server.calls) == outages.FAILURES
    assert "LMNoAnswerError" in str(first.cause)
    assert "LMPausedError" in str(second.cause)


@pytest.mark.row("L3")
@STYLES
def test_dspys_cache_keeps_no_answer_that_is_none(style: str, tmp_path: Any) -> None:
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    with Saying([NOTHING["no choices"]]) as server:
        name = f"openai/cached-{style}"
        lm = dspy.LM(name, api_base=server.address, api_key="k", cache=True, temperature=0.0)
        for _ in range(2):
            assert asked_for(lm, style, "configure").source == "lm"
    assert len(server.calls) >= 2


@pytest.mark.row("L3")
@STYLES
@WAYS
@pytest.mark.parametrize(
    "body",
    [answering(None, "content_filter"), answering("", "content_filter"), answering(None, refusal="I won't.")],
)
def test_a_filter_is_a_refusal(slept: list[float], style: str, way: str, body: dict[str, Any]) -> None:
    with Saying([body], for_ever=True) as server:
        record = asked_for(resolve_lm("openai/x", api_base=server.address, api_key="k"), style, way)
    assert record.degraded
    assert "LMFilteredError" in str(record.cause)
    assert (len(server.calls), slept) == (1, [])


@pytest.mark.row("L3")
@STYLES
def test_nothing_changes_where_no_history_is_kept(style: str) -> None:
    with Saying([NOTHING["null"]]) as server:
        lm = resolve_lm("openai/x", api_base=server.address, api_key="k")
        with dspy.context(disable_history=True):
            assert asked_for(lm, style).source == "lm"
    assert lm.history == []
    with FakeOpenAI(flavour="vllm") as server:
        lm = resolve_lm("openai/x", api_base=server.address, api_key="k")
        assert asked_for(lm, style).source == "lm"
    assert len(lm.history) == 1


@pytest.mark.row("L3")
@STYLES
def test_a_retry_after_of_a_day_is_not_waited_for(slept: list[float], style: str) -> None:
    with FakeOpenAI(flavour="vllm", faults=[Fault("rate_limit", retry_after="86400")]) as server:
        lm = resolve_lm("openai/x", api_base=server.address, api_key="k")
        assert asked_for(lm, style).degraded
        assert slept == []
        # It answers well again: nothing is left of the outage.
        assert asked_for(lm, style).source == "lm"


# --- schemas -----------------------------------------------------------------------------------------------


@pytest.mark.row("L1", "N5")
@STYLES
@WAYS
@pytest.mark.parametrize("answer", [None, "I cannot say."])
@pytest.mark.parametrize(
    ("settings", "form"), [({}, "json_schema"), ({"schema_support": False}, "json_object")]
)
def test_a_refused_schema_is_left_out_once_and_said(
    style: str, way: str, answer: str | None, settings: dict[str, Any], form: str
) -> None:
    words = {"response_format": f"This response_format type is unavailable now: {KEY}"}
    with Refusing(words, answer=answer) as server, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        lm = resolve_lm("openai/deepseek-chat", api_base=server.address, api_key="k", **settings)
        for _ in range(3):
            assert asked_for(lm, style, way).degraded == (answer is not None)
    forms = [(call.body.get("response_format") or {}).get("type") for call in server.calls]
    assert forms == [form, None, None, None]
    [warning] = [str(each.message) for each in said if each.category is LMWarning]
    # The reason is passed on by its class and status: what a provider writes may repeat a message or a key.
    assert "LMInvalidRequestError, HTTP 400" in warning
    assert KEY not in warning
