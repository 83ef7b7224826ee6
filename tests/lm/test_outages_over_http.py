"""Outages of a real server: what the client reads of them, on this machine."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import pytest

from fake_openai import FakeOpenAI
from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models import Turn, TurnDecision
from jazzmine_dspy.program import outages
from jazzmine_dspy.program.policy import Policy
from provider_server import Fault

KEY = "sk-live-4f1cab93d7"
STYLES = pytest.mark.parametrize("style", ["sync", "async"])


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []

    async def asleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(outages, "SERVING", replace(outages.SERVING, sleep=pauses.append, asleep=asleep))
    return pauses


@pytest.fixture
def served(no_proxy: None, request: pytest.FixtureRequest) -> Iterator[FakeOpenAI]:
    faults = request.param
    with FakeOpenAI(key=KEY, flavour="vllm", faults=faults) as server:
        yield server


def program_of(server: FakeOpenAI, **settings: Any) -> TurnProgram:
    flows = FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}])
    lm = resolve_lm("openai/some-model", api_base=server.address, api_key=KEY, **settings)
    return TurnProgram(flows, policy=Policy(shape="fused")).with_policy("lm").bind(lm=lm)


def decide(
    program: TurnProgram, style: str, text: str = "where is my zebra?", **options: Any
) -> TurnDecision:
    if style == "sync":
        return program.decide(Turn(text=text), **options)
    return asyncio.run(program.adecide(Turn(text=text), **options))


@pytest.mark.row("L3", "U15")
@STYLES
@pytest.mark.parametrize(
    ("served", "hint"),
    [
        ([Fault("rate_limit"), Fault("rate_limit")], None),
        ([Fault("rate_limit", retry_after="2")], 2.0),
        ([Fault("server_error"), Fault("html"), Fault("close")], None),
    ],
    indirect=["served"],
    ids=["429", "429 with Retry-After", "500, 502 and a connection that closes"],
)
def test_a_server_that_fails_at_first_is_asked_again(
    served: FakeOpenAI, slept: list[float], style: str, hint: float | None
) -> None:
    decision = decide(program_of(served), style)
    assert decision.stages["enhance"].source == "lm"
    assert len(served.calls) == len(slept) + 1 == len(served.faults) + 1  # type: ignore[arg-type]
    assert slept[0] >= (hint or 0.1)


@pytest.mark.row("L3", "U15", "G4")
@STYLES
@pytest.mark.parametrize(
    "served", [Fault("server_error", said=f"{KEY} zebra Bearer")], indirect=True, ids=["500 for ever"]
)
@pytest.mark.parametrize("way", ["DSPy's own client", "LiteLLM"])
def test_a_server_that_always_fails_is_left_alone(
    served: FakeOpenAI, slept: list[float], style: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    # DSPy asks through LiteLLM where headers are set; neither it nor the client below makes a call again.
    settings = {} if way == "DSPy's own client" else {"extra_headers": {"x-tenant": "acme"}}
    program = program_of(served, **settings)
    first, second = decide(program, style), decide(program, style)
    assert len(served.calls) == outages.FAILURES
    assert len(slept) == outages.FAILURES - 1
    causes = f"{first.stages['enhance'].cause} {second.stages['enhance'].cause}"
    assert "LMServerError, HTTP 500: the provider failed; try again later" in causes
    assert "LMPausedError" in causes
    kept = causes + json.dumps([first.model_dump(mode="json")["stages"]]) + caplog.text
    assert not [told for told in (KEY, "zebra", "Bearer", "acme", "x-tenant", "127.0.0.1") if told in kept]


@pytest.mark.row("L3", "P4", "U15")
@STYLES
@pytest.mark.parametrize(
    "served", [Fault("stall"), Fault("endless")], indirect=True, ids=["stalls", "never ends"]
)
def test_a_server_that_never_ends_costs_no_more_than_the_deadline(served: FakeOpenAI, style: str) -> None:
    program = program_of(served)
    for _ in range(outages.FAILURES):
        decision = decide(program, style, deadline=0.05)
        assert "the deadline of the turn has passed" in str(decision.stages["enhance"].cause)
    # From now on it takes no time at all.
    assert "LMPausedError" in str(decide(program, style).stages["enhance"].cause)
    served.stopped.set()


@pytest.mark.row("P4")
@STYLES
def test_what_the_first_call_imports_takes_nothing_of_the_deadline(
    no_proxy: None, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    from jazzmine_dspy.program.lm import calls

    clock, imported = [100.0], []

    def imports(lm: Any) -> None:
        imported.append(lm)
        clock[0] += 60.0

    with FakeOpenAI(key=KEY, flavour="vllm") as server:
        program = program_of(server).bind(clock=lambda: clock[0])
        monkeypatch.setattr(calls, "READY", WeakSet())
        monkeypatch.setattr(calls, "make_ready", imports)
        assert decide(program, style).stages["enhance"].source == "lm"
    assert imported


@pytest.mark.row("A7")
@STYLES
def test_two_hundred_conversations_at_once_get_their_own_answers(no_proxy: None, style: str) -> None:
    """Half of the calls are refused at first, so that retries of many are under way at a time."""
    turns = [Turn(text=f"where is parcel number {number}?") for number in range(200)]
    with FakeOpenAI(key=KEY, flavour="vllm", faults=_every_other()) as server:
        program = program_of(server)
        quick = outages.SERVING.__class__(limit_s=30.0, first_s=0.001, longest_s=0.01)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(outages, "SERVING", quick)
            patch.setattr(outages, "FAILURES", 10**6)
            if style == "sync":
                decided = program.decide_many(turns, workers=200, deadline=None)
            else:
                decided = asyncio.run(program.adecide_many(turns, workers=200, deadline=None))
    for turn, decision in zip(turns, decided, strict=True):
        assert decision.stages["enhance"].source == "lm"
        # The answer to another conversation names another number, and is refused.
        assert (decision.enhancement.enhanced_query, decision.stages["enhance"].cause) == (turn.text, None)
        assert decision.stages["enhance"].calls[-1].success
    assert len(server.calls) > 250


def _every_other() -> Any:
    lock, seen = threading.Lock(), [0]

    def fault(_: int) -> Fault | None:
        with lock:
            seen[0] += 1
            return Fault("rate_limit") if seen[0] % 2 else None

    return fault
