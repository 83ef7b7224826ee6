"""DSPy's streams: tokens first, the decision last, whichever way the program is streamed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.streaming import StreamListener, StreamResponse

from fake_openai import FakeOpenAI
from jazzmine_dspy.lm import resolve_lm
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
WAYS = pytest.mark.parametrize("way", ["sync", "sync generator", "async"])
SHAPES = pytest.mark.parametrize("shape", ["staged", "fused"])
REWRITE = "Where is order 4471?"


def streamed(program: dspy.Module, way: str, **options: Any) -> list[Any]:
    """All that a stream yields about one message."""
    given = {"text": "it is late, my order 4471, where is it"}
    if way == "sync generator":
        return list(dspy.streamify(program, async_streaming=False, **options)(**given))

    async def read() -> list[Any]:
        stream = dspy.streamify(program, is_async_program=way == "async", **options)
        return [item async for item in stream(**given)]

    return asyncio.run(read())


def decision_of(items: list[Any]) -> TurnDecision:
    assert isinstance(items[-1], dspy.Prediction)
    decision: TurnDecision = items[-1].decision
    return decision


def text_of(items: list[Any]) -> str:
    return "".join(item.choices[0].delta.content or "" for item in items[:-1])


@pytest.mark.row("P4")
@WAYS
@SHAPES
def test_tokens_come_first_and_the_decision_last(
    speak: Make, make_program: Make, way: str, shape: str
) -> None:
    lm = speak()
    program = make_program(lm, shape)
    plain = program.decide("it is late, my order 4471, where is it")
    items = streamed(program, way)
    decision = decision_of(items)
    assert decision.content() == plain.content()
    assert (decision.degraded, lm.engine.calls) == (False, 2 if shape == "fused" else 6)
    assert len(items) > 10
    assert f'"enhanced_query": "{REWRITE}"' in text_of(items)


@pytest.mark.row("P4")
@WAYS
@SHAPES
@pytest.mark.parametrize("adapter", [None, dspy.ChatAdapter, dspy.JSONAdapter])
@pytest.mark.filterwarnings("ignore:DSPy's adapter is")
def test_a_listener_hears_the_field_of_the_predictor_that_is_asked(
    speak: Make, make_program: Make, way: str, shape: str, adapter: Any
) -> None:
    program = make_program(speak(), shape)
    listener = StreamListener(signature_field_name="enhanced_query")
    with dspy.context(adapter=adapter and adapter()):
        items = streamed(program, way, stream_listeners=[listener])
    *heard, last = items
    assert decision_of(items).enhancement.enhanced_query == REWRITE
    assert not last.decision.degraded
    assert all(isinstance(one, StreamResponse) for one in heard)
    assert len(heard) > 2
    assert "".join(one.chunk for one in heard) == REWRITE
    assert {one.predict_name for one in heard} == {"enhance" if shape == "staged" else "fused"}
    assert [one.is_last_chunk for one in heard] == [False] * (len(heard) - 1) + [True]


@pytest.mark.row("P4")
def test_a_listener_of_a_field_that_no_predictor_has_fails_before_anything_is_asked(
    speak: Make, make_program: Make
) -> None:
    lm = speak()
    # DSPy means to say that it is not a field, and does not come to it; the guide names its message.
    with pytest.raises((TypeError, ValueError), match=r"cannot unpack non-iterable NoneType|not a field"):
        dspy.streamify(make_program(lm, "fused"), stream_listeners=[StreamListener("enhanced_qeury")])
    twins = Twins(make_program(lm, "fused"), make_program(lm, "fused"))
    with pytest.raises(ValueError, match="not unique"):
        dspy.streamify(twins, stream_listeners=[StreamListener("enhanced_query")])
    assert lm.engine.calls == 0


class Desk(dspy.Module):
    """A module of a user's own, with a program for a part."""

    def __init__(self, program: TurnProgram) -> None:
        super().__init__()
        self.understand = program

    def forward(self, text: str) -> dspy.Prediction:
        return dspy.Prediction(decision=self.understand(text=text).decision)

    async def aforward(self, text: str) -> dspy.Prediction:
        return dspy.Prediction(decision=(await self.understand.acall(text=text)).decision)


class Twins(dspy.Module):
    """A module with two programs, whose fields have the same names."""

    def __init__(self, first: TurnProgram, second: TurnProgram) -> None:
        super().__init__()
        self.first, self.second = first, second


class Batch(Desk):
    """One that decides in threads of its own."""

    def forward(self, text: str) -> dspy.Prediction:
        first, second = self.understand.decide_many(
            [Turn(text=text), Turn(text="when are you open")], workers=2
        )
        return dspy.Prediction(decision=first, other=second)


@pytest.mark.row("P4", "A10")
@WAYS
def test_a_program_within_another_module_is_heard_too(speak: Make, make_program: Make, way: str) -> None:
    desk = Desk(make_program(speak(), "fused"))
    listener = StreamListener(
        "enhanced_query", predict=desk.understand.fused, predict_name="understand.fused"
    )
    *heard, last = streamed(desk, way, stream_listeners=[listener])
    assert "".join(one.chunk for one in heard) == REWRITE
    assert not last.decision.degraded


@pytest.mark.row("P4")
@WAYS
def test_what_is_no_text_is_sent_when_it_is_whole(speak: Make, make_program: Make, way: str) -> None:
    said = {"commands": [{"type": "set_slot", "name": "order_id", "value": "4471"}, {"type": "ask"}]}
    program = make_program(speak(understand=said), "staged")
    names = ("commands", "sentiment_score", "is_continuation")
    *heard, _ = streamed(program, way, stream_listeners=[StreamListener(name) for name in names])
    assert [(one.signature_field_name, json.loads(one.chunk)) for one in heard] == [
        ("sentiment_score", -0.3), ("is_continuation", True), ("commands", said["commands"]),
    ]  # fmt: skip


@pytest.mark.row("P4")
@pytest.mark.parametrize("again", [True, False])
def test_a_listener_is_used_once_or_as_often_as_it_says(speak: Make, make_program: Make, again: bool) -> None:
    program = make_program(speak(), "fused")
    listener = StreamListener("enhanced_query", allow_reuse=again)
    heard = [streamed(program, "sync", stream_listeners=[listener])[:-1] for _ in range(2)]
    assert ["".join(one.chunk for one in each) for each in heard] == [REWRITE, REWRITE if again else ""]


@pytest.mark.row("P4")
def test_in_threads_of_others_no_token_is_sent_and_nothing_fails(speak: Make, make_program: Make) -> None:
    items = streamed(Batch(make_program(speak(), "fused")), "sync")
    assert len(items) == 1
    assert not items[0].decision.degraded
    assert not items[0].other.degraded


@pytest.mark.row("P4", "L3")
@pytest.mark.parametrize("way", ["sync", "sync generator"])
def test_a_model_that_hangs_is_cut_off_at_the_deadline(make_program: Make, speak: Make, way: str) -> None:
    release = threading.Event()

    def hang(_: Any) -> Any:
        # Never answers while the turn is decided.
        release.wait(20.0)
        return "late"

    program = make_program(speak(fused=hang), "fused")

    class Quick(Desk):
        def forward(self, text: str) -> dspy.Prediction:
            return dspy.Prediction(decision=self.understand(text=text, deadline=0.2).decision)

    try:
        items = streamed(Quick(program), way)
    finally:
        release.set()
    decision = decision_of(items)
    assert decision.degraded
    assert "deadline" in str(decision.stages["enhance"].cause)


@pytest.mark.row("P4")
@WAYS
def test_tokens_of_a_server_are_heard_as_they_come(registry: FlowRegistry, way: str) -> None:
    answer = json.dumps(
        {
            "enhanced_query": "Wo ist „4471“?\n", "sentiment_score": 0, "intent": "track_order", "entities": [],
            "is_cancellation": False, "is_continuation": True, "flows": [], "commands": [],
        }
    )  # fmt: skip
    with FakeOpenAI(flavour="vllm", answer=lambda _: answer) as server:
        lm = resolve_lm("openai/some", api_base=server.address, api_key="k")
        program = TurnProgram(registry, policy=Policy(shape="fused").named("lm")).bind(lm=lm)
        *heard, last = streamed(program, way, stream_listeners=[StreamListener("enhanced_query")])
        assert [call.body["stream"] for call in server.calls] == [True]
    assert "".join(one.chunk for one in heard) == "Wo ist „4471“?\n"
    assert len(heard) > 2
    assert last.decision.stages["enhance"].source == "lm"
