"""M4: every call of a language model is on the stage that made it, whatever came of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from jazzmine_dspy.lm.engines import AsyncEngine
from jazzmine_dspy.models import LMCall, Turn, TurnDecision
from jazzmine_dspy.models.decision import Usage
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.adapter import DecisionAdapter

Make = Callable[..., Any]
TURN = Turn(text="And the other one?", history=[{"role": "user", "text": "Where is order 4471?"}])
BUSY = TURN.model_copy(update={"flow": "change_shipping"})
STYLES = pytest.mark.parametrize("style", ["sync", "async"])
DEADLINE = "DeadlineError: the deadline of the turn has passed."
UNREACHABLE = "LMTransportError: the provider cannot be reached; check the address and the network"


def decide(program: TurnProgram, style: str, turn: Turn = TURN, **options: Any) -> TurnDecision:
    if style == "sync":
        return program.decide(turn, **options)
    return asyncio.run(program.adecide(turn, **options))


def made(decision: TurnDecision) -> dict[str, list[tuple[str, bool]]]:
    return {
        stage: [(call.predictor, call.success) for call in record.calls]
        for stage, record in decision.stages.items()
    }


def adds_up(decision: TurnDecision) -> None:
    for record in decision.stages.values():
        assert record.usage == Usage.of(record.calls)
    assert decision.usage == Usage.of(decision.calls)
    assert all(call.success is (call.error is None) for call in decision.calls)


@pytest.fixture
def ticking() -> Callable[[], float]:
    """A clock that stands still but for the calls that tell it to go on: seconds."""

    class Clock:
        now = 100.0

        def __call__(self) -> float:
            return self.now

    return Clock()


@pytest.mark.row("M4")
@STYLES
def test_each_stage_of_the_staged_shape_has_its_calls(
    speak: Make, make_program: Make, ticking: Any, style: str
) -> None:
    def slow(seconds: float, answer: Any) -> Make:
        def speaking(request: Any) -> Any:
            ticking.now += seconds
            return answer

        return speaking

    enhanced = '{"enhanced_query":"Where?","sentiment_score":0,"intent":"x","entities":[],"is_cancellation":false,"is_continuation":true}'  # noqa: E501
    lm = speak(
        enhance=slow(1.0, enhanced), select=slow(2.0, '{"flows":[]}'), understand=slow(0.5, '{"commands":[]}')
    )
    program = make_program(lm).bind(clock=ticking)
    decision = decide(program, style)
    assert made(decision) == {stage: [(stage, True)] for stage in ("enhance", "select", "understand")}
    calls = decision.calls
    assert [(call.started_ms, call.latency_ms) for call in calls] == [(0, 1000), (1000, 2000), (3000, 500)]
    assert {call.model for call in calls} == {"scripted/x"}
    assert [call.completion_tokens for call in calls] == [1, 1, 1]
    assert all(call.prompt_tokens > 20 for call in calls)
    assert len({call.prompt_tokens for call in calls}) > 1
    adds_up(decision)


@pytest.mark.row("M4")
@STYLES
def test_each_stage_asks_once_also_where_a_flow_starts_while_another_runs(
    speak: Make, make_program: Make, style: str
) -> None:
    lm = speak(select={"flows": ["A"]})
    decision = decide(make_program(lm), style, BUSY)
    assert made(decision)["understand"] == [("understand", True)]
    assert decision.usage.lm_calls == lm.engine.calls == len(decision.calls) == 3
    first, second, third = decision.calls
    assert first.started_ms < second.started_ms < third.started_ms
    assert third.prompt_tokens > 20
    adds_up(decision)


@pytest.mark.row("M4")
@STYLES
def test_an_answer_that_cannot_be_read_was_a_call_too(speak: Make, make_program: Make, style: str) -> None:
    lm = speak(select={"flows": ["A"]}, understand="no JSON here at all")
    decision = decide(make_program(lm), style, BUSY)
    (failed,) = decision.stages["understand"].calls
    assert not failed.success
    assert str(failed.error).startswith("UnderstandingError: The answer has no JSON object")
    assert failed.completion_tokens == 5
    assert failed.prompt_tokens > 20
    assert decision.stages["understand"].degraded
    adds_up(decision)


@pytest.mark.row("M4")
@STYLES
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_a_model_that_fails_leaves_a_call_for_each_time_it_was_asked(
    speak: Make, make_program: Make, style: str, shape: str
) -> None:
    down = dspy.LMTransportError("connection refused")
    lm = speak(enhance=down, select=down, understand=down, fused=down)
    decision = decide(make_program(lm, shape), style)
    stages = ("enhance", "select", "understand")
    expected = {stage: [(stage, False)] for stage in stages}
    if shape == "fused":
        expected = {"enhance": [("fused", False)], "select": [], "understand": []}
    assert made(decision) == expected
    assert len(decision.calls) == lm.engine.calls
    for call in decision.calls:
        assert str(call.error).startswith("LMTransportError: ")
        assert call.error == UNREACHABLE
        assert (call.prompt_tokens, call.completion_tokens) == (0, 0)
    adds_up(decision)


@pytest.mark.row("M4")
@STYLES
def test_what_is_said_once_for_all_stages_is_one_call(speak: Make, make_program: Make, style: str) -> None:
    decision = decide(make_program(speak(), "fused"), style)
    assert made(decision) == {"enhance": [("fused", True)], "select": [], "understand": []}
    adds_up(decision)
    broken = decide(make_program(speak(fused='{"flows": ['), "fused"), style)
    assert made(broken) == {"enhance": [("fused", False)], "select": [], "understand": []}
    assert broken.calls[0].completion_tokens == 2
    adds_up(broken)


class Hanging:
    """Answers the prompts that it is not to hang at; both kinds of engine in one."""

    def __init__(self, engine: Any, asked_of: Make, prompt: str) -> None:
        self.engine = engine
        self.asked_of = asked_of
        self.prompt = prompt
        self.released = threading.Event()

    def __deepcopy__(self, memo: dict[int, Any]) -> Hanging:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def complete(self, request: Any) -> Any:
        if self.asked_of(request) == self.prompt:
            self.released.wait(60)
        return self.engine.complete(request)


class AsyncHanging(AsyncEngine):
    async def complete(self, request: Any) -> Any:
        held: Any = self.engine
        if held.asked_of(request) == held.prompt:
            await asyncio.Event().wait()
        return held.engine.complete(request)


@pytest.mark.row("M4")
@STYLES
@pytest.mark.parametrize(("shape", "prompt"), [("fused", "fused"), ("staged", "select")])
def test_a_call_that_the_deadline_cut_off_is_there(
    speak: Make, make_program: Make, asked_of: Make, style: str, shape: str, prompt: str
) -> None:
    engine = Hanging(speak().engine, asked_of, prompt)
    hanging: Any = AsyncHanging(engine)  # type: ignore[arg-type]
    lm = dspy.LM("scripted/hangs", engine=engine, async_engine=hanging, cache=False, num_retries=0)
    program = make_program(lm, shape)
    try:
        decision = decide(program, style, deadline=1.5)
    finally:
        engine.released.set()
    cut = [call for call in decision.calls if not call.success]
    assert [(call.predictor, call.error, call.model) for call in cut] == [
        (prompt, DEADLINE, "scripted/hangs")
    ]
    assert 0 < cut[0].latency_ms <= 60_000
    assert cut[0].started_ms + cut[0].latency_ms >= 450
    # What was left undone by then was no call.
    expected = {"enhance": [("fused", False)], "select": [], "understand": []}
    if shape == "staged":
        expected = {"enhance": [("enhance", True)], "select": [("select", False)], "understand": []}
    assert made(decision) == expected
    adds_up(decision)


class AsksAgain(DecisionAdapter):
    """Of one's own: asks once more where an answer cannot be read."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        try:
            return super().__call__(*args, **options)
        except AdapterParseError:
            return super().__call__(*args, **options)


@pytest.mark.row("M4")
def test_a_call_that_is_repeated_is_two(speak: Make, make_program: Make, asked_of: Make) -> None:
    answers = iter(["this is no JSON", '{"commands": []}'])
    program = make_program(speak(understand=lambda request: next(answers)))
    with dspy.context(adapter=AsksAgain()):
        decision = program.decide(TURN)
    failed, again = decision.stages["understand"].calls
    assert str(failed.error).startswith("UnderstandingError: ")
    assert (failed.success, again.success, decision.degraded) == (False, True, False)
    assert (failed.completion_tokens, again.completion_tokens) == (4, 2)
    assert failed.prompt_tokens == again.prompt_tokens > 20
    assert failed.started_ms + failed.latency_ms <= again.started_ms
    adds_up(decision)


@pytest.mark.row("M4")
def test_a_repeated_call_that_hangs_is_cut_off_alone(speak: Make, make_program: Make, asked_of: Make) -> None:
    engine = Hanging(speak(fused="this is no JSON").engine, asked_of, "none at first")

    class Hangs(AsksAgain):
        def parse(self, signature: Any, completion: str) -> Any:
            engine.prompt = "fused"
            return super().parse(signature, completion)

    lm = dspy.LM("scripted/hangs", engine=engine, cache=False, num_retries=0)
    with dspy.context(adapter=Hangs()):
        try:
            decision = make_program(lm, "fused").decide(TURN, deadline=0.5)
        finally:
            engine.released.set()
    failed, cut = decision.stages["enhance"].calls
    assert "Error: The answer has no JSON object" in str(failed.error)
    assert (failed.completion_tokens, cut.completion_tokens, cut.error) == (4, 0, DEADLINE)
    adds_up(decision)


@pytest.mark.row("M4")
async def test_calls_at_once_are_told_apart(speak: Make, make_program: Make) -> None:
    lm = speak(understand='{"commands": [ ]}')
    program = make_program(lm)
    decisions = await asyncio.gather(*(program.adecide(BUSY) for _ in range(20)))
    for decision in decisions:
        assert decision.content() == decisions[0].content()
        assert [call.completion_tokens for call in decision.stages["select"].calls] == [2]
        assert [call.completion_tokens for call in decision.stages["understand"].calls] == [3]
        adds_up(decision)


@pytest.mark.row("M4")
def test_an_answer_of_dspys_cache_is_a_call_that_cost_nothing(speak: Make, make_program: Make) -> None:
    program = make_program(speak().copy(cache=True), "fused")
    unique = TURN.model_copy(update={"text": "And the one that nobody else asks about?"})
    with dspy.context(disable_history=True):
        first, again = program.decide(unique), program.decide(unique)
    assert [call.success for call in (*first.calls, *again.calls)] == [True, True]
    assert (again.calls[0].prompt_tokens, again.usage.lm_calls) == (0, 1)
    adds_up(again)


def test_callbacks_and_trackers_of_others_see_the_calls_as_before(speak: Make, make_program: Make) -> None:
    seen: list[str] = []

    class Watching(dspy.utils.callback.BaseCallback):  # type: ignore[misc]
        def on_lm_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
            seen.append(call_id)

    program = make_program(speak(), "fused")
    with dspy.context(callbacks=[Watching()]), dspy.track_usage() as tracker:
        decision = program.decide(TURN)
        assert len(dspy.settings.callbacks) == 1
    assert len(seen) == 1
    assert tracker.get_total_tokens()["scripted/x"]["prompt_tokens"] == decision.usage.prompt_tokens


def test_no_call_where_nothing_is_asked(make_program: Make, speak: Make) -> None:
    program = make_program(speak()).with_policy("fallback")
    assert program.decide(TURN).calls == ()
    # Without a model there is no one to ask.
    assert make_program(None, "fused").decide(TURN).calls == ()


def test_a_reason_with_half_a_surrogate_pair_can_be_stored(speak: Make, make_program: Make) -> None:
    program = make_program(speak(fused=InputError("read \ud800")), "fused")
    decision = program.decide(TURN)
    assert "read ?" in str(decision.calls[0].error)
    assert TurnDecision.model_validate_json(decision.model_dump_json()) == decision
    assert isinstance(decision.calls[0], LMCall)
