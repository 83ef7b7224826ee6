"""``doctor --lm`` asks once and says what the provider holds, or what is wrong and what to do, without the key."""

from __future__ import annotations

import os
from typing import Any

import pytest

from fake_ollama import FakeOllama
from fake_openai import FakeOpenAI
from provider_server import Fault
from saying_server import NOTHING, Saying, answering

KEY = "sk-live-4f1cab93d7"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def told(done: Any) -> dict[str, tuple[bool, str]]:
    found = [each for each in done.json["checks"] if each["name"].startswith("language model")]
    return {each["name"].partition(": ")[2] or "call": (each["ok"], each["detail"]) for each in found}


@pytest.mark.row("L1")
def test_a_provider_that_holds_schemas(run: Any) -> None:
    with FakeOpenAI(key=KEY) as server:
        done = run("doctor", "--lm", "openai/gpt-4o-mini", "--api-base", server.address, "--json")
        assert len(server.calls) == 1
        assert server.refused == []
    assert done.code == 0
    found = told(done)
    assert found["schema"] == (True, "takes a schema of its own for each call, strictly")
    assert found["temperature"] == (True, "takes 0")
    assert found["tokens"][0]
    assert "zebra-7" in found["call"][1]
    assert KEY not in done.out + done.err


@pytest.mark.row("L1")
@pytest.mark.parametrize(
    ("name", "settings", "schema", "temperature"),
    [
        ("openai/gpt-4o", {"schemas": False}, "takes no schema", "takes 0"),
        ("openai/gpt-5-mini", {}, "takes a schema of its own for each call, strictly", "none is sent"),
        (
            "hosted_vllm/mine",
            {"flavour": "vllm", "answer": '{"word": "cat"}'},
            "takes a schema of its own for each call, but its answers may not follow it",
            "takes 0",
        ),
    ],
)
def test_what_a_provider_does_not_hold_is_said(
    run: Any, name: str, settings: Any, schema: str, temperature: str
) -> None:
    with FakeOpenAI(**settings) as server:
        found = told(run("doctor", "--lm", name, "--api-base", server.address, "--json"))
    assert found["schema"][1] == schema
    assert found["temperature"][1] == temperature


@pytest.mark.row("L1")
def test_ollama_at_the_address_of_its_documents(run: Any) -> None:
    with FakeOllama(models=("llama3.2",)) as server:
        done = run("doctor", "--lm", "ollama_chat/llama3.2", "--api-base", server.address, "--json")
        wrong = run("doctor", "--lm", "ollama_chat/other", "--api-base", server.address)
    assert told(done)["schema"][0]
    assert done.code == 0
    assert wrong.code == 1
    assert "Check the model's name" in wrong.out


@pytest.mark.row("L1", "G4")
@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        ("echo_401", "Check the key"),
        ("not_found", "Check the model's name"),
        ("html", "The provider failed"),
        ("close", "Check that the server runs"),
        ("bad_request", "Check its name, its settings"),
    ],
)
def test_a_failure_is_told_in_plain_words_and_without_the_key(run: Any, fault: Any, remedy: str) -> None:
    with FakeOpenAI(faults=Fault(fault)) as server:
        done = run("doctor", "--lm", "openai/gpt-4o", "--api-base", server.address)
    assert done.code == 1
    assert remedy in " ".join(done.out.split())
    assert KEY not in done.out + done.err
    assert "Traceback" not in done.out + done.err


@pytest.mark.row("L1", "G4")
@pytest.mark.parametrize(
    ("named", "detail", "remedy"),
    [
        (
            {"param": "top_p", "code": "unsupported_parameter"},
            "(unsupported_parameter, parameter top_p)",
            "Remove top_p from lm_settings",
        ),
        ({"param": "prompt", "code": "content_filter"}, "content filter refuses", "Change the filter"),
        ({"param": f"ann said {KEY}", "code": KEY}, "HTTP 400: the provider refuses", "Check its name"),
    ],
)
def test_a_refusal_is_named_by_its_code_and_parameter(
    run: Any, named: dict[str, str], detail: str, remedy: str
) -> None:
    body = {"error": {"message": f"ann said {KEY}", "type": "invalid_request_error", **named}}
    with FakeOpenAI(faults=Fault("bad_request", body=body)) as server:
        done = run("doctor", "--lm", "openai/gpt-4o", "--api-base", server.address)
    said = " ".join(done.out.split())
    assert detail in said
    assert remedy in said
    for secret in (KEY, "ann said"):
        assert secret not in done.out + done.err


@pytest.mark.row("L1", "L3")
@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (answering(None, "content_filter"), "LMFilteredError"),
        (answering("", "content_filter"), "LMFilteredError"),
        (answering(None, refusal="I won't."), "LMFilteredError"),
        ({"error": {"message": "x", "code": "content_filter"}}, "content filter"),
        (NOTHING["no choices"], "LMNoAnswerError"),
        (NOTHING["null"], "LMNoAnswerError"),
    ],
)
def test_a_response_without_an_answer_is_none(run: Any, body: dict[str, Any], detail: str) -> None:
    with Saying([body], for_ever=True) as server:
        done = run("doctor", "--lm", "openai/x", "--api-base", server.address, "--json")
    assert done.code == 1
    ok, said = told(done)["call"]
    assert not ok
    assert detail in said
