"""E7: whatever fails, the turn is answered with safe defaults that say so. Cancellation goes through."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from jazzmine_dspy.models import FlowRegistry, Message, Turn, TurnDecision
from jazzmine_dspy.models.decision import Enhancement, Recalled
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.runtime import Runtime

Make = Callable[..., Any]
TURN = Turn(text="And the other one?", history=[{"role": "user", "text": "Where is order 4471?"}])
SAFE = Enhancement(
    enhanced_query="And the other one?", sentiment_score=0.0, intent="unknown", entities=[], is_cancellation=False,
    is_continuation=True,
)  # fmt: skip
FAILURES: dict[str, tuple[Any, str]] = {
    "no JSON": ("I am sorry.", "EnhancementError: The answer has no JSON object"),
    "truncated": ('{"enhanced_query": "Where is', "EnhancementError: The answer breaks off"),
    "a key missing": ('{"enhanced_query": "Where?"}', "EnhancementError: The answer does not fit"),
    "nothing": ("", "LMNoAnswerError"),
    "timeout": (dspy.LMTimeoutError("no answer within 30 s"), "LMTimeoutError"),
    "connection": (dspy.LMTransportError("connection refused"), "LMTransportError"),
    "rate limit": (dspy.LMRateLimitError("429"), "LMRateLimitError"),
    "an error of its own": (RuntimeError("the weights are gone"), "LMUnexpectedError, from RuntimeError"),
    "a timeout of Python's": (TimeoutError("socket"), "from TimeoutError: no answer in time"),
}
STYLES = pytest.mark.parametrize("style", ["sync", "async"])
SHAPES = pytest.mark.parametrize("shape", ["staged", "fused"])


def decide(program: TurnProgram, style: str, turn: Turn = TURN, **options: Any) -> TurnDecision:
    if style == "sync":
        return program.decide(turn, **options)
    return asyncio.run(program.adecide(turn, **options))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        r.getMessage() for r in caplog.records if r.name == "jazzmine_dspy" and r.levelno >= logging.WARNING
    ]


@pytest.mark.row("E7")
@STYLES
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_enhancement_gives_safe_defaults(
    speak: Make, make_program: Make, caplog: pytest.LogCaptureFixture, style: str, failure: str
) -> None:
    answer, cause = FAILURES[failure]
    lm = speak(enhance=answer, select={"flows": ["A"]})
    decision = decide(make_program(lm), style)
    assert decision.enhancement == SAFE
    record = decision.stages["enhance"]
    assert (record.source, record.degraded, decision.degraded) == ("fallback", True, True)
    assert cause in str(record.cause)
    # The other stages are not drawn into it.
    assert decision.selection.flows == ["track_order"]
    assert not decision.stages["select"].degraded
    assert len(warnings(caplog)) == 1
    assert cause in warnings(caplog)[0]


@pytest.mark.row("E7")
@STYLES
@SHAPES
@pytest.mark.parametrize("failure", FAILURES)
def test_a_model_that_is_down_degrades_every_stage_and_warns_once(
    speak: Make, make_program: Make, caplog: pytest.LogCaptureFixture, style: str, shape: str, failure: str
) -> None:
    answer, _ = FAILURES[failure]
    lm = speak(again=True, enhance=answer, select=answer, understand=answer, fused=answer)
    decision = decide(make_program(lm, shape), style)
    assert decision.enhancement == SAFE
    assert {stage: (r.source, r.degraded) for stage, r in decision.stages.items()} == dict.fromkeys(
        ("enhance", "select", "understand"), ("fallback", True)
    )
    assert all(record.cause for record in decision.stages.values())
    assert len(warnings(caplog)) == 1
    # An answer that cannot be read is asked for once more.
    unreadable = failure in ("no JSON", "truncated", "a key missing")
    assert lm.engine.calls == (1 if shape == "fused" else 3) + unreadable


class GoneHead:
    """A head whose file is gone."""

    fingerprint = "gone"

    def __deepcopy__(self, memo: dict[int, Any]) -> GoneHead:
        return self

    def texts(self, message: str) -> tuple[str, ...]:
        return ()

    def predict(self, given: Any) -> Any:
        raise OSError("/srv/heads is gone")


@pytest.mark.row("E7")
@STYLES
def test_a_part_that_fails_in_its_own_way_degrades_its_stage(
    speak: Make, make_program: Make, style: str
) -> None:
    program = make_program(speak()).with_policy("local").bind(heads={"understand": GoneHead()})
    decision = decide(program, style)
    record = decision.stages["understand"]
    assert (record.source, record.degraded, record.cause) == ("fallback", True, "local: OSError")
    assert not decision.stages["select"].degraded
    assert decision.selection.flows == ["track_order"]


@pytest.mark.row("E7")
def test_nothing_is_logged_where_nothing_fails(
    speak: Make, make_program: Make, caplog: pytest.LogCaptureFixture
) -> None:
    assert not decide(make_program(speak()), "sync").degraded
    assert warnings(caplog) == []


@pytest.mark.row("E7")
def test_a_failed_call_is_paid_for_all_the_same(speak: Make, make_program: Make) -> None:
    broken = speak(again=True, fused="no JSON here at all")
    usage = make_program(broken, "fused").decide(TURN).usage
    assert (usage.lm_calls, usage.completion_tokens) == (2, 10)
    assert usage.prompt_tokens > 20
    down = speak(fused=dspy.LMTransportError("refused"))
    assert make_program(down, "fused").decide(TURN).usage.lm_calls == 1


@pytest.mark.row("E7")
@STYLES
@SHAPES
def test_the_own_deadline_leaves_the_rest_to_the_fallback(
    speak: Make, make_program: Make, caplog: pytest.LogCaptureFixture, style: str, shape: str
) -> None:
    now = [0.0]

    def slow(request: Any) -> Any:
        now[0] += 100.0
        return '{"enhanced_query": "late"}'

    lm = speak(enhance=slow, fused=slow)
    program = make_program(lm, shape).bind(clock=lambda: now[0])
    decision = decide(program, style, deadline=5.0)
    assert decision.enhancement == SAFE
    assert lm.engine.calls == 1
    if shape == "staged":
        for stage in ("select", "understand"):
            assert decision.stages[stage].degraded
            assert "deadline" in str(decision.stages[stage].cause)
    assert len(warnings(caplog)) == 1
    assert not decide(make_program(speak()), style, deadline=60.0).degraded


@pytest.mark.row("E7")
def test_a_call_that_hangs_is_left_at_the_deadline(speak: Make, make_program: Make) -> None:
    released = threading.Event()

    def hang(request: Any) -> str:
        released.wait(60)
        return "too late"

    lm = speak(fused=hang)
    try:
        decision = make_program(lm, "fused").decide(TURN, deadline=0.05)
    finally:
        released.set()
    assert decision.enhancement == SAFE
    assert "the deadline of the turn has passed" in str(decision.stages["enhance"].cause)


class HangingEngine:
    """Asynchronous, over a scripted one: the prompts named are never answered."""

    def __init__(self, engine: Any, asked_of: Make, *prompts: str) -> None:
        self.engine = engine
        self.asked_of = asked_of
        self.waiting = {prompt: asyncio.Event() for prompt in prompts}
        self.cancelled: list[str] = []

    async def complete(self, request: Any) -> Any:
        prompt = self.asked_of(request)
        if prompt not in self.waiting:
            return self.engine.complete(request)
        self.waiting[prompt].set()
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(prompt)
            raise

    def __deepcopy__(self, memo: dict[int, Any]) -> HangingEngine:
        return self


def hanging(engine: HangingEngine) -> dspy.LM:
    return dspy.LM("scripted/hangs", engine=engine.engine, async_engine=engine, cache=False, num_retries=0)


@pytest.mark.row("E7")
async def test_a_hanging_call_does_not_outlive_the_deadline(
    speak: Make, make_program: Make, asked_of: Make
) -> None:
    engine = HangingEngine(speak().engine, asked_of, "fused")
    decision = await make_program(hanging(engine), "fused").adecide(TURN, deadline=0.3)
    assert decision.enhancement == SAFE
    assert "the deadline of the turn has passed" in str(decision.stages["enhance"].cause)
    assert engine.cancelled == ["fused"]


@pytest.mark.row("E7")
@pytest.mark.parametrize("deadline", [None, 60.0])
@pytest.mark.parametrize("prompt", ["fused", "enhance", "select", "understand"])
async def test_cancellation_from_outside_goes_through(
    speak: Make, make_program: Make, asked_of: Make, caplog: pytest.LogCaptureFixture, prompt: str,
    deadline: float | None,
) -> None:  # fmt: skip
    engine = HangingEngine(speak().engine, asked_of, prompt)
    turn = TURN.model_copy(update={"flow": "track_order"})
    program = make_program(hanging(engine), "fused" if prompt == "fused" else "staged")
    task = asyncio.create_task(program.adecide(turn, deadline=deadline))
    await engine.waiting[prompt].wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.cancelled == [prompt]
    assert warnings(caplog) == []


@pytest.mark.row("E7")
@STYLES
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_goes_through(
    speak: Make, make_program: Make, style: str, stop: type[BaseException]
) -> None:
    program = make_program(speak(enhance=stop()))
    with pytest.raises(stop):
        decide(program, style)


@pytest.mark.row("E7")
@pytest.mark.parametrize("failure", ["truncated", "connection"])
async def test_the_message_is_stored_all_the_same(speak: Make, make_program: Make, failure: str) -> None:
    answer, cause = FAILURES[failure]
    program = make_program(speak(enhance=answer))
    runtime = Runtime(program, agent_id="shop")
    await runtime.process(conversation_id="c", user_id="u", text="Where is it?", message_id="m1")
    stored: Message | None = await runtime.messages.get_message("m1")
    assert stored is not None
    assert (stored.original_content, stored.enhanced_message) == ("Where is it?", "Where is it?")
    assert (stored.sentiment_score, stored.intent, stored.entities) == (0.0, "unknown", [])
    assert (stored.is_cancellation, stored.is_continuation) == (False, True)
    assert cause in str(stored.errors)
    assert stored.decision is not None
    assert stored.decision["degraded"] is True


@STYLES
def test_recall_that_is_down_degrades_the_selection(
    speak: Make,
    make_program: Make,
    overlap: Make,
    registry: Any,
    caplog: pytest.LogCaptureFixture,
    style: str,
) -> None:
    lm = speak(select={"flows": ["A"]})
    decision = decide(make_program(lm, recall=overlap(registry, down="the index is gone")), style)
    # A small registry is offered whole instead.
    assert decision.selection.flows == ["track_order"]
    assert {stage: record.degraded for stage, record in decision.stages.items()} == {
        "enhance": False, "select": True, "understand": False,
    }  # fmt: skip
    assert "the index is gone" in str(decision.stages["select"].cause)
    assert len(warnings(caplog)) == 1


def test_no_model_at_all_is_an_outage_and_no_exception(make_program: Make) -> None:
    decision = make_program(None, "fused").decide(text="where is my order")
    assert decision.degraded
    assert "No language model" in str(decision.stages["select"].cause)
    assert decision.selection.flows == ["track_order"]


@STYLES
def test_a_timeout_of_a_part_is_not_called_the_own_deadline(
    speak: Make, make_program: Make, overlap: Make, registry: Any, style: str
) -> None:
    class Slow(overlap):  # type: ignore[misc]
        def recall(self, query: str, **options: Any) -> Any:
            raise TimeoutError("the index took too long")

    decision = decide(make_program(speak(), recall=Slow(registry)), style, deadline=60.0)
    assert decision.stages["select"].cause == "recall: TimeoutError: no answer in time"


def test_what_a_refused_command_names_is_in_no_record(
    speak: Make, make_program: Make, enhanced: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    said = [{"type": "set_slot", "name": "my pin 9876", "value": "x"}]
    lm = speak(fused={**enhanced, "flows": [], "commands": said})
    record = decide(make_program(lm, "fused"), "sync").stages["understand"]
    assert record.cause == "lm: commands that do not fit the state: set_slot"
    assert "9876" not in "".join(warnings(caplog))


class Recalls:
    """An index of another package, whose answer is none."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def recall(self, query: str, **options: Any) -> Any:
        return self.answer


@pytest.mark.row("E7", "F12")
@STYLES
@pytest.mark.parametrize(
    "answer",
    [None, 7, ["track_order"], [("track_order", 0.9)], [Recalled("track_order", "high")]],  # type: ignore[arg-type]
)
def test_an_index_that_answers_nonsense_degrades_the_turn_and_no_more(
    registry: FlowRegistry, style: str, answer: Any
) -> None:
    program = TurnProgram(registry).with_policy("fallback").bind(recall=Recalls(answer))
    decision = decide(program, style, Turn(text="where is my order"))
    assert "recall: " in str(decision.stages["select"].cause)
    assert decision.selection.flows == []


@pytest.mark.row("F12")
@STYLES
def test_a_score_that_is_no_number_is_above_no_threshold(registry: FlowRegistry, style: str) -> None:
    found = [Recalled("track_order", math.nan), Recalled("cancel_order", 0.1)]
    program = TurnProgram(registry).with_policy("fallback").bind(recall=Recalls(found))
    decision = decide(program, style, Turn(text="where is my order"))
    assert (decision.selection.flows, decision.selection.candidates) == ([], [("cancel_order", 0.1)])
