"""The scripted model."""

from __future__ import annotations

import copy
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy
import pytest

from demonstrations import demo_texts
from jazzmine_dspy.lm.engines import scripted_lm, system_text, user_text
from jazzmine_dspy.lm.errors import ScriptMissError


def test_answers_follow_the_request_in_any_order_and_from_eight_threads() -> None:
    lm = scripted_lm(lambda request: user_text(request).upper())
    asked = [f"message {n}" for n in range(200)]
    random.Random(7).shuffle(asked)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: lm(text)[0], asked)) == [text.upper() for text in asked]
    assert lm.engine.calls == 200


def test_the_longest_key_that_occurs_answers() -> None:
    lm = scripted_lm({"order": "short", "order 4471": "long"})
    assert lm("where is order 4471?") == ["long"]
    assert lm("where is my order?") == ["short"]
    with pytest.raises(ScriptMissError, match="where is my parcel"):
        lm("where is my parcel?")


def test_scripted_exceptions_are_raised() -> None:
    lm = scripted_lm({"slow": dspy.LMTimeoutError("too slow")})
    with pytest.raises(dspy.LMTimeoutError):
        lm("slow")
    assert lm.engine.calls == 1


async def test_async_and_streams_answer_alike(ask: Any) -> None:
    lm = scripted_lm({"hi": "a b c"})
    assert await lm.acall("hi") == lm("hi") == ["a b c"]
    events = list(lm.engine.stream(ask("hi")))
    assert [event.delta.text for event in events if event.type == "delta"] == ["a", " b", " c"]
    assert events[-1].usage.output_tokens == 3


def test_usage_is_the_number_of_words() -> None:
    with dspy.context(
        lm=scripted_lm(lambda _: '{"answer":"x y"}'), adapter=dspy.JSONAdapter(), track_usage=True
    ):
        usage = dspy.Predict("question -> answer")(question="hi").get_lm_usage()
    assert usage["scripted/x"]["completion_tokens"] == 2
    assert usage["scripted/x"]["prompt_tokens"] > 20


@pytest.mark.parametrize("schema", [True, False])
def test_schema_support_steers_dspys_adapter(schema: bool) -> None:
    lm = scripted_lm(lambda _: '{"answer":"x"}', schema=schema)
    predict = dspy.Predict("question -> answer")
    predict.demos = [dspy.Example(question="q1", answer="a1")]
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        predict(question="hi")
    (request,) = lm.engine.requests
    assert ((request.config.response_format or {}).get("type") == "json_schema") is schema
    assert "output fields" in system_text(request)
    assert "hi" in user_text(request)
    ((question, answer),) = demo_texts(request)
    assert "q1" in question
    assert "a1" in answer


def test_copies_share_the_engine() -> None:
    lm = scripted_lm({"x": "y"})
    assert copy.deepcopy(lm.engine) is lm.engine
