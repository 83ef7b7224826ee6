"""What a turn costs the message store: the message, the context before it, and the trace: `make bench`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.memory.messages import InMemoryMessageStore, MessageStore, SqlMessageStore
from jazzmine_dspy.models.messages import Entity, LLMCallRecord, Message, TurnTrace

pytestmark = pytest.mark.bench

HISTORY = 1_000
CONTEXT = 10


def _message(number: int) -> Message:
    return Message(
        id=f"m{number}",
        conversation_id="c1",
        user_id="u1",
        role="user" if number % 2 else "assistant",  # type: ignore[arg-type]
        original_content="I ordered a lamp three days ago, when will it get here? " * 3,
        timestamp=number,
        enhanced_message="When will the lamp ordered three days ago arrive?",
        intent="track_order",
        entities=[Entity(name="lamp", attributes=["ordered: three days ago"])],
        decision={
            "commands": [{"kind": "start_flow", "flow": "track_order"}],
            "stages": {"select": {"n": 0.9}},
        },
        confidences={"enhance": 0.9, "select": 0.8, "understand": 0.7},
    )


def _trace(number: int) -> TurnTrace:
    call = LLMCallRecord(
        purpose="decision", model="m", prompt_tokens=900, completion_tokens=80, latency_ms=400.0
    )
    return TurnTrace(
        id=f"t{number}", message_id=f"m{number}", conversation_id="c1", agent_id="a1", llm_calls=[call, call]
    )


@pytest.fixture(params=["in process", "sqlite file"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[asyncio.Runner, MessageStore]]:
    """A store that holds a conversation of 1,000 messages, and the loop that it runs in."""
    store: Any = InMemoryMessageStore()
    if request.param != "in process":
        store = SqlMessageStore(f"sqlite:///{tmp_path}/m.db", deadline=60)
    with asyncio.Runner() as runner:
        runner.run(store.store_messages([_message(number) for number in range(HISTORY)]))
        yield runner, store
        runner.run(store.close())


def test_turn(benchmark: Any, running: tuple[asyncio.Runner, MessageStore]) -> None:
    """Context of 10, then the message and its trace are stored."""
    runner, store = running
    numbers = count(HISTORY)

    async def turn() -> int:
        number = next(numbers)
        context = await store.get_immediate_context("c1", CONTEXT)
        await store.store_message(_message(number))
        await store.store_turn_trace(_trace(number))
        return len(context)

    assert benchmark.pedantic(lambda: runner.run(turn()), rounds=200, warmup_rounds=10) == CONTEXT


@pytest.mark.parametrize("step", ["store", "context", "trace", "update"])
def test_step(benchmark: Any, running: tuple[asyncio.Runner, MessageStore], step: str) -> None:
    """Each of them alone."""
    runner, store = running
    numbers = count(HISTORY)
    steps: dict[str, Any] = {
        "store": lambda: store.store_message(_message(next(numbers))),
        "context": lambda: store.get_immediate_context("c1", CONTEXT),
        "trace": lambda: store.store_turn_trace(_trace(next(numbers))),
        "update": lambda: store.update_message(_message(next(numbers) % HISTORY)),
    }

    async def once() -> None:
        await steps[step]()

    benchmark.pedantic(lambda: runner.run(once()), rounds=200, warmup_rounds=10)


def test_many_turns_at_once(benchmark: Any, running: tuple[asyncio.Runner, MessageStore]) -> None:
    """50 messages stored at once, each by a call of its own."""
    runner, store = running
    numbers = count(HISTORY)

    async def many() -> None:
        await asyncio.gather(*(store.store_message(_message(next(numbers))) for _ in range(50)))

    benchmark.pedantic(lambda: runner.run(many()), rounds=10, warmup_rounds=1)
