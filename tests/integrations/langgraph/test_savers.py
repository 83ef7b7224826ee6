"""A graph over each saver in its asynchronous form, its streams, and a graph within another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

import postgres_server
from graph_talks import TALK, payload, saver, send, thread


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    server = postgres_server.Postgres()
    server.start()
    yield server
    server.remove()


@pytest.mark.row("N3")
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
async def test_a_talk_over_each_saver(
    make_graph: Callable[..., Any], request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    def url() -> str:
        server = request.getfixturevalue("postgres")
        return str(server.url(server.new_database()))

    async with saver(kind, tmp_path, url) as checkpoints:
        graph = make_graph(checkpoints)
        said = []
        for text in TALK:
            result = await send(graph, text, thread())
            said.append(result["last_response"])
            # Another process, with the same stores and checkpoints.
            graph = make_graph(checkpoints, service=graph.service)
        assert said == [
            "Which order?", "Cancel order 4471. Shall I?", "Done: cancel order.", "Which order?",
            "Order 5555 is on its way.", "Happy to help.", "Done: opening hours.",
        ]  # fmt: skip
        assert [one["content"] for one in result["messages"][::2]] == list(TALK[-5:])
        other = await send(graph, "4471", thread("c2"))
        assert len(other["messages"]) == 2


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_synchronous_call_says_what_to_call_over_each_saver(
    make_graph: Callable[..., Any], tmp_path: Path, kind: str
) -> None:
    async with saver(kind, tmp_path, str) as checkpoints:
        with pytest.raises(Exception, match="ainvoke"):
            make_graph(checkpoints).invoke({"user_message": "hi"}, thread())


@pytest.mark.row("N3")
async def test_the_streams_show_updates_messages_and_events(make_graph: Callable[..., Any]) -> None:
    async def answer(state: Mapping[str, Any]) -> AsyncIterator[str]:
        for part in ("You're ", "welcome."):
            yield part

    graph = make_graph(answer=answer, actions={"opening_hours": lambda slots, action_id: None})
    await send(graph, "where is my order", thread())

    async def streamed(text: str) -> dict[str, list[Any]]:
        modes: dict[str, list[Any]] = {"updates": [], "messages": [], "custom": []}
        async for mode, chunk in graph.astream({"user_message": text}, thread(), stream_mode=list(modes)):
            modes[mode].append(chunk)
        return modes

    modes = await streamed("thanks")
    assert [name for update in modes["updates"] for name in update] == [
        "understand", "digression", "respond", "__interrupt__",
    ]  # fmt: skip
    parts = [message for message, _ in modes["messages"]]
    assert [part.content for part in parts] == ["You're ", "welcome.", " Which order?"]
    assert len({part.id for part in parts}) == 1
    assert [event["event"] for event in modes["custom"]] == ["part", "part", "reply"]
    assert modes["custom"][-1]["text"] == "You're welcome. Which order?"
    modes = await streamed("when are you open")
    assert [message.content for message, _ in modes["messages"]] == [modes["custom"][-1]["text"]]
    assert [(event["event"], event.get("status")) for event in modes["custom"]] == [
        ("action", "running"), ("action", "ended"), ("reply", None),
    ]  # fmt: skip


class Parent(MessagesState, total=False):
    user_message: str
    last_response: str


@pytest.mark.row("N3")
async def test_a_graph_within_a_graph(make_graph: Callable[..., Any]) -> None:
    child = make_graph(False)

    def heard(state: Parent) -> dict[str, str]:
        return {"user_message": str(state["messages"][-1].text)}

    parent = StateGraph(Parent)
    parent.add_node("heard", heard)
    parent.add_node("talk", child)
    parent.add_edge(START, "heard")
    parent.add_edge("heard", "talk")
    graph = parent.compile(checkpointer=InMemorySaver())
    first = await graph.ainvoke({"messages": [HumanMessage("please cancel my order")]}, thread())
    assert payload(first)["text"] == "Which order?"
    assert payload(await graph.ainvoke(Command(resume="4471"), thread()))["type"] == "confirm"
    last = await graph.ainvoke(Command(resume={"user_message": "yes"}), thread())
    assert last["last_response"] == "Done: cancel order."
    assert [message.content for message in last["messages"]][1:] == [
        "please cancel my order", "Which order?", "4471", "Cancel order 4471. Shall I?", "yes", "Done: cancel order.",
    ]  # fmt: skip


def test_without_langgraph_the_package_imports_and_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "langgraph.py").write_text("raise ModuleNotFoundError('no', name='langgraph')\n")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import jazzmine_dspy.integrations.langgraph as ours
assert "langchain_core" not in sys.modules
try:
    ours.build_graph
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'jazzmine-dspy[langgraph]'" in done.stdout, done.stderr
