"""LangGraph: a runtime as a graph, and understanding as a node of your own graph. Needs the extra ``langgraph``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.errors import MissingExtraError

if TYPE_CHECKING:
    from jazzmine_dspy.integrations.langgraph.graph import build_graph
    from jazzmine_dspy.integrations.langgraph.state import GraphState, UnderstandState, route, understand_node

_HOMES = {
    "build_graph": "graph",
    "understand_node": "state",
    "UnderstandState": "state",
    "GraphState": "state",
    "route": "state",
}

__all__ = ["GraphState", "UnderstandState", "build_graph", "route", "understand_node"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
            raise
        raise MissingExtraError(
            "LangGraph is not installed", where=name, remedy="Run: pip install 'jazzmine-dspy[langgraph]'."
        ) from error
