"""P1: equal turns that come together are decided once, and nobody who leaves takes the others along."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.program.decision_cache import DecisionCache
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
P1 = pytest.mark.row("P1")
TURN = Turn(text="where is my order")


@pytest.fixture
def recall(overlap: Make, registry: FlowRegistry) -> Any:
    return overlap(registry)


@pytest.fixture
def program(registry: FlowRegistry, recall: Any) -> TurnProgram:
    policy = Policy(fallback_score={"idle": 0.1, "busy": 0.3}).named("fallback")
    return TurnProgram(registry, policy=policy).bind(recall=recall)


def count(cached: TurnProgram) -> Any:
    assert cached.bindings.cache is not None
    return cached.bindings.cache.stats()


class Slow:
    """A recall that answers when it is let."""

    fingerprint = "slow"

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.asked = 0
        self.free = threading.Event()
        self.reached = threading.Semaphore(0)

    def __deepcopy__(self, memo: Any) -> Slow:
        return self

    def recall(self, query: str, **options: Any) -> Any:
        self.asked += 1
        self.reached.release()
        self.free.wait(30)
        return self.inner.recall(query, **options)

    async def areached(self) -> None:
        """Wait until it is asked."""
        await asyncio.to_thread(self.reached.acquire, timeout=30)


@pytest.fixture
def slow(recall: Any) -> Slow:
    return Slow(recall)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@P1
async def test_equal_turns_at_once_make_one_call(program: TurnProgram, slow: Slow) -> None:
    cached = program.bind(recall=slow).cached()
    asking = [asyncio.create_task(cached.adecide(TURN)) for _ in range(20)]
    await settle()
    slow.free.set()
    decisions = await asyncio.gather(*asking)
    assert slow.asked == 1
    assert len({str(each.commands) for each in decisions}) == 1
    assert len({id(each.selection) for each in decisions}) == 20
    assert sorted(each.stages["select"].source for each in decisions) == ["cache"] * 19 + ["fallback"]
    assert (count(cached).misses, count(cached).shared, count(cached).hit_rate) == (1, 19, 0.95)


@P1
@pytest.mark.parametrize("gone", [[0], [3], [0, 1, 2, 3]])
async def test_cancelling_one_who_waits_cancels_no_other(
    program: TurnProgram, slow: Slow, gone: list[int]
) -> None:
    cached = program.bind(recall=slow).cached()
    asking = [asyncio.create_task(cached.adecide(TURN)) for _ in range(5)]
    await slow.areached()
    for number in gone:
        asking[number].cancel()
    await settle()
    slow.free.set()
    ended = await asyncio.gather(*asking, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in ended] == [n in gone for n in range(5)]
    assert slow.asked == 1


@P1
async def test_the_last_who_waits_cancels_the_work_and_the_next_begins_anew(
    program: TurnProgram, slow: Slow
) -> None:
    cached = program.bind(recall=slow).cached()
    asking = [asyncio.create_task(cached.adecide(TURN)) for _ in range(2)]
    await slow.areached()
    for each in asking:
        each.cancel()
    await asyncio.wait(asking)
    late = asyncio.create_task(cached.adecide(TURN))
    await slow.areached()
    slow.free.set()
    assert not (await late).degraded
    assert (slow.asked, count(cached).entries) == (2, 1)


@P1
async def test_a_shorter_deadline_does_not_wait_for_a_longer_one(program: TurnProgram, slow: Slow) -> None:
    now = [0.0]
    cached = program.bind(recall=slow, clock=lambda: now[0]).cached()
    patient = asyncio.create_task(cached.adecide(TURN, deadline=None))
    await slow.areached()
    hasty = await cached.adecide(TURN, deadline=0.01)
    assert hasty.degraded
    slow.free.set()
    assert not (await patient).degraded
    assert count(cached).entries == 1


@P1
def test_equal_turns_in_threads_make_one_call(program: TurnProgram, slow: Slow) -> None:
    cached = program.bind(recall=slow).cached()
    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(cached.decide, TURN, deadline=None) for _ in range(8)]
        slow.reached.acquire()
        slow.free.set()
        decisions = [each.result() for each in asking]
    assert slow.asked == 1
    assert len({str(each.commands) for each in decisions}) == 1
    assert count(cached).hits + count(cached).shared == 7


@P1
def test_an_interrupted_thread_leaves_the_turn_to_one_that_waits() -> None:
    cache, began, go = DecisionCache(), threading.Event(), threading.Event()
    decided = TurnProgram(FlowRegistry([])).with_policy("fallback").decide(text="hello")

    def interrupted() -> Any:
        began.set()
        go.wait()
        raise KeyboardInterrupt

    def lead() -> None:
        with pytest.raises(KeyboardInterrupt):
            cache.decide("key", None, interrupted)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lead)
        began.wait()
        second = pool.submit(cache.decide, "key", None, lambda: decided)
        go.set()
        first.result()
        assert second.result().commands == decided.commands
    assert cache.stats().misses == 2


@P1
def test_loops_in_turn_share_the_entries(program: TurnProgram, recall: Any) -> None:
    cached = program.cached()
    for _ in range(3):
        asyncio.run(cached.adecide(TURN))
    assert len(recall.asked) == 1


@P1
async def test_an_error_reaches_all_who_wait_and_is_not_stored() -> None:
    cache, calls = DecisionCache(), 0

    async def fails() -> Any:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        raise ValueError("no decision")

    ended = await asyncio.gather(
        *(cache.adecide("key", 1.0, fails) for _ in range(3)), return_exceptions=True
    )
    assert [type(each) for each in ended] == [ValueError] * 3
    assert (calls, cache.stats().entries) == (1, 0)
