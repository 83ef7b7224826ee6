"""Questions beside a value or a yes: what the caller answers, what is said without it, and after a kill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graph_talks import Killed, killing, send, thread
from jazzmine_dspy import FlowRegistry, Runtime

ASKS: dict[str, list[Any]] = {
    "cancel": [{"type": "start_flow", "flow": "cancel_order"}],
    "4471_and_why": [
        {"type": "set_slot", "name": "order_id", "value": "4471"},
        {"type": "ask", "topic": "why"},
    ],
    "yes_but_when": ["affirm", {"type": "ask", "topic": "when"}],
}


@pytest.mark.row("U10")
async def test_a_question_beside_a_value_or_a_yes_is_answered_by_the_caller(
    make_graph: Callable[..., Any], by_hand: Callable[..., Any]
) -> None:
    program, ran = by_hand(**ASKS), list[str]()

    async def answer(state: Mapping[str, Any]) -> str:
        return f"About {state['user_message']!r}: at noon."

    def act(slots: Mapping[str, Any], action_id: str) -> None:
        ran.append(slots["order_id"])

    replies = {}
    for name, given in (("with", answer), ("without", None)):
        graph = make_graph(service=Runtime(program), answer=given, actions={"cancel_order": act})
        await send(graph, "cancel", thread())
        replies[name] = [
            (await send(graph, text, thread()))["last_response"] for text in ("4471 and why", "yes but when")
        ]
    question = "Cancel order 4471. Shall I?"
    assert replies["with"] == [
        f"About '4471 and why': at noon. {question}", "About 'yes but when': at noon. Done: cancel order."
    ]  # fmt: skip
    assert replies["without"] == [
        f"I can't answer that here. {question}", "I can't answer that here. Done: cancel order."
    ]  # fmt: skip
    assert ran == ["4471", "4471"]


@pytest.mark.row("N3", "U10")
@pytest.mark.parametrize("ask", ["I can't answer that here.", ""])
async def test_a_run_killed_between_nodes_answers_what_was_asked_beside_a_value_or_a_yes(
    make_graph: Callable[..., Any], by_hand: Callable[..., Any], registry: FlowRegistry, ask: str
) -> None:
    kills, program = 0, by_hand(**ASKS)
    program.registry = FlowRegistry(registry, **registry.habits | {"texts": {"en": {"ask": ask}}})
    for at in range(12):
        order: list[str] = []

        async def answer(state: Mapping[str, Any], order: list[str] = order) -> str:
            order.append(state["user_message"])
            return f"<{state['user_message']}>"

        async def act(slots: dict[str, Any], action_id: str, order: list[str] = order) -> None:
            order.append("action")

        options, saver = {"answer": answer, "actions": {"cancel_order": act}}, InMemorySaver()
        graph = make_graph(killing(saver, at, before=bool(at % 2)), service=Runtime(program), **options)
        for text in ("cancel", "4471 and why", "yes but when"):
            given = {"message_id": text, "durability": "sync"}
            try:
                await send(graph, text, thread(), **given)
            except Killed:
                kills += 1
                graph = make_graph(saver, service=graph.service, **options)
                await send(graph, text, thread(), **given)
        stored = await graph.service.messages.get_messages_by_conversation_id("c1", limit=200)
        assert [one.original_content for one in stored if one.role.value == "assistant"] == [
            "Which order?", "<4471 and why> Cancel order 4471. Shall I?", "<yes but when> Done: cancel order.",
        ]  # fmt: skip
        # Nobody who has agreed waits for an answer.
        assert order.index("action") < order.index("yes but when")
        assert order.count("action") == 1
    assert kills == 12
