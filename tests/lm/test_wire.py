"""What our adapter really sends to a server, and what is told of its failures: over HTTP, on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.signatures.definitions import TOLD_BY_COMMANDS
from openai_server import serving

KEY = "sk-live-4f1cab93d7"
TEXT = "my iban is DE89 3704 where is my zebra parcel"
FLOWS = [
    {
        "name": "track_order",
        "description": "Tell where an order is.",
        "examples": ["where is my parcel"],
        "slots": [{"name": "order_id", "type": "text", "description": "number of the order"}],
    },
    {"name": "pay_bill", "description": "Pay a bill.", "examples": ["i want to pay my bill"]},
]
ANSWERS = {
    "enhanced_query": TEXT, "sentiment_score": 0.0, "intent": "track_order", "entities": [], "is_cancellation": False,
    "is_continuation": True, "flows": ["A"], "commands": ["A"],
}  # fmt: skip
BOUNDS = {"minLength", "maxLength", "minItems", "maxItems", "pattern"}


def answer(body: dict[str, Any]) -> str:
    """What a model answers that is held to the schema of the request."""
    wanted = body["response_format"]["json_schema"]["schema"]["properties"]
    said = ANSWERS | ({"commands": []} if "enhanced_query" not in wanted else {})
    return json.dumps({name: said[name] for name in wanted})


def program_of(shape: str, lm: Any) -> TurnProgram:
    program = TurnProgram(FlowRegistry(FLOWS), policy=Policy(shape=shape)).with_policy("lm")  # type: ignore[arg-type]
    return program.bind(lm=lm)


def decided(program: TurnProgram, style: str, turn: Turn) -> Any:
    return program.decide(turn) if style == "sync" else asyncio.run(program.adecide(turn))


def parts_of(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [part for item in schema for part in parts_of(item)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(part for item in schema.values() for part in parts_of(item))]


@pytest.mark.row("N5")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("shape", ["staged", "fused"])
@pytest.mark.parametrize("name", ["openai/some-model", "hosted_vllm/some-model"])
def test_path_headers_body_and_schema_reach_the_server(
    no_proxy: None, name: str, shape: str, style: str
) -> None:
    with serving(answer) as server:
        lm = resolve_lm(name, api_base=server.address, api_key=KEY)
        decision = decided(program_of(shape, lm), style, Turn(text=TEXT))
    assert decision.selection.flows == ["track_order"]
    assert {record.source for record in decision.stages.values() if record.usage.lm_calls} == {"lm"}
    assert len(server.asked) == (1 if shape == "fused" else 3)
    fields: set[str] = set()
    for (path, body), headers in zip(server.asked, server.headers, strict=True):
        assert path == "/v1/chat/completions"
        assert headers["authorization"] == f"Bearer {KEY}"
        assert headers["content-type"].partition(";")[0] == "application/json"
        assert (body["model"], body["temperature"]) == ("some-model", 0)
        assert (body.get("max_tokens") or body.get("max_completion_tokens")) > 0
        roles = [message["role"] for message in body["messages"]]
        assert (roles[0], roles[-1]) == ("system", "user")
        assert "zebra" in json.dumps(body["messages"][-1])
        assert "zebra" not in json.dumps(body["messages"][0]), (
            "the constant part comes first and stays constant"
        )
        assert KEY not in json.dumps(body)
        form = body["response_format"]
        assert form["type"] == "json_schema"
        schema = form["json_schema"]["schema"]
        fields |= schema["properties"].keys()
        # As strict mode takes it: whole objects, no lengths and no patterns.
        for part in parts_of(schema):
            assert not BOUNDS & part.keys()
            if isinstance(part.get("properties"), dict):
                assert part["additionalProperties"] is False
                assert list(part["required"]) == list(part["properties"])
        if "flows" in schema["properties"]:
            offered = [part["enum"] for part in parts_of(schema["properties"]["flows"]) if "enum" in part]
            assert offered == [["A", "B"]], "the choices of this turn and no others"
    assert fields == ANSWERS.keys() - (TOLD_BY_COMMANDS if shape == "fused" else set())


@pytest.mark.row("N5")
def test_a_server_without_schemas_is_asked_for_json(no_proxy: None) -> None:
    with serving(json.dumps(ANSWERS)) as server:
        lm = resolve_lm("openai/gpt-4o-mini", api_base=server.address, api_key=KEY, schema_support=False)
        decision = program_of("fused", lm).decide(text=TEXT)
    assert decision.selection.flows == ["track_order"]
    ((_, body),) = server.asked
    assert body["response_format"] == {"type": "json_object"}


# --- failures ----------------------------------------------------------------------------------------------

PLANTED = ("sk-live", "4f1cab93d7", "zebra", "DE89", "Bearer", "X-Tenant", "acme", "127.0.0.1")


def echo(body: dict[str, Any], headers: dict[str, str]) -> str:
    """The worst that a gateway does: the request in the text of the error, with its headers."""
    return f"X-Tenant: acme; invalid key {headers.get('authorization')} for {json.dumps(body['messages'])}"


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """All that is logged by us, and what others log as a warning or worse."""
    with caplog.at_level(logging.WARNING), caplog.at_level(logging.DEBUG, "jazzmine_dspy"):
        yield caplog


@pytest.mark.row("G4", "E7")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("shape", ["staged", "fused"])
@pytest.mark.parametrize(
    ("status", "told"),
    [
        (400, "LMInvalidRequestError, HTTP 400: the provider refuses this request"),
        (401, "LMAuthError, HTTP 401: the provider refuses the key"),
        (404, "HTTP 404"),
        (429, "LMRateLimitError, HTTP 429: the provider gets too many requests"),
        (500, "LMServerError, HTTP 500: the provider failed"),
        (503, "HTTP 503"),
    ],
)
def test_what_a_provider_says_reaches_no_record_and_no_log(
    no_proxy: None, everything: pytest.LogCaptureFixture, status: int, told: str, shape: str, style: str
) -> None:
    with serving(lambda _: status, echo) as server:
        lm = resolve_lm("openai/some-model", api_base=server.address, api_key=KEY, num_retries=0)
        decision = decided(program_of(shape, lm), style, Turn(text=TEXT))
    assert server.asked
    assert decision.degraded
    records = [record for record in decision.stages.values() if record.degraded]
    assert records
    for record in records:
        assert told in str(record.cause)
        for call in record.calls:
            assert not call.success
            assert told in str(call.error)
    causes = json.dumps([[record.cause, [call.error for call in record.calls]] for record in records])
    logged = "\n".join(record.getMessage() + str(record.exc_text or "") for record in everything.records)
    assert told in logged
    for planted in PLANTED:
        assert planted not in causes
        assert planted not in logged


@pytest.mark.row("G4")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"Bearer {KEY} {TEXT}", "has no JSON object"),
        (json.dumps({"commands": [TEXT, KEY]}), "does not fit|no such flow"),
        (json.dumps(ANSWERS | {"commands": [KEY]}), "no such flow was offered"),
        (json.dumps(ANSWERS | {"sentiment_score": [TEXT], KEY: KEY}), "does not fit"),
        (json.dumps(ANSWERS | {"intent": TEXT})[:-1], "breaks off"),
    ],
    ids=["prose", "other fields", "invented flow", "other type", "broken off"],
)
def test_what_a_model_answers_reaches_no_cause_and_no_log(
    no_proxy: None, everything: pytest.LogCaptureFixture, said: str, told: str
) -> None:
    """A model may be brought to repeat its prompt."""
    with serving(said) as server:
        lm = resolve_lm("openai/some-model", api_base=server.address, api_key=KEY, num_retries=0)
        decision = program_of("fused", lm).decide(text=TEXT)
    causes = json.dumps(
        [[record.cause, [call.error for call in record.calls]] for record in decision.stages.values()]
    )
    assert any(part in causes for part in told.split("|")), causes
    logged = "\n".join(record.getMessage() for record in everything.records)
    for planted in PLANTED:
        assert planted not in causes
        assert planted not in logged


@pytest.mark.row("G4")
def test_a_server_that_is_not_there_is_told_without_its_address(
    no_proxy: None, everything: pytest.LogCaptureFixture
) -> None:
    with serving("") as server:
        address = server.address  # nobody listens there any more
    lm = resolve_lm(
        "openai/some-model", api_base=address.replace("//", f"//me:{KEY}@"), api_key=KEY, num_retries=0
    )
    decision = program_of("fused", lm).decide(text=TEXT)
    cause = str(decision.stages["select"].cause)
    assert "LMTransportError: the provider cannot be reached" in cause
    logged = "\n".join(record.getMessage() for record in everything.records)
    assert not any(planted in cause + logged for planted in PLANTED)
