"""The walks of the fifth document, on the shipped program: slot, digression, intent change, action and queue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graph_talks import payload, send, thread
from jazzmine_dspy import ConversationState, Runtime, TurnProgram
from jazzmine_dspy.integrations.langgraph import build_graph
from jazzmine_dspy.models.decision import Escalation

START = {"messages": [], "slots": {}, "flow_stack": [], "conversation_state": ConversationState.IDLE}
"""What the document begins every run with."""


async def nodes(graph: Any, given: Any, config: dict[str, Any]) -> list[str]:
    """The nodes of a run, in order."""
    return [name async for update in graph.astream(given, config, stream_mode="updates") for name in update]


@pytest.mark.row("N3", "U10")
async def test_the_documents_talk_walks_through_the_nodes_that_it_names(booking: TurnProgram) -> None:
    graph, config = build_graph(Runtime(booking), InMemorySaver()), thread()
    walk = []
    for text in ("I want to book a flight", "New York", "What cities do you support?", "Actually, cancel"):
        snapshot = await graph.aget_state(config)
        given = Command(resume={"user_message": text}) if snapshot.next else {"user_message": text, **START}
        walk.append(await nodes(graph, given, config))
        walk[-1].append((await graph.aget_state(config)).values["last_response"])
    assert walk == [
        ["understand", "flow_stack", "respond", "__interrupt__", "Where from?"],
        ["wait", "understand", "validate", "respond", "__interrupt__", "Where to?"],
        [
            "wait",
            "understand",
            "digression",
            "respond",
            "__interrupt__",
            "I can't answer that here. Where to?",
        ],
        ["wait", "understand", "flow_stack", "respond", walk[-1][-1]],
    ]
    values = (await graph.aget_state(config)).values
    assert (values["slots"], values["flow_stack"], values["conversation_state"]) == ({}, [], "idle")


@pytest.mark.row("N3")
async def test_a_second_turn_keeps_messages_slots_and_the_stack(booking: TurnProgram) -> None:
    graph, config = build_graph(Runtime(booking), InMemorySaver()), thread()
    await graph.ainvoke({"user_message": "I want to book a flight", **START}, config)
    first = await graph.ainvoke(Command(resume="New York"), config)
    assert payload(first) == {
        "type": "slot", "text": "Where to?", "slot": "destination", "options": [], "flow": "book_flight",
    }  # fmt: skip
    # The document's own input, with its empty fields, in the middle of the flow.
    again = await graph.ainvoke({"user_message": "What cities do you support?", **START}, config)
    assert again["slots"] == {"origin": "New York"}
    assert [flow["flow"] for flow in again["flow_stack"]] == ["book_flight"]
    assert again["conversation_state"] == "collecting_slots"
    assert [one["content"] for one in again["messages"]][:4] == [
        "I want to book a flight", "Where from?", "New York", "Where to?",
    ]  # fmt: skip
    values = (await graph.aget_state(config)).values
    assert json.loads(json.dumps(values)) == values
    assert set(again) - {"__interrupt__"} == {
        "user_message", "message_id", "last_response", "messages", "slots", "flow_stack", "conversation_state",
        "decision",
    }  # fmt: skip


@pytest.mark.row("U10")
async def test_an_answer_of_the_callers_is_followed_by_the_open_question(booking: TurnProgram) -> None:
    asked: list[Mapping[str, Any]] = []

    async def answer(state: Mapping[str, Any]) -> str:
        asked.append(state)
        return "We fly to Boston and Rome."

    graph, config = build_graph(Runtime(booking), InMemorySaver(), answer=answer), thread()
    await send(graph, "I want to book a flight", config)
    result = await send(graph, "What cities do you support?", config)
    assert result["last_response"] == "We fly to Boston and Rome. Where from?"
    assert [flow["flow"] for flow in result["flow_stack"]] == ["book_flight"]
    assert payload(result)["slot"] == "origin"
    [state] = asked
    assert state["user_message"] == "What cities do you support?"
    assert state["last_response"] == "I can't answer that here. Where from?"
    stored = await graph.aget_state(config)
    assert stored.values["messages"][-1]["content"] == result["last_response"]


@pytest.mark.parametrize("kind", ["raises", "empty", "late", "hangs"])
async def test_an_answer_that_fails_leaves_the_text_of_the_flow(booking: TurnProgram, kind: str) -> None:
    async def answer(state: Mapping[str, Any]) -> str:
        if kind == "raises":
            raise ValueError("secret")
        if kind == "empty":
            return " "
        await asyncio.Event().wait()
        return "never"

    graph = build_graph(Runtime(booking), InMemorySaver(), answer=answer, deadline=0.01)
    await send(graph, "I want to book a flight", thread())
    result = await send(graph, "What cities do you support?", thread())
    assert result["last_response"] == "I can't answer that here. Where from?"


@pytest.mark.row("N3")
async def test_an_action_under_way_lets_messages_wait(make_graph: Callable[..., Any]) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def track(slots: dict[str, Any], action_id: str) -> dict[str, str]:
        begun.set()
        await go_on.wait()
        return {"day": "Friday"}

    graph, config = make_graph(actions={"track_order": track}), thread()
    await send(graph, "where is my order", config)
    running = asyncio.create_task(send(graph, "4471", config))
    await asyncio.wait_for(begun.wait(), 5)
    queued = await graph.ainvoke({"user_message": "please cancel my order"}, config)
    assert queued["last_response"] == "One moment, I'm still working on it."
    assert (queued["conversation_state"], queued["decision"]) == ("executing_action", {})
    assert "__interrupt__" not in queued
    go_on.set()
    result = await running
    assert result["last_response"] == "Order 4471 is on its way.\nWhich order?"
    assert payload(result)["flow"] == "cancel_order"
    assert [(one["role"], one["content"]) for one in result["messages"]][3:] == [
        ("user", "please cancel my order"),
        ("assistant", "Order 4471 is on its way."),
        ("assistant", "Which order?"),
    ]
    assert (await send(graph, "5555", config))["last_response"] == "Cancel order 5555. Shall I?"


async def test_every_kind_of_question_has_a_payload(make_graph: Callable[..., Any]) -> None:
    graph, config = make_graph(), thread()

    async def waits(text: str) -> tuple[Any, ...]:
        result = await send(graph, text, config)
        one = payload(result)
        assert one["text"] == result["last_response"]
        return one["type"], one["flow"], one["slot"], one["options"]

    assert await waits("please cancel my order") == ("slot", "cancel_order", "order_id", [])
    assert await waits("4471") == ("confirm", "cancel_order", None, ["yes", "no"])
    assert await waits("no") == ("slot", "cancel_order", None, [])
    assert await waits("send it faster") == ("slot", "change_shipping", "order_id", [])
    assert await waits("5555") == ("slot", "change_shipping", "speed", ["standard", "express"])
    assert await waits("express") == ("offer", "cancel_order", None, ["yes", "no"])
    assert await waits("yes") == ("confirm", "cancel_order", None, ["yes", "no"])


async def test_the_offer_of_a_person_has_a_payload(make_graph: Callable[..., Any], overlap: Any) -> None:
    class Angry(TurnProgram):
        async def adecide(self, turn: Any = None, **options: Any) -> Any:
            decided = await super().adecide(turn, **options)
            enhanced = decided.enhancement.model_copy(update={"sentiment_score": -0.9})
            return decided.model_copy(
                update={"enhancement": enhanced, "escalation": Escalation(reason="angry")}
            )

    flows = make_graph().service.registry
    service = Runtime(Angry(flows).bind(recall=overlap(flows)).with_policy("fallback"))
    result = await send(make_graph(service=service), "hello", thread())
    one = payload(result)
    assert (one["type"], one["flow"], one["options"]) == ("offer", None, ["yes", "no"])


async def test_nothing_is_said_to_be_done_before_its_action_has_succeeded(
    make_graph: Callable[..., Any],
) -> None:
    async def fail(slots: dict[str, Any], action_id: str) -> None:
        raise RuntimeError("no")

    graph, config = make_graph(actions={"track_order": fail}), thread()
    await send(graph, "where is my order", config)
    assert (await send(graph, "4471", config))["last_response"] == "That didn't work, sorry: track order."
    assert "on its way" not in json.dumps((await graph.aget_state(config)).values["messages"])
