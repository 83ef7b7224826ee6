"""The servers that stand in for providers in tests: they take what is published, refuse the rest, and fail as asked."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from fake_ollama import FakeOllama
from fake_openai import FakeOpenAI
from provider_server import Fault
from strict_schema import problems

KEY = "sk-live-4f1cab93d7"
PICK = {"type": "string", "enum": ["a", "b"]}


def an_object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nested(levels: int) -> dict[str, Any]:
    return PICK if levels == 0 else an_object(x=nested(levels - 1))


@pytest.mark.row("L1")
@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (an_object(a=PICK), ""),
        (an_object(a={"type": "array", "items": {"anyOf": [an_object(t=PICK), an_object(u=PICK)]}}), ""),
        (nested(9), ""),
        (nested(10), "levels of nesting"),
        ({"anyOf": [an_object(a=PICK)]}, "type: \"object\""),
        (an_object(a={"enum": ["a"]}), "must have a 'type'"),
        (an_object(a={"type": "string", "minLength": 1}), "'minLength' is not permitted"),
        (an_object(a={"oneOf": [PICK]}), "'oneOf' is not permitted"),
        (an_object(a={"type": "string", "enum": []}), "without values"),
        (an_object(a={"type": "string", "enum": [1]}), "does not validate"),
        (an_object(a={"type": "string", "enum": ["a", "a"]}), "repeated"),
        (an_object(a=PICK) | {"required": []}, "'required' is required"),
        ({"type": "object", "properties": {}, "required": []}, "'additionalProperties' is required"),
        (an_object(a={"anyOf": [an_object(t=PICK), an_object(t=PICK)]}), "identical first keys"),
        (an_object(a={"type": "string", "enum": [str(n) for n in range(1001)]}), "1000 are allowed"),
        (an_object(a={"type": "string", "enum": [f"{n:0100}" for n in range(251)]}), "15000"),
        (an_object(**{f"p{n}": PICK for n in range(500)}), ""),
        (an_object(**{f"{n:0300}": {"type": "string"} for n in range(401)}), "120000 are allowed"),
        (an_object(**{f"p{n}": {"type": "string"} for n in range(5001)}), "5000 are allowed"),
    ],
)  # fmt: skip
def test_the_published_subset_is_known(schema: dict[str, Any], told: str) -> None:
    found = problems(schema)
    assert any(told in each for each in found) if told else not found, found


def asked(server: Any, path: str, timeout: float = 5.0, **body: Any) -> httpx.Response:
    return httpx.post(
        server.root + path, json=body, timeout=timeout, headers={"authorization": f"Bearer {KEY}"}
    )


MESSAGES = [{"role": "user", "content": "Say yes as json."}]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"model": "gpt-4o"}, 200, ""),
        ({"model": "gpt-4o", "num_ctx": 1}, 400, "Unrecognized request argument supplied: num_ctx"),
        ({"model": "gpt-5", "max_tokens": 5}, 400, "'max_tokens' is not supported"),
        ({"model": "o3-mini", "temperature": 0.0}, 400, "'temperature' does not support 0"),
        (
            {"model": "gpt-4-turbo", "response_format": {"type": "json_schema", "json_schema": {}}},
            400,
            "not supported",
        ),
    ],
)
def test_openai_refuses_what_it_does_not_publish(
    no_proxy: None, body: dict[str, Any], status: int, told: str
) -> None:
    with FakeOpenAI(key=KEY) as server:
        got = asked(server, "/v1/chat/completions", messages=MESSAGES, **body)
        assert (got.status_code, asked(server, "/chat/completions").status_code) == (status, 404)
        assert told in got.text
        assert [told in each for each in server.refused[:-1]] == [True] * bool(told)


def test_ollama_refuses_what_it_does_not_publish(no_proxy: None) -> None:
    with FakeOllama(models=("m",), largest=20) as server:
        assert asked(server, "/chat/completions", model="m").status_code == 404
        assert asked(server, "/api/chat", model="n").status_code == 404
        assert "unknown field" in asked(server, "/api/chat", model="m", max_tokens=1).text
        assert "invalid option" in asked(server, "/api/chat", model="m", options={"max_tokens": 1}).text
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x" * 400}]}
        cut = asked(server, "/api/chat", **body, stream=False).json()
        assert cut["prompt_eval_count"] == 20
        assert asked(server, "/api/chat", **body, truncate=False).status_code == 400
        lines = asked(server, "/api/chat", **body).text.splitlines()
        assert json.loads(lines[-1])["done"]


@pytest.mark.parametrize("kind", ["openai", "ollama"])
def test_faults_come_as_planned_and_calls_are_well_afterwards(no_proxy: None, kind: str) -> None:
    plan = [
        Fault("html"),
        Fault("echo_401"),
        Fault("bad_request"),
        Fault("not_found"),
        Fault("rate_limit", retry_after="7"),
        Fault("rate_limit"),
        Fault("server_error"),
        None,
        Fault("cut"),
        Fault("empty"),
        Fault("language"),
        Fault("huge"),
    ]
    path, make = ("/api/chat", FakeOllama) if kind == "ollama" else ("/v1/chat/completions", FakeOpenAI)
    with make(faults=plan) as server:  # type: ignore[operator]
        got = [asked(server, path, model="m", messages=MESSAGES, stream=False) for _ in [*plan, None]]
        assert [each.status_code for each in got] == [502, 401, 400, 404, 429, 429, 500, *[200] * 6]
        assert got[0].text.startswith("<!DOCTYPE html>")
        assert KEY in got[1].text
        assert [each.headers.get("retry-after") for each in got[4:6]] == ["7", None]
        assert "length" in got[8].text
        assert len(got[11].text) > 8_000_000
        assert len(server.calls) == len(plan) + 1
        for fault in ("close", "stall", "endless"):
            server.faults = Fault(fault)
            with pytest.raises(httpx.TransportError):
                read_some(server.root + path)


def read_some(address: str) -> None:
    """Read an answer up to a size that none of these has."""
    with httpx.stream("POST", address, json={}, timeout=0.2) as response:
        read = 0
        for part in response.iter_bytes():
            read += len(part)
            if read > 4096:
                raise httpx.ReadError("endless")
