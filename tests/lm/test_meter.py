"""The meter."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import Config, Message, Request
from dspy.lm15 import Usage as LMUsage

from jazzmine_dspy.lm.engines import scripted_lm, user_text
from jazzmine_dspy.lm.errors import BudgetExhausted, LMSettingsError
from jazzmine_dspy.lm.meter import Meter, metered
from jazzmine_dspy.lm.replay import ReplayStore, replayed


def _request(text: str) -> Request:
    return Request(model="scripted/x", messages=(Message.user(text),), config=Config(max_tokens=20))


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


async def test_replayed_answers_count(tmp_path: Path) -> None:
    meter = Meter(max_calls=2)
    lm = metered(replayed(scripted_lm(user_text), ReplayStore(tmp_path / "a.db")), meter)
    lm("hi")
    assert await lm.acall("hi") == ["hi"]
    counts = meter.counts
    assert (counts.calls, counts.replayed, counts.prompt_tokens) == (2, 1, 2)
    with pytest.raises(BudgetExhausted):
        lm("hi")


@pytest.mark.row("O3")
def test_tokens_are_never_overspent() -> None:
    """What a call may take is known before: a byte is a token at most, and the answer is as long as it may be."""
    plain, meter = scripted_lm(user_text), Meter(max_tokens=600)
    lm = metered(plain.copy(max_tokens=200), meter)
    assert meter.calls_left is None
    lm("one two three")
    left = meter.calls_left
    assert left is not None
    for _ in range(left):
        assert meter.counts.calls <= left
        lm("one two three")
    assert meter.calls_left == 0
    with pytest.raises(BudgetExhausted, match="budget of 600 tokens"):
        lm("one two three")
    counts = meter.counts
    assert plain.engine.calls == counts.calls == 1 + left
    assert counts.prompt_tokens + counts.completion_tokens == 6 * counts.calls <= 600
    with pytest.raises(BudgetExhausted):
        lm.copy(max_tokens=1)("x")


@pytest.mark.row("O3")
def test_a_call_that_might_take_more_than_is_left_is_not_made() -> None:
    plain, meter = scripted_lm(user_text), Meter(max_tokens=600)
    lm = metered(plain, meter)
    with pytest.raises(BudgetExhausted):
        lm("brief", max_tokens=600)
    assert (plain.engine.calls, meter.calls_left) == (0, 0)
    with pytest.raises(BudgetExhausted):
        metered(plain, Meter(max_tokens=0))("brief")


def test_what_nobody_counts_is_taken_for_the_most() -> None:
    """A model that does not tell its tokens cannot be asked without end."""

    plain, meter = scripted_lm(user_text), Meter(max_tokens=3_000)
    complete = plain.engine.complete
    plain.engine.complete = lambda request: replace(complete(request), usage=LMUsage())
    lm = metered(plain.copy(max_tokens=500), meter)
    while meter.calls_left != 0:
        lm("how long?")
    assert 3 <= meter.counts.calls <= 6
    assert meter.counts.uncounted == meter.counts.calls
    assert meter.counts.prompt_tokens == 0


def test_a_call_that_fails_takes_nothing() -> None:
    meter = Meter(max_tokens=700)
    lm = metered(scripted_lm({"bad": dspy.LMInvalidRequestError("no"), "good": "yes"}), meter)
    for _ in range(20):
        with pytest.raises(dspy.LMInvalidRequestError):
            lm("bad", max_tokens=300)
    assert lm("good", max_tokens=300) == ["yes"]


def test_what_is_left_does_not_depend_on_who_ends_first() -> None:
    """All calls are under way at once, and end in either order."""
    found = []
    for order in (1, -1):
        meter = Meter(max_tokens=100_000)
        begun = [meter.reserve(_request("x" * size)) for size in (10, 2_000, 300)]
        used = [LMUsage(input_tokens=size, output_tokens=1) for size in (5, 900, 70)]
        for kept, usage in list(zip(begun, used, strict=True))[::order]:
            meter.settle(usage, kept)
        found.append((meter.calls_left, meter.counts))
    assert found[0] == found[1]


@pytest.mark.row("O3")
def test_calls_at_once_wait_where_not_all_fit_at_their_most() -> None:
    """So many as fit one after another fit at once: none is refused for what the others might have taken."""
    plain, meter = scripted_lm(user_text), Meter(max_tokens=1_500)
    lm = metered(plain.copy(max_tokens=300), meter)
    lm("one two three")
    left = meter.calls_left
    assert left is not None
    assert left > 8
    assert not meter.can_afford(8)
    assert meter.can_afford(1, then=8)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lm, ["one two three"] * left))
    assert meter.counts.calls == 1 + left
    assert not meter.exhausted
    assert meter.calls_left == 0


async def test_asynchronous_calls_wait_likewise() -> None:
    meter, begun, ended = Meter(max_tokens=1_500), threading.Event(), threading.Event()

    def slow(request: Any) -> str:
        begun.set()
        assert ended.wait(30)
        return user_text(request)

    lm = metered(scripted_lm(slow).copy(max_tokens=300), meter)
    calls = [asyncio.create_task(lm.acall("one two three")) for _ in range(9)]
    assert await asyncio.to_thread(begun.wait, 30)
    assert meter.counts.calls < 9
    calls.pop().cancel()
    ended.set()
    await asyncio.gather(*calls)
    assert meter.counts.calls >= 8
    assert not meter.exhausted


@pytest.mark.row("O3")
def test_eight_threads_do_not_overspend_tokens() -> None:
    plain, meter = scripted_lm(user_text), Meter(max_tokens=20_000)
    lm = metered(plain.copy(max_tokens=100), meter)

    def call(n: int) -> None:
        with contextlib.suppress(BudgetExhausted):
            lm("word " * (20 + n % 200))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(300)))
    counts = meter.counts
    assert meter.exhausted
    assert 0 < counts.calls == plain.engine.calls < 300
    assert counts.prompt_tokens + counts.completion_tokens <= 20_000


@pytest.mark.row("O6")
async def test_replayed_answers_take_the_tokens_of_the_first_time(tmp_path: Path) -> None:
    store, left = ReplayStore(tmp_path / "a.db"), []
    for _ in range(2):
        meter = Meter(max_tokens=5_000)
        lm = metered(replayed(scripted_lm(user_text), store), meter)
        lm("one two three", max_tokens=50)
        await lm.acall("four five", max_tokens=50)
        left.append(meter.calls_left)
    assert left[0] == left[1]
    assert meter.counts.replayed == 2


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
