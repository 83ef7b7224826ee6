"""P1, A7: conversations over one decision cache."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jazzmine_dspy import DecisionCache, Runtime, TurnProgram

NOON = 1_700_000_000.0


@pytest.mark.row("P1", "A7")
async def test_two_hundred_conversations_at_once_share_decisions_and_nothing_else(floor: TurnProgram) -> None:
    cache = DecisionCache()
    runtime = Runtime(floor, cache=cache, clock=lambda: NOON)

    async def talk(number: int) -> tuple[str, str, dict[str, Any]]:
        name, order = f"c{number}", f"{1000 + number % 20}"
        for text in ("please cancel my order", order):
            outcome = await runtime.process(conversation_id=name, user_id=f"u{number}", text=text)
        state = outcome.state
        assert state.active_flow is not None
        return outcome.reply, state.user_id, state.active_flow.values

    ended = await asyncio.gather(*(talk(number) for number in range(200)))
    for number, (reply, user, slots) in enumerate(ended):
        order = f"{1000 + number % 20}"
        assert (reply, user, slots) == (f"Cancel order {order}. Shall I?", f"u{number}", {"order_id": order})
    stats = cache.stats()
    assert (stats.misses, stats.entries, stats.hits + stats.shared) == (21, 21, 379)
    assert len(runtime.program.bindings.recall.queries) == stats.misses  # type: ignore[union-attr]


@pytest.mark.row("P1")
async def test_a_cached_turn_is_traced_without_calls_and_changes_the_state_alike(floor: TurnProgram) -> None:
    runtime = Runtime(floor, cache=DecisionCache(), clock=lambda: NOON)
    talks = [
        await runtime.process(conversation_id=f"c{n}", user_id="u1", text="where is my order") for n in (1, 2)
    ]
    first, second = talks
    assert first.decision is not None
    assert second.decision is not None
    assert {record.source for record in second.decision.stages.values()} == {"cache"}
    assert (second.reply, second.next) == (first.reply, first.next)
    trace = await runtime.messages.get_turn_trace(f"trace-{second.message_id}")
    assert trace is not None
    assert trace.llm_calls == []


@pytest.mark.row("P1")
async def test_a_given_program_stays_as_it_is(floor: TurnProgram) -> None:
    runtime = Runtime(floor, cache=DecisionCache())
    for name in ("c1", "c2"):
        await runtime.process(conversation_id=name, user_id="u1", text="hello")
    assert runtime.program.bindings.cache is not None
    assert runtime.program.bindings.cache.stats().hits == 1
    assert floor.bindings.cache is None
