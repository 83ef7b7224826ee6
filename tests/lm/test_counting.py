"""The meter."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest

from jazzmine_dspy.lm.counting import Meter, metered
from jazzmine_dspy.lm.errors import BudgetExhausted, LMSettingsError
from jazzmine_dspy.lm.replay import ReplayStore, replayed
from jazzmine_dspy.lm.requests import user_text
from jazzmine_dspy.lm.scripted import scripted_lm


def test_the_call_over_budget_is_not_made() -> None:
    plain, meter = scripted_lm(user_text), Meter(max_calls=3)
    lm = metered(plain, meter)
    for n in range(3):
        lm(f"message {n}")
    with pytest.raises(BudgetExhausted, match="budget of 3"):
        lm("one more")
    assert plain.engine.calls == meter.counts.calls == 3
    assert meter.exhausted
    assert meter.calls_left == 0
    assert plain("the original is not metered") is not None


def test_eight_threads_do_not_overdraw() -> None:
    plain, meter = scripted_lm(user_text), Meter(max_calls=50)
    lm = metered(plain, meter)

    def call(n: int) -> bool:
        try:
            lm(str(n))
        except BudgetExhausted:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(call, range(120))) == 50
    assert plain.engine.calls == 50


def test_tokens_and_failures_are_counted() -> None:
    meter = Meter()
    lm = metered(scripted_lm({"good day": "a b c", "bad": dspy.LMInvalidRequestError("no")}), meter)
    lm("good day")
    with pytest.raises(dspy.LMInvalidRequestError):
        lm("bad")
    counts = meter.counts
    assert (counts.calls, counts.failed, counts.prompt_tokens, counts.completion_tokens) == (2, 1, 2, 3)


@pytest.mark.parametrize("count_replayed", [True, False])
async def test_replayed_answers_count_unless_told_otherwise(tmp_path: Path, count_replayed: bool) -> None:
    store, meter = ReplayStore(tmp_path / "a.db"), Meter(max_calls=2, count_replayed=count_replayed)
    lm = metered(replayed(scripted_lm(user_text), store), meter)
    lm("hi")
    assert await lm.acall("hi") == ["hi"]
    counts = meter.counts
    assert (counts.calls, counts.replayed) == (2 if count_replayed else 1, 1)
    assert counts.prompt_tokens == counts.calls
    if count_replayed:
        with pytest.raises(BudgetExhausted):
            lm("hi")
    else:
        assert lm("hi") == ["hi"]


async def test_streams_are_counted(ask: Any) -> None:
    meter = Meter(max_calls=2)
    lm = metered(scripted_lm({"x": "one two"}), meter)
    list(lm.engine.stream(ask("x")))
    assert [event.type async for event in lm._async_engine_spec.stream(ask("x"))][-1] == "end"
    with pytest.raises(BudgetExhausted):
        list(lm.engine.stream(ask("x")))
    assert meter.counts.completion_tokens == 4


def test_capabilities_and_copies_of_the_model_stay() -> None:
    plain = scripted_lm(user_text)
    lm = metered(plain, Meter())
    assert lm.supports_response_schema
    assert lm.supported_params == plain.supported_params
    assert copy.deepcopy(lm.engine) is lm.engine
    assert lm.copy(temperature=1.0).engine is lm.engine


def test_a_model_without_an_engine_is_refused() -> None:
    class Old(dspy.BaseLM):
        pass

    with pytest.raises(LMSettingsError, match="Old has no engine"):
        metered(Old("old/x"), Meter())
