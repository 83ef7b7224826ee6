"""What a turn leaves behind: messages with decisions, and traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy import Runtime, TurnDecision, TurnProgram
from jazzmine_dspy.lm.scripted import scripted_lm
from jazzmine_dspy.memory.errors import NotStoredError
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.traces import ToolTrace
from jazzmine_dspy.program.policy import Policy

NOON = 1_700_000_000.0


@pytest.mark.row("M8")
async def test_the_message_is_stored_with_its_decision(chat: Any) -> None:
    outcome = await chat("where is my order", message_id="m1", explicit_context=["a fact"])
    message = await chat.runtime.messages.get_message("m1")
    assert message is not None
    assert (message.original_content, message.enhanced_message) == ("where is my order",) * 2
    assert (message.intent, message.timestamp) == ("track_order", int(NOON * 1000))
    assert (message.explicit_context, message.invoked_flows) == (["a fact"], ["track_order"])
    assert TurnDecision.model_validate(message.decision) == outcome.decision
    assert message.confidences == {"enhance": 1.0, "select": 0.5, "understand": 0.5}
    assert message.program_fingerprint == chat.runtime.program.fingerprint


async def test_the_episode_advances_where_the_topic_changes(
    make_chat: Any, by_hand: Any, decision: Callable[..., TurnDecision]
) -> None:
    program = by_hand()
    program.table = {"other": decision("chitchat", is_continuation=False)}
    chat = make_chat(Runtime(program))
    for text in ("one", "other", "on"):
        await chat(text)
    stored = await chat.runtime.messages.get_messages_by_conversation_id("c1")
    assert [message.episode_id for message in stored] == [0, 0, 1, 1, 1, 1]


async def test_the_trace_holds_the_calls_and_moves_on_to_the_reply(registry: FlowRegistry) -> None:
    select, understand = '{"flows":["A"]}', '{"commands":[]}'
    lm = scripted_lm(lambda request: select if "flows_offered" in str(request) else understand)
    orders = {"enhance": ("floor",), "select": ("lm", "floor"), "understand": ("lm", "floor")}
    program = TurnProgram(registry, policy=Policy(shape="staged", orders=orders)).bind(lm=lm)
    runtime = Runtime(program, clock=lambda: NOON, agent_id="shop")
    outcome = await runtime.process(conversation_id="c1", user_id="u1", text="it is 4471", message_id="m1")
    assert outcome.decision is not None
    assert outcome.next.flow == "track_order"
    trace = await runtime.messages.get_turn_trace_by_message_id("m1")
    assert trace is not None
    assert [call.purpose for call in trace.llm_calls] == ["flow_selection", "understanding"]
    assert {call.model for call in trace.llm_calls} == {"scripted/x"}
    usage = outcome.decision.usage
    assert trace.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0
    assert [(event.flow_name, event.event) for event in trace.flow_events] == [("track_order", "started")]
    reply = await runtime.record_reply(
        "c1", "Which order?", "ask", [ToolTrace(tool_name="orders.lookup")], message_id="r1"
    )
    assert (reply.role, reply.intent, reply.invoked_tools) == ("assistant", "ask", ["orders.lookup"])
    moved = await runtime.messages.get_turn_trace_by_message_id("r1")
    assert moved is not None
    assert (moved.id, moved.message_id, moved.llm_calls) == (trace.id, "r1", trace.llm_calls)
    assert [tool.tool_name for tool in moved.tool_traces] == ["orders.lookup"]
    await runtime.record_reply("c1", "Which order?", message_id="r1")
    assert await runtime.messages.get_turn_trace_by_message_id("r1") == moved
    second = await runtime.record_reply("c1", "By the way …")
    alone = await runtime.messages.get_turn_trace_by_message_id(second.id)
    assert alone is not None
    assert alone.llm_calls == []


async def test_slots_flows_and_confirmations_leave_events(chat: Any) -> None:
    await chat("please cancel my order")
    await chat("4471", message_id="m2")
    trace = await chat.runtime.messages.get_turn_trace_by_message_id("m2")
    assert trace is not None
    (event,) = trace.slot_events
    assert (event.flow_name, event.slot_name, event.value) == ("cancel_order", "order_id", "4471")
    assert (event.collected, event.collected_at_turn) == (True, 2)
    await chat("where is my order", message_id="m3")
    trace = await chat.runtime.messages.get_turn_trace_by_message_id("m3")
    assert trace is not None
    assert {(one.flow_name, one.event) for one in trace.flow_events} == {
        ("cancel_order", "paused"),
        ("track_order", "started"),
    }
    assert [one.outcome for one in trace.confirmation_events] == ["cancelled"]
    await chat("please cancel my order", message_id="m4")
    await chat("yes", message_id="m5")
    trace = await chat.runtime.messages.get_turn_trace_by_message_id("m5")
    assert trace is not None
    assert [one.outcome for one in trace.confirmation_events] == ["confirmed"]


async def test_a_reply_needs_a_text_and_a_conversation(chat: Any) -> None:
    with pytest.raises(NotStoredError, match="c1"):
        await chat.runtime.record_reply("c1", "hello")
    await chat("hi")
    with pytest.raises(InputError, match="reply"):
        await chat.runtime.record_reply("c1", " ")


async def test_what_was_really_said_is_what_is_repeated(chat: Any) -> None:
    await chat.runtime.process(conversation_id="c1", user_id="u1", text="where is my order")
    await chat.runtime.record_reply("c1", "Which of your orders do you mean?")
    assert (await chat("say that again")).reply == "Which of your orders do you mean?"
