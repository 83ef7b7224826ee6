"""Outages of the language model: what is asked again, when it ends, and who is left alone."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import circuitbreaker
import dspy
import pytest

from jazzmine_dspy.lm.engines import AsyncEngine, ScriptedEngine
from jazzmine_dspy.models import Turn, TurnDecision
from jazzmine_dspy.models.errors import LMUnansweredError
from jazzmine_dspy.program import outages
from jazzmine_dspy.program.deadline import MEASURING, Bearing, bearing_outages
from jazzmine_dspy.program.outages import FAILURES, REST_S
from jazzmine_dspy.program.turn import TurnProgram
from slept_time import Time

Make = Callable[..., Any]
TURN = Turn(text="where is my order?")
GOOD = {
    "enhanced_query": "Where is my order?", "sentiment_score": 0.0, "intent": "track_order", "entities": [],
    "is_cancellation": False, "is_continuation": True, "flows": ["A"], "commands": [],
}  # fmt: skip
BUSY = dspy.LMRateLimitError("429", status=429)
DOWN = dspy.LMServerError("503", status=503)
GONE = dspy.LMTransportError("connection reset")
STYLES = pytest.mark.parametrize("style", ["sync", "async"])


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    patience = replace(outages.SERVING, sleep=time.sleep, asleep=time.asleep)
    monkeypatch.setattr(outages, "SERVING", patience)
    monkeypatch.setattr(circuitbreaker, "monotonic", time.clock)
    monkeypatch.setattr(outages, "monotonic", time.clock)
    return time


def answering(said: Sequence[Any], *, retries: int = 2, cache: bool = False) -> Any:
    """A model that says one after another, the last for ever; its engine counts the calls."""
    left = list(said)

    def script(_: Any) -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer if isinstance(answer, BaseException) else json.dumps(answer)

    engine = ScriptedEngine(script)
    return dspy.LM(
        "scripted/x", engine=engine, async_engine=AsyncEngine(engine), cache=cache, num_retries=retries,
        temperature=0.0,
    )  # fmt: skip


def decide(program: TurnProgram, style: str, **options: Any) -> TurnDecision:
    if style == "sync":
        return program.decide(TURN, **options)
    return asyncio.run(program.adecide(TURN, **options))


@pytest.mark.row("L3")
def test_a_model_with_a_long_timeout_gets_its_time() -> None:
    quick, slow = (dspy.LM("openai/x", api_key="x", timeout=seconds) for seconds in (30, 86400))
    limit = MEASURING.attempt_s
    with bearing_outages():
        asked = [
            outages.Asking(lm, outages.monotonic, None).seconds() for lm in (answering([GOOD]), quick, slow)
        ]
    assert asked == [limit, limit, 86400]


@pytest.mark.row("L3", "U15")
@STYLES
def test_a_call_is_made_again_until_it_is_answered(time: Time, make_program: Make, style: str) -> None:
    lm = answering([BUSY, DOWN, GONE, dspy.LMTimeoutError("slow"), GOOD])
    decision = decide(make_program(lm, "fused").bind(clock=time.clock), style)
    assert not decision.degraded
    assert decision.selection.flows == ["track_order"]
    calls = decision.stages["enhance"].calls
    assert [call.success for call in calls] == [False] * 4 + [True]
    # Each pause may be twice as long as the one before, half of it by chance.
    assert all(0.1 * 2**n <= pause <= 0.2 * 2**n for n, pause in enumerate(time.slept))
    assert len(time.slept) == 4


@pytest.mark.row("L3")
@STYLES
def test_a_server_that_names_a_time_is_asked_no_sooner(time: Time, make_program: Make, style: str) -> None:
    lm = answering([dspy.LMRateLimitError("429", status=429, retry_after=3.0), GOOD])
    assert not decide(make_program(lm, "fused").bind(clock=time.clock), style).degraded
    assert 3.0 <= time.slept[0] < 4.0


@pytest.mark.row("L3", "P4")
@STYLES
def test_one_deadline_holds_for_all_attempts(time: Time, make_program: Make, style: str) -> None:
    lm = answering([dspy.LMRateLimitError("429", status=429, retry_after=4.0)])
    began = time.now
    decision = decide(make_program(lm, "staged").bind(clock=time.clock), style)
    assert 8.0 <= time.now - began < 10.0
    assert len(time.slept) == 2
    assert "LMRateLimitError, HTTP 429" in str(decision.stages["enhance"].cause)
    # What a pause would go beyond is not waited for.
    late = answering([dspy.LMRateLimitError("429", status=429, retry_after=11.0), GOOD])
    slept = len(time.slept)
    assert decide(make_program(late, "fused").bind(clock=time.clock), style).degraded
    assert (late.engine.calls, len(time.slept)) == (1, slept)


@pytest.mark.row("L3")
@STYLES
@pytest.mark.parametrize(
    "error", [dspy.LMAuthError("401"), dspy.LMInvalidRequestError("400"), dspy.LMBillingError("429")]
)
def test_a_refusal_is_an_answer(time: Time, make_program: Make, style: str, error: Exception) -> None:
    lm = answering([error])
    program = make_program(lm, "fused").bind(clock=time.clock)
    for number in range(FAILURES + 2):
        assert decide(program, style).degraded
        assert lm.engine.calls == number + 1
    assert time.slept == []


@pytest.mark.row("L3")
@STYLES
def test_who_asks_for_no_retries_is_asked_once(time: Time, make_program: Make, style: str) -> None:
    lm = answering([DOWN], retries=0)
    assert decide(make_program(lm, "fused").bind(clock=time.clock), style).degraded
    assert lm.engine.calls == 1


@pytest.mark.row("L3")
def test_retries_of_dspys_own_do_not_multiply(time: Time, make_program: Make) -> None:
    lm = answering([DOWN], retries=3)
    make_program(lm, "fused").bind(clock=time.clock).decide(TURN)
    assert lm.engine.calls == len(time.slept) + 1
    # Its history is where DSPy's users look for it.
    lm = answering([GOOD], retries=3)
    make_program(lm, "fused").bind(clock=time.clock).decide(TURN)
    assert len(lm.history) == 1


@pytest.mark.row("L3", "U15")
@STYLES
def test_a_model_that_is_down_is_left_alone_for_a_while(time: Time, make_program: Make, style: str) -> None:
    lm = answering([DOWN], retries=2)
    program = make_program(lm, "fused").bind(clock=time.clock)
    decide(program, style, deadline=20.0)
    assert lm.engine.calls == FAILURES
    decision = decide(program, style)
    assert lm.engine.calls == FAILURES
    assert "LMPausedError: The language model failed 5 times in a row" in str(
        decision.stages["enhance"].cause
    )
    time.now += REST_S + 1
    # One call tries it; it fails, and the rest begins anew.
    decide(program, style)
    assert lm.engine.calls == FAILURES + 1
    time.now += REST_S + 1
    lm.engine.answers = lambda _: json.dumps(GOOD)
    assert not decide(program, style).degraded
    assert not decide(program, style).degraded


@pytest.mark.row("L3", "U15")
def test_while_one_call_tries_a_model_the_others_do_not(time: Time, make_program: Make) -> None:
    lm = answering([DOWN])
    program = make_program(lm, "fused").bind(clock=time.clock)
    program.decide(TURN, deadline=20.0)
    time.now += REST_S + 1
    within: list[TurnDecision] = []

    def script(_: Any) -> str:
        # Another call, which sees nothing of this one's settings.
        within.append(contextvars.Context().run(program.decide, TURN))
        return json.dumps(GOOD)

    lm.engine.answers = script
    assert not program.decide(TURN).degraded
    assert "LMPausedError" in str(within[0].stages["enhance"].cause)
    lm.engine.answers = lambda _: json.dumps(GOOD)
    assert not program.decide(TURN).degraded


@pytest.mark.row("L3", "V6")
@STYLES
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_who_measures_waits_for_minutes_and_gets_no_fallbacks_answer(
    time: Time, make_program: Make, style: str, shape: str
) -> None:
    patience = replace(MEASURING, sleep=time.sleep, asleep=time.asleep)
    lm = answering([DOWN])
    program = make_program(lm, shape).bind(clock=time.clock)
    began = time.now
    with bearing_outages(Bearing(patience)):
        with pytest.raises(LMUnansweredError, match="did not answer: LMServerError, HTTP 503"):
            decide(program, style)
        assert 60 < time.now - began <= MEASURING.limit_s
        # It was given its minutes; while it answers nobody, the next turn does not wait for them again.
        asked = lm.engine.calls
        with pytest.raises(LMUnansweredError):
            decide(program, style)
        assert lm.engine.calls <= asked + 2
        lm.engine.answers = lambda _: json.dumps(GOOD)
        assert not decide(program, style).degraded


@pytest.mark.row("L3")
def test_a_rate_limit_is_borne_while_others_are_answered(time: Time, make_program: Make) -> None:
    refusals = 40

    def script(request: Any) -> Any:
        if "zebra" in str(request.messages):
            return json.dumps(GOOD)
        # Somebody else is answered between two refusals.
        program.decide(text="where is my zebra?")
        nonlocal refusals
        refusals -= 1
        return BUSY if refusals else json.dumps(GOOD)

    lm = answering([GOOD])
    lm.engine.answers = script
    program = make_program(lm, "fused").bind(clock=time.clock)
    began = time.now
    with bearing_outages(Bearing(replace(MEASURING, sleep=time.sleep))):
        assert not program.decide(TURN).degraded
    assert time.now - began > 2 * MEASURING.limit_s


@pytest.mark.row("L3")
def test_nothing_is_asked_again_once_the_time_is_over(time: Time, make_program: Make) -> None:
    lm = answering([DOWN])
    with (
        bearing_outages(Bearing(replace(MEASURING, sleep=time.sleep, ended=lambda: True))),
        pytest.raises(LMUnansweredError),
    ):
        make_program(lm, "fused").bind(clock=time.clock).decide(TURN)
    assert lm.engine.calls == 1


@pytest.fixture
def cached() -> Iterator[None]:
    dspy.configure_cache(enable_disk_cache=False)
    yield
    dspy.configure_cache(enable_disk_cache=False)


@pytest.mark.row("L3")
def test_an_outage_is_never_cached(time: Time, make_program: Make, cached: None) -> None:
    lm = answering([DOWN, GOOD], retries=0, cache=True)
    program = make_program(lm, "fused").bind(clock=time.clock)
    assert [program.decide(TURN).degraded for _ in range(3)] == [True, False, False]
    assert lm.engine.calls == 2


@pytest.mark.row("L3")
@STYLES
def test_what_is_set_on_a_model_later_holds_for_the_next_call(make_program: Make, style: str) -> None:
    lm = answering([GOOD])
    program = make_program(lm, "fused")
    decide(program, style)
    lm.kwargs["temperature"] = 0.5
    decide(program, style)
    assert [request.config.temperature for request in lm.engine.requests] == [0.0, 0.5]
    assert len(lm.history) == 2
