"""A shop's assistant as a graph, and the shipped program with the fifth document's booking flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langgraph.checkpoint.memory import InMemorySaver

from jazzmine_dspy import FlowRegistry, Runtime, TurnProgram, load
from jazzmine_dspy.integrations.langgraph import build_graph
from shop_talks import by_hand, decision, floor, overlap, registry

__all__ = ["by_hand", "decision", "floor", "overlap", "registry"]

BOOKING = [
    {
        "name": "book_flight",
        "description": "Book a flight.",
        "examples": ["book a flight", "I want to fly somewhere", "get me on a plane"],
        "confirm": "Fly from {origin} to {destination} on {day}. Shall I book?",
        "slots": [
            {"name": "origin", "type": "text", "ask": "Where from?"},
            {"name": "destination", "type": "text", "ask": "Where to?"},
            {"name": "day", "type": "date", "ask": "Which day?"},
        ],
        "responses": {"done": "Booked to {destination}."},
    },
    {
        "name": "check_in",
        "description": "Check in for a flight.",
        "examples": ["check me in", "I want to check in"],
        "slots": [{"name": "code", "type": "text", "pattern": "[A-Z0-9]{6}", "ask": "Which booking code?"}],
    },
]


@pytest.fixture(scope="session")
def booking() -> TurnProgram:
    """The shipped program, without a language model, on flows that it has never seen."""
    return load("support", flows=FlowRegistry(BOOKING))


@pytest.fixture
def make_graph(floor: TurnProgram) -> Callable[..., Any]:
    """Builds a graph over a new runtime on the shop's flows, or over a ``service``."""

    def make(saver: Any = None, service: Runtime | None = None, **options: Any) -> Any:
        service = service or Runtime(floor, agent_id="shop")
        graph = build_graph(service, saver or InMemorySaver(), **options)
        graph.service = service
        return graph

    return make
