"""What a turn leaves behind: messages with decisions, and traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy import Runtime, TurnDecision, TurnProgram
from jazzmine_dspy.dialogue.events import Events
from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.memory.errors import NotStoredError
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import Message, MessageRole, Turn
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import LLMCallRecord, TaskEmission, ToolTrace, TurnTrace
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.runtime.tracing import AgentWork, turn_trace, with_reply

NOON = 1_700_000_000.0


@pytest.mark.row("M8", "M2")
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
    assert message.state == {"date": "2023-11-14"}
    await chat("4471", message_id="m2")
    later = await chat.runtime.messages.get_message("m2")
    assert later is not None
    assert (later.state["flow"], later.state["awaiting"]) == ("track_order", "order_id")


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
    lm = scripted_lm(speaking)
    program = TurnProgram(registry, policy=Policy(shape="staged").named("lm")).bind(lm=lm)
    runtime = Runtime(program, clock=lambda: NOON, agent_id="shop")
    outcome = await runtime.process(conversation_id="c1", user_id="u1", text="it is 4471", message_id="m1")
    assert outcome.decision is not None
    assert outcome.next.flow == "track_order"
    trace = await runtime.messages.get_turn_trace_by_message_id("m1")
    assert trace is not None
    assert [call.purpose for call in trace.llm_calls] == ["enhancement", "flow_selection", "understanding"]
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


def staged(registry: FlowRegistry, script: Any, *, clock: Callable[[], float] | None = None) -> TurnProgram:
    program = TurnProgram(registry, policy=Policy(shape="staged").named("lm"))
    return program.bind(lm=scripted_lm(script), **({"clock": clock} if clock else {}))


def speaking(request: Any) -> str:
    asked = str(request)
    if "flows: letters" in asked:
        return '{"flows":["A"]}'
    if "enhanced_query" not in asked:
        return '{"commands":[]}'
    return (
        '{"enhanced_query":"Where is order 4471?","sentiment_score":-0.5,"intent":"track_order","entities":[{"name":'
        '"Order 4471","attributes":["late"]}],"is_cancellation":false,"is_continuation":false}'
    )


@pytest.mark.row("M4")
async def test_the_trace_has_every_call_with_its_time_tokens_and_outcome(registry: FlowRegistry) -> None:
    now = [NOON]

    def slow(request: Any) -> Any:
        now[0] += 2.0
        return "no JSON" if "flows: letters" in str(request) else speaking(request)

    clock = lambda: now[0]  # noqa: E731
    program = staged(registry, slow, clock=clock)
    runtime = Runtime(program, clock=clock, agent_id="shop")
    outcome = await runtime.process(conversation_id="c1", user_id="u1", text="it is 4471", message_id="m1")
    assert outcome.decision is not None
    trace = await runtime.messages.get_turn_trace_by_message_id("m1")
    assert trace is not None
    assert [(call.call_id, call.purpose, call.success, call.latency_ms) for call in trace.llm_calls] == [
        ("m1:1", "enhancement", True, 2000.0),
        ("m1:2", "flow_selection", False, 2000.0),
        ("m1:3", "flow_selection", False, 2000.0),
        ("m1:4", "understanding", True, 2000.0),
    ]
    assert [call.timestamp_ms - trace.started_at_ms for call in trace.llm_calls] == [0, 2000, 4000, 6000]
    assert str(trace.llm_calls[1].error).startswith("SelectionError: ")
    assert [call.error for call in trace.llm_calls[::3]] == [None, None]
    usage = outcome.decision.usage
    assert (trace.total_prompt_tokens, trace.total_completion_tokens) == (
        usage.prompt_tokens, usage.completion_tokens,
    )  # fmt: skip
    assert trace.total_tokens == sum(call.total_tokens for call in trace.llm_calls) > 0
    assert len(trace.llm_calls) == usage.lm_calls == 4
    # Wall-clock, and the program's fingerprint.
    assert trace.total_latency_ms == trace.ended_at_ms - trace.started_at_ms == 8000
    assert (trace.user_id, trace.agent_id, trace.turn_number) == ("u1", "shop", 1)
    assert trace.program_fingerprint == program.fingerprint
    (cause,) = trace.errors
    assert "lm: SelectionError: " in cause
    assert (trace.detected_intent, trace.detected_sentiment) == ("track_order", -0.5)
    assert [entity.name for entity in trace.detected_entities] == ["Order 4471"]
    assert (trace.detected_cancellation, trace.detected_continuation) == (False, False)


@pytest.mark.row("M4")
async def test_the_turn_takes_as_long_as_it_is_said_to_take(registry: FlowRegistry) -> None:
    program = staged(registry, speaking).bind()
    state = WorkingMemory(conversation_id="c1", user_id="u1", turn_number=4)
    decision = await program.adecide(Turn(text="it is 4471", flow="track_order"))
    trace = turn_trace(
        state, decision, Events([], [], []), trace_id="t1", message_id="m1", latency_ms=12.0,
        started_at_ms=9_000, fingerprint="ab", turn=Turn(text="it is 4471"),
    )  # fmt: skip
    assert (trace.total_latency_ms, trace.started_at_ms, trace.ended_at_ms) == (12.0, 9_000, 9_012)
    purposes = [call.purpose for call in trace.llm_calls]
    assert purposes == ["enhancement", "flow_selection", "understanding"]
    assert all(call.timestamp_ms >= 9_000 for call in trace.llm_calls)
    assert (trace.program_fingerprint, trace.turn_digest) == ("ab", Turn(text="it is 4471").digest)


@pytest.mark.row("M3", "M4")
def test_the_reply_takes_the_trace_over_with_what_the_agent_did() -> None:
    trace = TurnTrace(
        id="t1", message_id="m1", started_at_ms=1_000, ended_at_ms=1_200, total_latency_ms=200.4, errors=["lm: down"],
        llm_calls=[LLMCallRecord(purpose="decision", model="m", prompt_tokens=5)],
    )  # fmt: skip
    reply = Message(
        id="r1", conversation_id="c1", user_id="u1", role=MessageRole.ASSISTANT, original_content="Done.",
        timestamp=4_000, reasoning_steps=["think"], errors=["tool: slow"],
    )  # fmt: skip
    work = AgentWork(
        tool_traces=[ToolTrace(tool_name="orders.lookup", task_index=0)],
        task_emissions=[TaskEmission(task_index=0, description="Look the order up.")],
        llm_calls=[LLMCallRecord(purpose="agent_loop", model="m", completion_tokens=7)],
    )
    done = with_reply(trace, reply, work)
    assert (done.id, done.message_id, done.total_latency_ms) == ("t1", "r1", 3_000.0)
    assert [call.purpose for call in done.llm_calls] == ["decision", "agent_loop"]
    assert (done.total_tokens, done.reasoning_steps, done.errors) == (
        12,
        ["think"],
        ["lm: down", "tool: slow"],
    )
    assert ([one.tool_name for one in done.tool_traces], [one.description for one in done.task_emissions]) == (
        ["orders.lookup"], ["Look the order up."],
    )  # fmt: skip
    assert TurnTrace.model_validate_json(done.model_dump_json()) == done
    # A reply before the turn began takes no time, and what it was made of stays as it was.
    early = reply.model_copy(update={"timestamp": 5})
    assert with_reply(trace, early, AgentWork()).total_latency_ms == 0.0
    assert (trace.message_id, len(trace.llm_calls), trace.errors) == ("m1", 1, ["lm: down"])


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
