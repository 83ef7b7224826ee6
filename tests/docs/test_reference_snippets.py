"""Snippets of the reference documents run as written, their imports apart."""

from __future__ import annotations

import ast
import textwrap
import time
from typing import Any

import pytest

from jazzmine_dspy import (
    Entity,
    FlowRegistry,
    FlowSelector,
    InMemoryWorkingMemoryStore,
    Message,
    MessageRole,
)
from jazzmine_dspy.lm import scripted_lm
from jazzmine_dspy.memory.working import ToolCallRecord, TurnCache

MODELS = """
# Defining a structured user message
msg = Message(
    id="uuid-v4-string",
    conversation_id="session-123",
    user_id="user-789",
    role=MessageRole.USER,
    original_content="Check my last three orders",
    timestamp=int(time.time() * 1000)
)

# Creating a concept extraction record
product = Entity(
    name="iPhone 15 Pro",
    attributes=["Color: Titanium", "Storage: 256GB"]
)
"""
RECORD = """
record = ToolCallRecord(
    tool_name="get_inventory",
    arguments={"sku": "LAP-123"},
    result={"count": 5, "warehouse": "A1"},
    result_summary="Found 5 units in Warehouse A1.",
    success=True
)
"""
USAGE = """
# 1. Fetch current memory
wm = await store.get_or_create(cid, uid, aid)

# 2. Update it at turn start
wm = await store.begin_turn(cid, turn_cache)

# 3. Agent performs work...
await store.record_tool_call(cid, my_record)

# 4. Agent finishes
await store.end_turn(cid, "Hello world", "greeting")
"""
SELECTOR = """
# 1. Initialize the Selector
selector = FlowSelector(
    llm=my_reasoning_llm,
    flow_registry=BaseFlow.registry,
    proc_mem=my_procedural_memory,
    agent_id="support_bot_01",
    top_k=3 # Retrieve top 3 candidates for LLM review
)

# 2. Perform selection
# 'episode_summaries' come from EpisodicMemory.recall()
result = await selector.select(
    enhanced_query="Process a refund for my last order",
    episode_summaries=["User discussed a broken item in the previous episode."]
)

# 3. Handle the result
if result.chosen_flows:
    print(f"Executing: {[f.name for f in result.chosen_flows]}")
    # This block is ready to be injected into the Agent's system prompt
    agent_context = result.combined_prompt
"""


async def run(snippet: str, **names: Any) -> dict[str, Any]:
    """The names of a snippet after it has run."""
    body = f"async def snippet():\n{textwrap.indent(snippet, '    ')}\n    return dict(locals())\n"
    exec(compile(ast.parse(body), "snippet", "exec"), names)
    result: dict[str, Any] = await names["snippet"]()
    return result


@pytest.mark.row("M2")
async def test_the_models_of_the_message_store() -> None:
    held = await run(MODELS, Message=Message, MessageRole=MessageRole, Entity=Entity, time=time)
    msg, product = held["msg"], held["product"]
    assert (msg.role, msg.original_content) == ("user", "Check my last three orders")
    assert (msg.sentiment_score, msg.entities, msg.is_continuation) == (0.0, [], True)
    assert product.model_dump() == {
        "name": "iPhone 15 Pro",
        "attributes": ["Color: Titanium", "Storage: 256GB"],
    }


@pytest.mark.row("W13")
async def test_the_working_memory() -> None:
    record = (await run(RECORD, ToolCallRecord=ToolCallRecord))["record"]
    prompt = record.to_prompt_xml()
    assert "Found 5 units in Warehouse A1." in prompt
    assert '"count"' not in prompt
    store = InMemoryWorkingMemoryStore()
    turn_cache = TurnCache(enhanced_query="hi", intent="greet", is_continuation=False)
    given = {"store": store, "cid": "c1", "uid": "u1", "aid": "a1", "turn_cache": turn_cache}
    await run(USAGE, **given, my_record=record)
    state = await store.get("c1")
    assert state is not None
    assert (state.turn_number, state.last_agent_response, state.last_agent_intent) == (
        1,
        "Hello world",
        "greeting",
    )


class Memory:
    """Procedural memory with jazzmine's ``recall``."""

    def __init__(self, registry: FlowRegistry) -> None:
        self._registry = registry
        self.queries: list[str] = []

    async def recall(self, query: str, agent_id: str, top_k: int, rrf_k: int) -> list[dict[str, Any]]:
        """All flows."""
        self.queries.append(query)
        assert (agent_id, top_k, rrf_k) == ("support_bot_01", 3, 10)
        return [
            {"flow_id": flow.id_for(agent_id), "flow_name": flow.name, "description": flow.description,
             "condition": flow.condition, "score": 0.5}
            for flow in self._registry.values()
        ]  # fmt: skip


@pytest.mark.row("F13")
async def test_the_flow_selector(capsys: pytest.CaptureFixture[str]) -> None:
    class BaseFlow:
        registry = FlowRegistry(
            [
                {
                    "name": "refund",
                    "description": "Pay an order back.",
                    "condition": "The order has arrived.",
                },
                {"name": "track_order", "description": "Tell where an order is."},
            ],
            agent_id="support_bot_01",
        )

    lm = scripted_lm(lambda _: '["A"]', schema=False)
    held = await run(
        SELECTOR,
        FlowSelector=FlowSelector,
        BaseFlow=BaseFlow,
        my_reasoning_llm=lm,
        my_procedural_memory=Memory(BaseFlow.registry),
    )
    assert capsys.readouterr().out == "Executing: ['refund']\n"
    assert held["agent_context"] == held["result"].chosen_prompts[0] != ""
    assert (held["result"].degraded, lm.engine.calls) == (False, 1)
