"""Turn traces."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.memory.errors import ConflictError
from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.models.traces import LLMCallRecord, SlotEvent, ToolTrace
from jazzmine_dspy.testing.messages.harness import Suite, trace


def _call(**fields: Any) -> LLMCallRecord:
    return LLMCallRecord(purpose="decision", model="m", prompt_tokens=3, completion_tokens=2, **fields)


class TraceSuite(Suite):
    """Turn traces."""

    async def test_a_full_trace_comes_back(self, store: MessageStore) -> None:
        data: dict[str, Any] = {"rows": [{"ß": None, "n": 1e20}], "": [], "text": "x" * 100_000}
        given = trace(
            llm_calls=[_call(latency_ms=0.1), _call(success=False, error="timed out")],
            tool_traces=[
                ToolTrace(tool_name="find", final_data=data, traceback="Trace\n  back", output_bytes=7)
            ],
            slot_events=[SlotEvent(flow_name="f", slot_name="s", value=["a", 1])],
            total_latency_ms=12.5,
        )
        await store.store_turn_trace(given)
        kept = await store.get_turn_trace("t1")
        assert kept == given
        assert kept is not None
        assert kept.total_tokens == 10
        assert await store.get_turn_trace("t2") is None
        assert await store.get_turn_trace_by_message_id("c1-m2") is None

    async def test_a_trace_moves_from_the_message_to_the_reply(self, store: MessageStore) -> None:
        given = trace(llm_calls=[_call()])
        await store.store_turn_trace(given)
        given.message_id = "c1-m2"
        given.total_latency_ms = 9.0
        await store.store_turn_trace(given)
        assert await store.get_turn_trace_by_message_id("c1-m2") == given
        assert await store.get_turn_trace_by_message_id("c1-m1") == given
        assert await store.get_turn_traces_by_conversation_id("c1") == [given]

    async def test_a_message_has_one_trace(self, store: MessageStore) -> None:
        await store.store_turn_trace(trace("t1", "c1-m1"))
        await store.store_turn_trace(trace("t1", "c1-m2"))
        for message_id in ("c1-m1", "c1-m2"):
            with pytest.raises(ConflictError, match=message_id):
                await store.store_turn_trace(trace("t2", message_id))
        assert await store.get_turn_trace("t2") is None
        await store.store_turn_trace(trace("t2", "c1-m3"))
        with pytest.raises(ConflictError):
            await store.store_turn_trace(trace("t2", "c1-m1", total_latency_ms=5.0))
        assert await store.get_turn_trace("t2") == trace("t2", "c1-m3")

    async def test_traces_by_conversation_and_agent(self, store: MessageStore) -> None:
        for number in (3, 1, 2):
            await store.store_turn_trace(trace(f"t{number}", f"m{number}"))
        await store.store_turn_trace(trace("t4", "m4", conversation_id="c2"))
        await store.store_turn_trace(trace("t5", "m5", agent_id="a2"))
        first = await store.get_turn_traces_by_conversation_id("c1", limit=3)
        assert ([one.id for one in first], first.next_offset) == (["t3", "t1", "t2"], 3)
        rest = await store.get_turn_traces_by_conversation_id("c1", limit=3, offset=3)
        assert ([one.id for one in rest], rest.next_offset) == (["t5"], None)
        assert [one.id for one in await store.get_turn_traces_by_agent_id("a1", offset=2)] == ["t2", "t4"]
        assert await store.get_turn_traces_by_agent_id("a9") == []

    async def test_a_trace_may_change_its_conversation(self, store: MessageStore) -> None:
        await store.store_turn_trace(trace(conversation_id=""))
        await store.store_turn_trace(trace())
        assert await store.get_turn_traces_by_conversation_id("c1") == [trace()]
        assert await store.get_turn_traces_by_conversation_id("") == []
