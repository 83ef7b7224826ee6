"""Turns over the working-memory stores, and over jazzmine's own in the same run: `make bench`."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

import jazzmine_package
import redis_servers
from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    InMemoryWorkingMemoryStore,
    RedisWorkingMemoryStore,
    ToolCallRecord,
    TurnCache,
)

pytestmark = pytest.mark.bench

ROUNDS = {5: 300, 50: 100, 500: 20}
CALLS = 20

Turn = Callable[[], Awaitable[Any]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server for this module."""
    with redis_servers.server() as one:
        yield one.url


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The loop in which both stores live."""
    with asyncio.Runner() as runner:
        yield runner.get_loop()


@pytest.fixture(scope="module")
def jazzmine() -> Any:
    """The installed jazzmine's working memory."""
    try:
        return jazzmine_package.working_memory()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def _result(kilobytes: int) -> dict[str, Any]:
    """What one of the calls in a record gave, so that all of them make up its size."""
    rows = max(1, kilobytes * 1000 // CALLS // 60)
    return {"rows": [{"order": f"A-{n:06}", "state": "on its way", "total": n / 4} for n in range(rows)]}


async def _ours(store: Any, kilobytes: int) -> Turn:
    conversation = f"ours-{kilobytes}"
    await store.get_or_create(conversation, "u1")
    await store.start_flow(conversation, ActiveFlowState(flow_name="orders"))
    for n in range(CALLS):
        call = ToolCallRecord(tool_name="find", result=_result(kilobytes), result_summary=f"{n} found")
        await store.record_tool_call(conversation, call)

    async def turn() -> None:
        async with store.turn(conversation):
            await store.get_or_create(conversation, "u1")
            await store.begin_turn(conversation, TurnCache(enhanced_query="Where is it?", intent="track"))
            await store.end_turn(conversation, "On its way.", "answer")

    return turn


async def _theirs(package: Any, client: Redis, kilobytes: int) -> Turn:
    records, state = package.records, package.state
    store = package.redis_store.RedisWorkingMemoryStore(client)
    conversation = f"theirs-{kilobytes}"
    memory = await store.get_or_create(conversation, "u1", "")
    memory.active_flow = state.ActiveFlowState(flow_id="f", flow_name="orders", flow_type="flow")
    for n in range(CALLS):
        call = records.ToolCallRecord("find", {}, result=_result(kilobytes), result_summary=f"{n} found")
        memory.active_flow.tool_call_history.append(call)
    await store.save(memory)
    number = 0

    async def turn() -> None:
        nonlocal number
        number += 1
        await store.get_or_create(conversation, "u1", "")
        cache = state.TurnCache(turn_number=number, enhanced_query="Where is it?", intent="track")
        await store.begin_turn(conversation, cache)
        await store.end_turn(conversation, "On its way.", "answer")

    return turn


def _percentiles(milliseconds: list[float], name: str = "") -> dict[str, float]:
    ordered = sorted(milliseconds)
    return {
        f"{name}p{q}": round(ordered[min(len(ordered) - 1, len(ordered) * q // 100)], 3) for q in (50, 95, 99)
    }


def _measured(benchmark: Any, loop: Any, turn: Turn, rounds: int, before: Callable[[], Any]) -> list[float]:
    """Milliseconds of each round, in which something else may be measured before."""
    spent: list[float] = []

    def once() -> None:
        began = time.perf_counter()
        loop.run_until_complete(turn())
        spent.append((time.perf_counter() - began) * 1000)

    benchmark.pedantic(once, setup=before, rounds=rounds, warmup_rounds=5)
    return spent[5:]


@pytest.mark.parametrize("kilobytes", ROUNDS)
def test_turn_in_process(benchmark: Any, loop: Any, kilobytes: int) -> None:
    """A turn begun, ended, and kept twice; over a dictionary."""
    turn = loop.run_until_complete(_ours(InMemoryWorkingMemoryStore(), kilobytes))
    spent = _measured(benchmark, loop, turn, ROUNDS[kilobytes], lambda: None)
    benchmark.extra_info |= {"kB": kilobytes} | _percentiles(spent)


@pytest.mark.parametrize("kilobytes", ROUNDS)
def test_turn_on_redis(benchmark: Any, loop: Any, url: str, jazzmine: Any, kilobytes: int) -> None:
    """The same on Redis, and jazzmine's turn by turn with it: its get_or_create, begin_turn and end_turn."""
    store, client = RedisWorkingMemoryStore(url), Redis.from_url(url)
    ours = loop.run_until_complete(_ours(store, kilobytes))
    theirs = loop.run_until_complete(_theirs(jazzmine, client, kilobytes))
    beside: list[float] = []

    def other() -> None:
        began = time.perf_counter()
        loop.run_until_complete(theirs())
        beside.append((time.perf_counter() - began) * 1000)

    spent = _measured(benchmark, loop, ours, ROUNDS[kilobytes], other)
    ratio = statistics.median(spent) / statistics.median(beside)
    benchmark.extra_info |= {"kB": kilobytes} | _percentiles(spent) | _percentiles(beside, "jazzmine_")
    benchmark.extra_info["of_jazzmine"] = round(ratio, 2)
    loop.run_until_complete(store.close())
    loop.run_until_complete(client.aclose())


@pytest.mark.parametrize("whose", ["ours", "jazzmine"])
def test_hand_over(benchmark: Any, loop: Any, url: str, jazzmine: Any, whose: str) -> None:
    """From the end of one worker's turn to the beginning of the next, which another one waits for."""
    rng = random.Random(1)
    if whose == "ours":
        workers: list[Any] = [RedisWorkingMemoryStore(url) for _ in range(2)]
        turns = [worker.turn for worker in workers]
    else:
        workers = [Redis.from_url(url) for _ in range(2)]
        turns = [jazzmine.redis_store.RedisWorkingMemoryStore(worker)._distributed_lock for worker in workers]

    async def waited_for() -> tuple[Any, asyncio.Task[None]]:
        held = turns[0]("c")
        await held.__aenter__()

        async def wait() -> None:
            async with turns[1]("c"):
                began.append(time.perf_counter())

        task = asyncio.create_task(wait())
        # As long as a short answer of a language model, never the same.
        await asyncio.sleep(rng.uniform(0.2, 0.6))
        return held, task

    began: list[float] = []
    spent: list[float] = []

    def hand_over(held: Any, task: asyncio.Task[None]) -> None:
        async def ended() -> None:
            at = time.perf_counter()
            await held.__aexit__(None, None, None)
            await task
            spent.append((began.pop() - at) * 1000)

        loop.run_until_complete(ended())

    benchmark.pedantic(
        hand_over, setup=lambda: (loop.run_until_complete(waited_for()), {}), rounds=40, warmup_rounds=1
    )
    benchmark.extra_info |= _percentiles(spent[1:])
    for worker in workers:
        loop.run_until_complete(worker.close() if whose == "ours" else worker.aclose())
