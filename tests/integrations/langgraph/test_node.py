"""Understanding as a node of a graph of one's own: its state holds the conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from graph_talks import thread
from jazzmine_dspy import TurnProgram
from jazzmine_dspy.integrations.langgraph import UnderstandState, route, understand_node
from jazzmine_dspy.integrations.langgraph.state import ROUTES
from jazzmine_dspy.models.errors import InputError


def own_graph(program: TurnProgram) -> Any:
    def speaking(name: str) -> Any:
        def node(state: UnderstandState) -> dict[str, Any]:
            return {"messages": [AIMessage(state["last_response"], name=name)]}

        return node

    graph = StateGraph(UnderstandState)
    graph.add_node("understand", understand_node(program))
    for name in ROUTES:
        graph.add_node(name, speaking(name))
        graph.add_edge(name, END)
    graph.add_edge(START, "understand")
    graph.add_conditional_edges("understand", route, list(ROUTES))
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.row("N3", "U10")
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_slots_live_in_the_graphs_own_state(booking: TurnProgram, asynchronous: bool) -> None:
    graph, walk = own_graph(booking), []
    for text in (
        "I want to book a flight", "New York", "What cities do you support?", "Boston", "check me in",
        "Actually, cancel", "yes", "next friday", "yes",
    ):  # fmt: skip
        given = {"messages": [HumanMessage(text)]}
        state = await graph.ainvoke(given, thread()) if asynchronous else graph.invoke(given, thread())
        last = state["messages"][-1]
        walk.append((last.name, last.content.rpartition(". ")[2], state["next_step"]["kind"]))
    assert walk == [
        ("flow_stack", "Where from?", "ask_slot"),
        ("validate", "Where to?", "ask_slot"),
        ("digression", "Where to?", "answer"),
        ("validate", "Which day?", "ask_slot"),
        ("flow_stack", "Which booking code?", "ask_slot"),
        ("flow_stack", "Shall we go back to this: book flight?", "resume"),
        ("flow_stack", "Which day?", "ask_slot"),
        ("validate", "Shall I book?", "confirm"),
        ("confirm", "One moment.", "run_flow"),
    ]
    assert state["next_step"]["text"] == "Booked to Boston."
    assert state["slots"]["origin"] == "New York"
    for name in ("memory", "decision", "next_step", "slots", "flow_stack"):
        assert json.loads(json.dumps(state[name])) == state[name]


async def test_the_history_reaches_the_turn(booking: TurnProgram) -> None:
    graph, turns = own_graph(booking), []
    adecide = booking.adecide

    async def noting(turn: Any, **options: Any) -> Any:
        turns.append(turn)
        return await adecide(turn, **options)

    booking.adecide = noting
    try:
        messages = [
            SystemMessage("Be brief."),
            HumanMessage("hello"),
            AIMessage("Hi!"),
            HumanMessage([{"type": "text", "text": "bye"}]),
        ]
        await graph.ainvoke({"messages": messages}, thread())
    finally:
        del booking.adecide
    assert turns[0].text == "bye"
    assert [(one.role.value, one.text) for one in turns[0].history] == [
        ("system", "Be brief."), ("user", "hello"), ("assistant", "Hi!"),
    ]  # fmt: skip


@pytest.mark.row("G5")
@pytest.mark.parametrize("messages", [[], [AIMessage("hi")], [HumanMessage(" ")], [HumanMessage("x" * 8001)]])
async def test_what_is_no_message_of_the_user_is_refused(booking: TurnProgram, messages: list[Any]) -> None:
    with pytest.raises(InputError):
        await own_graph(booking).ainvoke({"messages": messages}, thread())
