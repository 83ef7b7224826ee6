"""The shipped program as a LangGraph graph: a talk about a flight. Run: python examples/langgraph_talk.py"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from jazzmine_dspy import FlowRegistry, Runtime, load
from jazzmine_dspy.integrations.langgraph import build_graph

FLOWS = [
    {
        "name": "book_flight",
        "description": "Book a flight.",
        "examples": ["book a flight", "I want to fly somewhere"],
        "confirm": "Fly from {origin} to {destination}. Shall I book?",
        "slots": [
            {"name": "origin", "type": "text", "ask": "Where from?"},
            {"name": "destination", "type": "text", "ask": "Where to?"},
        ],
        "responses": {"done": "Booked to {destination}."},
    },
    {"name": "opening_hours", "description": "Tell the opening hours.", "examples": ["when are you open"]},
]
TALK = ("I want to book a flight", "New York", "What cities do you support?", "Boston", "yes")


async def book(slots: dict[str, Any], action_id: str) -> dict[str, str]:
    """Book the flight; ``action_id`` is the same where it runs again after a crash."""
    return {"booking": action_id, "to": slots["destination"]}


async def answer(state: Mapping[str, Any]) -> str:
    """Answer a question; the graph puts the rest of its reply after it."""
    return f"From {state['slots'].get('origin', 'here')} we fly to Boston, Rome and Oslo."


async def main() -> None:
    """Hold the talk, and print the nodes that each message passes and the reply."""
    service = Runtime(load("support", flows=FlowRegistry(FLOWS)))
    graph = build_graph(service, InMemorySaver(), actions={"book_flight": book}, answer=answer)
    config: Any = {"configurable": {"thread_id": "c1", "user_id": "ann"}}
    for text in TALK:
        snapshot = await graph.aget_state(config)
        given: Any = Command(resume=text) if snapshot.interrupts else {"user_message": text}
        path = [
            name async for update in graph.astream(given, config, stream_mode="updates") for name in update
        ]
        reply = (await graph.aget_state(config)).values["last_response"]
        print(f"{text}\n  {' > '.join(path)}\n  {reply}")


if __name__ == "__main__":
    asyncio.run(main())
