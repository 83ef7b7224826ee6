"""A refused request degrades the turn: its cause names the parameter or the content filter, and no text of others."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import pytest

from fake_openai import FakeOpenAI
from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models.turn import Turn
from provider_server import Fault

KEY = "sk-live-4f1cab93d7"
TEXT = "where is my zebra parcel"
MESSAGE = f"Bearer {KEY} wrote {TEXT}"
PROVIDERS: dict[str, tuple[str, Any, dict[str, str]]] = {
    "openai": ("openai/some-model", "openai", {}),
    "vllm": ("hosted_vllm/mine", "vllm", {}),
    # DSPy asks it through LiteLLM.
    "azure": ("azure/my-deployment", "azure", {"api_version": "2024-10-21"}),
}
FILTERED = {
    "error": {
        "message": f"The response was filtered: {MESSAGE}", "type": None, "param": "prompt", "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"hate": {"filtered": True, "severity": "high"}, "text": MESSAGE},
        },
    }
}  # fmt: skip


def refused(**named: Any) -> dict[str, Any]:
    return {
        "error": {"message": MESSAGE, "type": "invalid_request_error", "param": None, "code": None, **named}
    }


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.mark.row("L1", "G4", "E7")
@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            refused(param="temperature", code="unsupported_parameter"),
            "the provider refuses this request; check the model's settings "
            "(unsupported_parameter, parameter temperature)",
        ),
        (
            refused(param="messages[1].content"),
            "the provider refuses this request; check the model's settings (parameter messages[1].content)",
        ),
        (
            refused(param=MESSAGE, code=KEY, type=TEXT),
            "the provider refuses this request; check the model's settings",
        ),
        (FILTERED, "the provider's content filter refuses the request (content_filter)"),
    ],
)
def test_a_cause_names_what_was_refused(
    body: dict[str, Any], told: str, provider: str, style: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, flavour, settings = PROVIDERS[provider]
    flows = FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}])
    with (
        FakeOpenAI(flavour=flavour, faults=Fault("bad_request", body=body)) as server,
        caplog.at_level(logging.DEBUG, "jazzmine_dspy"),
    ):
        lm = resolve_lm(name, api_base=server.address, api_key=KEY, num_retries=0, **settings)
        program, turn = TurnProgram(flows).bind(lm=lm).with_policy("lm"), Turn(text=TEXT)
        decision = program.decide(turn) if style == "sync" else asyncio.run(program.adecide(turn))
    record = decision.stages["understand"]
    assert record.degraded
    assert record.cause == f"lm: LMInvalidRequestError, HTTP 400: {told}"
    assert [call.error for call in record.calls if call.error] in ([], [record.cause.removeprefix("lm: ")])
    records = "".join(
        str(each.cause) + str([c.error for c in each.calls]) for each in decision.stages.values()
    )
    for secret in (KEY, "zebra", "Bearer"):
        assert secret not in records + caplog.text
