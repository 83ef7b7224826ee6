"""Checkpoints that show another state than the store: a resume is refused, and a saver that outlives it is named."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graph_talks import payload, saver, send, thread
from jazzmine_dspy.memory.errors import StateError

pytestmark = pytest.mark.filterwarnings("ignore:The checkpoints outlive")


async def checkpoint(graph: Any) -> dict[str, Any]:
    """The configuration of a thread's newest checkpoint."""
    found = (await graph.aget_state(thread())).config
    return {"configurable": {**thread()["configurable"], **found["configurable"]}}


@pytest.mark.row("N3")
async def test_a_resume_from_an_older_checkpoint_is_refused_with_both_states(
    make_graph: Callable[..., Any], tmp_path: Path
) -> None:
    runs: list[dict[str, Any]] = []
    async with saver("sqlite", tmp_path, str) as checkpoints:
        graph = make_graph(checkpoints, actions={"cancel_order": lambda slots, action_id: runs.append(slots)})
        await send(graph, "please cancel my order", thread())
        await send(graph, "4471", thread())
        asked = await checkpoint(graph)
        await send(graph, "no", thread())
        before = await graph.service.working_memory.get("c1")
        # LangGraph replays what was resumed there: the message that was taken, answered as before.
        replayed = await graph.ainvoke(Command(resume="yes"), asked)
        assert (replayed["user_message"], replayed["conversation_state"]) == ("no", "in_flow")
        fork = await graph.aupdate_state(asked, {}, as_node="respond")
        with pytest.raises(StateError, match=r"shows awaiting_confirmation .*4471.* holds in_flow .*'c1'"):
            await graph.ainvoke(
                Command(resume="yes"), fork | {"configurable": asked["configurable"] | fork["configurable"]}
            )
        assert runs == []
        assert await graph.service.working_memory.get("c1") == before
        # A run goes on from the store.
        result = await graph.ainvoke({"user_message": "never mind"}, thread())
        assert result["flow_stack"] == []


@pytest.mark.row("N3")
async def test_a_resume_after_an_updated_state_is_refused_and_adopts_nothing(
    make_graph: Callable[..., Any], tmp_path: Path
) -> None:
    runs: list[dict[str, Any]] = []
    async with saver("sqlite", tmp_path, str) as checkpoints:
        graph = make_graph(checkpoints, actions={"cancel_order": lambda slots, action_id: runs.append(slots)})
        await send(graph, "please cancel my order", thread())
        await send(graph, "4471", thread())
        await graph.aupdate_state(thread(), {"slots": {"order_id": "9999"}}, as_node="respond")
        assert payload(await graph.ainvoke(None, thread()))["type"] == "confirm"
        with pytest.raises(StateError, match=r"9999.*4471"):
            await graph.ainvoke(Command(resume="yes"), thread())
        assert runs == []
        with pytest.raises(StateError):
            await graph.ainvoke(None, thread())
        result = await graph.ainvoke({"user_message": "yes"}, thread())
        assert result["last_response"] == "Done: cancel order."
        assert runs == [{"order_id": "4471"}]


@pytest.mark.row("N3")
async def test_a_restart_that_loses_the_store_is_told_before_and_when_it_is_resumed(
    make_graph: Callable[..., Any], tmp_path: Path
) -> None:
    async with saver("sqlite", tmp_path, str) as checkpoints:
        with pytest.warns(UserWarning, match="RedisWorkingMemoryStore"):
            graph = make_graph(checkpoints)
        await send(graph, "please cancel my order", thread())
        restarted = make_graph(checkpoints)
        with pytest.raises(
            StateError, match=r"shows collecting_slots with cancel_order .* holds idle with no flow"
        ):
            await send(restarted, "4471", thread())


@pytest.mark.row("N3")
@pytest.mark.parametrize("checkpointer", [InMemorySaver(), None, False, True])
def test_a_saver_that_outlives_nothing_warns_of_nothing(
    make_graph: Callable[..., Any], checkpointer: Any
) -> None:
    from jazzmine_dspy.integrations.langgraph import build_graph

    service = make_graph().service
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_graph(service, checkpointer)


@pytest.mark.row("N3")
async def test_a_resume_that_comes_again_is_answered_alike(
    make_graph: Callable[..., Any], tmp_path: Path
) -> None:
    async with saver("sqlite", tmp_path, str) as checkpoints:
        graph = make_graph(checkpoints)
        await send(graph, "please cancel my order", thread())
        asked = await checkpoint(graph)
        first = await graph.ainvoke(Command(resume="4471"), thread())
        again = await graph.ainvoke(Command(resume="4471"), asked)
        assert again["last_response"] == first["last_response"]
