"""A program asks every kind of provider as it publishes that it wants to be asked: servers here refuse all else."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from typing import Any

import dspy
import pytest

from fake_ollama import FakeOllama
from fake_openai import FakeOpenAI
from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.lm import LMWarning, Meter, lm_identity, metered, resolve_lm, scripted_lm
from jazzmine_dspy.lm.errors import LMSettingsError
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.policy import Policy
from provider_server import Fault

KEY = "sk-live-4f1cab93d7"
TEXT = "where is my zebra parcel"
FLOWS = [
    {
        "name": "track_order",
        "description": "Tell where an order is.",
        "examples": ["where is my parcel"],
        "slots": [
            {"name": "order_id", "type": "text", "description": "number of the order"},
            {"name": "speed", "type": "choice", "options": ["slow", "fast"]},
        ],
    },
    {"name": "pay_bill", "description": "Pay a bill.", "examples": ["i want to pay my bill"]},
]


def program_of(lm: Any = None, shape: str = "fused") -> TurnProgram:
    made = TurnProgram(FlowRegistry(FLOWS), policy=Policy(shape=shape)).with_policy("lm")  # type: ignore[arg-type]
    return made.bind(lm=lm) if lm is not None else made


def decided(program: TurnProgram, style: str = "sync", text: str = TEXT) -> Any:
    turn = Turn(text=text)
    return program.decide(turn) if style == "sync" else asyncio.run(program.adecide(turn))


def well(decision: Any) -> bool:
    """Whether every stage that asked has its answer; that there is no index of flows is told as well."""
    asked = [record for record in decision.stages.values() if record.usage.lm_calls]
    return bool(asked) and all(record.source == "lm" and "lm:" not in str(record.cause) for record in asked)


def schemas(server: Any) -> list[Any]:
    return [
        (each.body.get("response_format") or {}).get("json_schema", {}).get("schema")
        or each.body.get("format")
        for each in server.calls
    ]


def made_by_hand(name: str, **settings: Any) -> dspy.LM:
    return dspy.LM(name, cache=False, num_retries=0, **settings)


MAKERS = {"by name": resolve_lm, "by hand": made_by_hand}
KINDS: list[tuple[str, Any]] = [
    ("openai/gpt-4o-mini", {"flavour": "openai", "key": KEY}),
    ("openai/gpt-9-unheard-of", {"flavour": "openai", "key": KEY}),
    ("openai/qwen2.5-7b-instruct", {"flavour": "llamacpp"}),
    ("hosted_vllm/qwen2.5-7b-instruct", {"flavour": "vllm"}),
    ("openai/team-model", {"flavour": "litellm", "key": KEY}),
]


@pytest.mark.row("N5", "L1")
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(("name", "server_settings"), KINDS)
def test_servers_of_openais_protocol_take_every_request(
    no_proxy: None, name: str, server_settings: Any, maker: str
) -> None:
    with FakeOpenAI(**server_settings) as server:
        lm = MAKERS[maker](name, api_base=server.address, api_key=KEY)
        for shape, style in (("staged", "sync"), ("fused", "async")):
            assert well(decided(program_of(lm, shape), style)), server.refused
        assert server.refused == []
        assert len(server.calls) == 4
        assert all(schemas(server))


@pytest.mark.row("N5", "L1")
@pytest.mark.parametrize("end", ["", "/", "/v1"])
@pytest.mark.parametrize("maker", MAKERS)
def test_ollama_is_asked_through_its_own_interface(no_proxy: None, maker: str, end: str) -> None:
    with FakeOllama(models=("llama3.2:3b",)) as server:
        lm = MAKERS[maker]("ollama_chat/llama3.2:3b", api_base=server.address + end, temperature=0.0)
        with dspy.context(lm=lm):  # as dspy.configure(lm=…) sets it
            for shape, style in (("staged", "sync"), ("fused", "async")):
                assert well(decided(program_of(None, shape), style)), server.refused
        assert server.refused == []
        assert [each.path for each in server.asked] == ["/api/chat"] * 4
        assert all(schemas(server))
        for each in server.calls:
            assert each.body["options"]["num_ctx"] == 4096
            assert each.body["options"]["temperature"] == 0.0
            assert each.body["options"]["num_predict"] > 0
            assert each.body["think"] is False


@pytest.mark.row("N5")
def test_a_key_for_ollama_is_sent_and_kept_out_of_sight(no_proxy: None) -> None:
    with FakeOllama(key=KEY) as server:
        lm = resolve_lm("ollama_chat/x", api_base=server.address, api_key=KEY)
        assert well(decided(program_of(lm)))
    assert KEY not in repr(lm.engine) + lm_identity(lm) + str(vars(lm)["kwargs"])
    assert server.address not in lm_identity(lm)
    assert lm_identity(
        made_by_hand("ollama_chat/x", api_base=server.address, temperature=0.0)
    ) == lm_identity(lm)


@pytest.mark.row("N5", "L1")
@pytest.mark.parametrize("variable", ["OPENAI_API_BASE", "OPENAI_BASE_URL"])
def test_an_address_in_the_environment_is_taken(
    no_proxy: None, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    with FakeOpenAI(flavour="llamacpp", key=KEY) as server:
        monkeypatch.setenv(variable, server.address)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert well(decided(program_of(resolve_lm("openai/mine"))))
        assert schemas(server)[0]
        assert server.refused == []


@pytest.mark.row("N5", "L1")
@pytest.mark.parametrize("style", ["sync", "async"])
def test_azure_is_asked_by_deployment(no_proxy: None, style: str) -> None:
    with FakeOpenAI(flavour="azure", key=KEY) as server:
        lm = resolve_lm("azure/my-deployment", api_base=server.address, api_key=KEY, api_version="2024-10-21")
        assert well(decided(program_of(lm), style)), server.refused
        (asked,) = server.calls
        assert asked.path == "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"
        assert asked.headers["api-key"] == KEY
        assert schemas(server)[0]


@pytest.mark.row("N5", "L1")
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", ["openai/gpt-5", "openai/gpt-5-mini", "openai/o3-mini", "openai/o1"])
def test_reasoning_models_get_their_own_settings(no_proxy: None, name: str, maker: str) -> None:
    with FakeOpenAI(key=KEY) as server:
        lm = MAKERS[maker](name, api_base=server.address, api_key=KEY)
        assert well(decided(program_of(lm))), server.refused
        (asked,) = server.calls
        assert asked.body["max_completion_tokens"] >= 16_000
        assert not {"max_tokens", "temperature"} & asked.body.keys()


# --- what holds an answer ----------------------------------------------------------------------------------


@pytest.mark.row("L1")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("maker", MAKERS)
def test_a_refused_schema_is_left_out_once_and_for_all(no_proxy: None, maker: str, style: str) -> None:
    with FakeOpenAI(key=KEY, schemas=False) as server:
        lm = MAKERS[maker]("openai/gpt-4o", api_base=server.address, api_key=KEY)
        meter = Meter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for model in (lm, lm, metered(lm, meter), lm.copy()):
                assert well(decided(program_of(model), style))
        assert [bool(schema) for schema in schemas(server)] == [True, *[False] * 4]
        assert [str(each.message)[:28] for each in said if each.category is LMWarning] == [
            "openai/gpt-4o refuses the sc"
        ]
        assert meter.counts.calls == 1


@pytest.mark.row("L1")
def test_an_answer_without_a_schema_is_checked_all_the_same(no_proxy: None) -> None:
    with FakeOpenAI(key=KEY, schemas=False, answer='{"flows": ["H"]}') as server:
        lm = resolve_lm("openai/gpt-4o", api_base=server.address, api_key=KEY)
        with pytest.warns(LMWarning, match="refuses the schema"):
            decision = decided(program_of(lm, "staged"))
        assert decision.stages["select"].degraded
        assert decision.selection.flows == []


@pytest.mark.row("L1")
@pytest.mark.parametrize(
    "said",
    [
        "Invalid value for 'messages'.",
        "This model's maximum context length is 8192 tokens, and the schema of response_format counts.",
    ],
)
def test_no_other_refusal_is_asked_again(no_proxy: None, said: str) -> None:
    with FakeOpenAI(faults=Fault("bad_request", said=said)) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        lm = resolve_lm("openai/gpt-4o", api_base=server.address, api_key=KEY)
        assert decided(program_of(lm)).degraded
        assert len(server.calls) == 1


@pytest.mark.row("L1")
def test_a_schema_is_kept_where_the_request_without_it_is_refused_too(no_proxy: None) -> None:
    """A gateway repeats the whole request in any error: that its text names a schema tells nothing."""
    plan = [Fault("bad_request", said="no: response_format json_schema"), Fault("bad_request")]
    with FakeOpenAI(faults=plan) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        lm = resolve_lm("openai/gpt-4o", api_base=server.address, api_key=KEY)
        assert decided(program_of(lm)).degraded
        assert well(decided(program_of(lm)))
        assert [bool(schema) for schema in schemas(server)] == [True, False, True]


@pytest.mark.row("L1")
def test_models_that_hold_no_schema_are_sent_none(no_proxy: None) -> None:
    with FakeOpenAI(key=KEY) as server:
        lm = made_by_hand(
            "openai/gpt-4-turbo", api_base=server.address.replace("127.0.0.1", "localhost"), api_key=KEY
        )
        lm.schema_support = False  # its own address would be asked for a schema
        assert well(decided(program_of(lm)))
        assert server.calls[0].body["response_format"] == {"type": "json_object"}
    plain = scripted_lm({"": json.dumps({"flows": ["A"]})}, schema=False)
    assert decided(program_of(plain, "staged")).selection.flows == ["track_order"]
    assert all(request.config.response_format is None for request in plain.engine.requests)


@pytest.mark.row("L1")
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_a_schema_may_be_the_same_for_every_turn(no_proxy: None, shape: str) -> None:
    with FakeOpenAI(key=KEY) as server:
        lm = resolve_lm("openai/gpt-4o", api_base=server.address, api_key=KEY, schema_support="static")
        program = program_of(lm, shape)
        for text in (TEXT, "fast", "i want to pay my bill, " * 20):
            decided(program, text=text)
        decided(program.with_flows(FlowRegistry(FLOWS[1:])) if hasattr(program, "with_flows") else program)
        assert server.refused == []
        assert len({json.dumps(schema) for schema in schemas(server)}) == (1 if shape == "fused" else 3)


def test_an_unknown_kind_of_schema_is_refused() -> None:
    with pytest.raises(LMSettingsError, match="schema_support is 'sometimes'"):
        resolve_lm("openai/gpt-4o", schema_support="sometimes")


# --- Ollama's context --------------------------------------------------------------------------------------


@pytest.mark.row("L1")
def test_the_context_is_as_long_as_the_longest_prompt_needs(no_proxy: None) -> None:
    with FakeOllama() as server:
        lm = resolve_lm("ollama_chat/x", api_base=server.address)
        for text in ("short", "слово " * 1300, "short again"):
            lm(text)
        first, second, third = (each.body["options"]["num_ctx"] for each in server.calls)
        assert first < second == third
        assert second == 8192


@pytest.mark.row("L1")
@pytest.mark.parametrize("honest", [True, False])
@pytest.mark.parametrize("style", ["sync", "async"])
def test_a_prompt_that_ollama_would_cut_is_an_error_that_says_what_to_do(
    no_proxy: None, honest: bool, style: str
) -> None:
    with FakeOllama(largest=100, honest=honest) as server:
        lm = resolve_lm("ollama_chat/x", api_base=server.address)
        decision = decided(program_of(lm), style, "long " * 1000)
        assert len(server.calls) == 1
    cause = str(decision.stages["select"].cause)
    assert "LMContextError: The prompt is longer than the model's context" in cause
    assert "num_ctx" in cause


@pytest.mark.row("L1")
def test_a_context_of_ones_own_is_kept(no_proxy: None) -> None:
    with FakeOllama() as server:
        given = {"num_ctx": 2048, "keep_alive": "10m", "think": "low"}
        for lm in (
            resolve_lm("ollama_chat/x", api_base=server.address, **given),
            made_by_hand("ollama/x", api_base=server.address, **given),
        ):
            assert well(decided(program_of(lm))), server.refused
        for each in server.calls:
            assert each.body["options"]["num_ctx"] == 2048
            assert (each.body["keep_alive"], each.body["think"]) == ("10m", "low")


# --- bad answers -------------------------------------------------------------------------------------------


@pytest.mark.row("L1", "G4")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("kind", ["openai", "ollama"])
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("cut", "The answer breaks off"),
        ("empty", "The answer is empty"),
        ("language", "has no JSON object"),
        (
            "huge",
            "breaks off|too long|longer than|the provider answered with an error|the deadline of the turn",
        ),
        ("html", "HTTP 502"),
        ("echo_401", "HTTP 401"),
        ("not_found", "HTTP 404"),
        ("rate_limit", "HTTP 429"),
        ("server_error", "HTTP 500"),
        ("close", "LMTransportError"),
    ],
)
def test_a_bad_answer_degrades_the_turn_and_shows_no_secret(
    no_proxy: None, caplog: pytest.LogCaptureFixture, capfd: Any, kind: str, style: str, fault: Any, told: str
) -> None:
    make, name = (FakeOllama, "ollama_chat/x") if kind == "ollama" else (FakeOpenAI, "openai/x")
    with make(faults=Fault(fault)) as server, caplog.at_level(logging.INFO):  # type: ignore[operator]
        lm = resolve_lm(name, api_base=server.address, api_key=KEY, num_retries=0)
        decision = decided(program_of(lm), style)
    record = decision.stages["select"]
    assert record.degraded
    assert any(part in str(record.cause) for part in told.split("|")), record.cause
    logged = caplog.text + "".join(capfd.readouterr())
    assert KEY not in logged + decision.model_dump_json()
    assert "zebra" not in str(record.cause)
