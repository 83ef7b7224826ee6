"""A graph whose runs break off, come twice, or come at once, and actions that fail: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graph_talks import TALK, Killed, killing, payload, send, thread
from jazzmine_dspy import FlowRegistry, Runtime, TurnProgram
from jazzmine_dspy.integrations.langgraph import build_graph
from jazzmine_dspy.memory.errors import ConflictError, StateError
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError


async def texts(graph: Any, role: str, name: str = "c1") -> list[str]:
    """What a conversation's store holds of one side."""
    stored = await graph.service.messages.get_messages_by_conversation_id(name, limit=200)
    return [one.original_content for one in stored if one.role.value == role]


# --- runs that come twice or at once --------------------------------------------------------------------------


async def test_a_run_resumed_twice_takes_its_message_once(make_graph: Callable[..., Any]) -> None:
    graph = make_graph()
    first = await send(graph, "please cancel my order", thread())
    assert first["message_id"]
    both = [graph.ainvoke(Command(resume="4471"), thread()) for _ in range(2)]
    one, two = await asyncio.gather(*both)
    assert one["last_response"] == two["last_response"] == "Cancel order 4471. Shall I?"
    assert one["message_id"] == two["message_id"]
    assert await texts(graph, "user") == ["please cancel my order", "4471"]
    assert await texts(graph, "assistant") == ["Which order?", "Cancel order 4471. Shall I?"]


async def test_a_message_delivered_twice_is_answered_alike(make_graph: Callable[..., Any]) -> None:
    runs: list[str] = []

    async def cancel(slots: dict[str, Any], action_id: str) -> None:
        runs.append(action_id)

    graph = make_graph(actions={"cancel_order": cancel})
    for number, text in enumerate(("please cancel my order", "4471", "yes")):
        first = await send(graph, text, thread(), message_id=f"m{number}")
        again = await send(graph, text, thread(), message_id=f"m{number}")
        assert again["last_response"] == first["last_response"]
    assert first["last_response"] == "Done: cancel order."
    assert len(runs) == 1
    assert len(await texts(graph, "user")) == len(await texts(graph, "assistant")) == 3


async def test_two_messages_on_one_thread_at_once_are_both_taken(make_graph: Callable[..., Any]) -> None:
    graph = make_graph()
    results = await asyncio.gather(
        *(graph.ainvoke({"user_message": text}, thread()) for text in ("where is my order", "4471"))
    )
    assert [one["last_response"] for one in results] == ["Which order?", "Order 4471 is on its way."]
    assert await texts(graph, "user") == ["where is my order", "4471"]
    third = await send(graph, "thanks", thread())
    assert [one["content"] for one in third["messages"]] == [
        "where is my order", "4471", "Which order?", "Order 4471 is on its way.", "thanks", "Happy to help.",
    ]  # fmt: skip


async def test_a_resume_while_an_action_runs_waits_for_its_end(make_graph: Callable[..., Any]) -> None:
    begun, go_on, runs = asyncio.Event(), asyncio.Event(), []

    async def track(slots: dict[str, Any], action_id: str) -> None:
        runs.append(action_id)
        begun.set()
        await go_on.wait()

    graph = make_graph(actions={"track_order": track})
    await send(graph, "where is my order", thread())
    running = asyncio.create_task(send(graph, "4471", thread()))
    await asyncio.wait_for(begun.wait(), 5)
    second = asyncio.create_task(graph.ainvoke(Command(resume="please cancel my order"), thread()))
    await asyncio.sleep(0)
    go_on.set()
    assert (await running)["last_response"] == "Order 4471 is on its way."
    await second
    assert len(runs) == 1


# --- runs that break off --------------------------------------------------------------------------------------


@pytest.mark.row("N3")
async def test_a_run_killed_between_nodes_goes_on_where_it_was(make_graph: Callable[..., Any]) -> None:
    """Each of 20 kills breaks off a talk at another write of a checkpoint; each message comes again, by its id."""
    kills = 0
    for at in range(0, 20, 2):
        for before in (True, False):
            done: list[str] = []

            async def act(slots: dict[str, Any], action_id: str, done: list[str] = done) -> None:
                done.append(action_id)

            actions = dict.fromkeys(("cancel_order", "track_order", "opening_hours"), act)
            saver = InMemorySaver()
            graph = make_graph(killing(saver, at, before=before), actions=actions)
            for number, text in enumerate(TALK):
                given = {"message_id": f"m{number}", "durability": "sync"}
                try:
                    result = await send(graph, text, thread(), **given)
                except Killed:
                    kills += 1
                    graph = make_graph(saver, service=graph.service, actions=actions)
                    result = await send(graph, text, thread(), **given)
                assert result["last_response"]
            assert await texts(graph, "user") == list(TALK)
            assert await texts(graph, "assistant") == [
                "Which order?", "Cancel order 4471. Shall I?", "Done: cancel order.", "Which order?",
                "Order 5555 is on its way.", "Happy to help.", "Done: opening hours.",
            ]  # fmt: skip
            assert len(done) == len(set(done)) == 3
    assert kills == 20


@pytest.mark.parametrize("others", [["please cancel my order"], ["where is my order", "5555", "thanks"]])
async def test_a_run_killed_after_its_action_speaks_for_the_messages_that_waited(
    make_graph: Callable[..., Any], others: list[str]
) -> None:
    runs: list[str] = []

    async def track(slots: dict[str, Any], action_id: str) -> None:
        runs.append(slots["order_id"])
        for text in others if len(runs) == 1 else ():
            await graph.service.process(conversation_id="c1", user_id="ann", text=text)

    saver = InMemorySaver()
    graph = make_graph(saver, actions={"track_order": track})
    await send(graph, "where is my order", thread())
    killing(saver, 3, before=True)
    with pytest.raises(Killed):
        await send(graph, "4471", thread(), durability="sync")
    assert runs == ["4471"]
    graph = make_graph(saver, service=graph.service, actions={"track_order": track})
    result = await graph.ainvoke(None, thread())
    expected = (
        ["Which order?"]
        if len(others) == 1
        else ["Which order?", "Order 5555 is on its way.", "Happy to help."]
    )
    assert result["last_response"].split("\n") == ["Order 4471 is on its way.", *expected]
    assert runs == ["4471", "5555"][: 1 + len(others) // 2]


async def test_a_run_that_broke_off_goes_on_without_ids(make_graph: Callable[..., Any]) -> None:
    saver = killing(InMemorySaver(), 3, before=False)
    graph = make_graph(saver)
    with pytest.raises(Killed):
        await graph.ainvoke({"user_message": "where is my order"}, thread(), durability="sync")
    result = await make_graph(saver, service=graph.service).ainvoke(None, thread(), durability="sync")
    assert result["last_response"] == "Which order?"
    assert await texts(graph, "user") == ["where is my order"]


@pytest.mark.parametrize("store", ["working_memory", "messages"])
async def test_a_store_that_is_down_loses_nothing(
    make_graph: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    async def down(*given: Any, **named: Any) -> None:
        raise MemoryUnavailableError("Down", where="here", remedy="Wait.")

    runs: list[str] = []

    async def track(slots: dict[str, Any], action_id: str) -> None:
        runs.append(slots["order_id"])

    graph = make_graph(actions={"track_order": track})
    await send(graph, "where is my order", thread())
    with monkeypatch.context() as patched:
        part = getattr(graph.service, store)
        for name in ("get", "get_or_create", "save", "store_message", "get_message", "get_immediate_context"):
            if hasattr(part, name):
                patched.setattr(part, name, down)
        if store == "messages":
            # The end of an action needs both stores; its run goes on later, and does not call it again.
            with pytest.raises(MemoryUnavailableError):
                await send(graph, "4471", thread(), message_id="m1")
        else:
            result = await send(graph, "4471", thread(), message_id="m1")
    if store == "messages":
        result = await graph.ainvoke(None, thread())
        assert (result["last_response"], runs) == ("Order 4471 is on its way.", ["4471"])
        return
    assert "again" in result["last_response"]
    assert [flow["flow"] for flow in result["flow_stack"]] == ["track_order"]
    result = await send(graph, "4471", thread(), message_id="m1")
    assert result["last_response"] == "Order 4471 is on its way."
    assert await texts(graph, "user") == ["where is my order", "4471"]


@pytest.mark.parametrize("writes", [True, False])
async def test_a_checkpointer_that_lost_its_newest_entries(
    make_graph: Callable[..., Any], writes: bool
) -> None:
    saver = InMemorySaver()
    graph = make_graph(saver)
    await send(graph, "please cancel my order", thread())
    before = copy.deepcopy((dict(saver.storage["c1"][""]), dict(saver.writes)))
    await send(graph, "4471", thread())
    saver.storage["c1"][""] = before[0]
    if writes:
        saver.writes.clear()
        saver.writes.update(before[1])
        assert payload({"__interrupt__": (await graph.aget_state(thread())).interrupts})["type"] == "slot"
        with pytest.raises(StateError, match=r"shows collecting_slots .* holds awaiting_confirmation"):
            await send(graph, "yes", thread())
    # The store knows that the number was given and the question was put.
    result = await graph.ainvoke({"user_message": "yes"}, thread())
    assert result["last_response"].endswith("Done: cancel order.")
    assert len(result["messages"]) == 6


async def test_a_checkpointer_that_lost_everything(make_graph: Callable[..., Any]) -> None:
    graph = make_graph()
    await send(graph, "please cancel my order", thread())
    graph = make_graph(service=graph.service)
    result = await send(graph, "4471", thread())
    assert result["last_response"] == "Cancel order 4471. Shall I?"
    assert len(result["messages"]) == 4


async def test_a_graph_resumed_with_other_flows(make_graph: Callable[..., Any], overlap: Any) -> None:
    saver = InMemorySaver()
    graph = make_graph(saver)
    await send(graph, "please cancel my order", thread())
    others = FlowRegistry(
        [{"name": "opening_hours", "description": "Hours.", "examples": ["when are you open"]}]
    )
    program = TurnProgram(others).bind(recall=overlap(others)).with_policy("fallback")
    service = Runtime(program, working_memory=graph.service.working_memory, messages=graph.service.messages)
    result = await send(build_graph(service, saver), "4471", thread())
    assert result["flow_stack"] == []
    assert result["last_response"]


# --- actions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["raises", "hangs", "no json", "sync raises", "cancelled"])
async def test_an_action_that_fails_ends_its_flow(make_graph: Callable[..., Any], kind: str) -> None:
    async def track(slots: dict[str, Any], action_id: str) -> Any:
        if kind == "raises":
            raise ValueError("secret")
        if kind == "cancelled":
            raise asyncio.CancelledError
        if kind == "hangs":
            await asyncio.Event().wait()
        return object()

    def blocking(slots: dict[str, Any], action_id: str) -> None:
        raise ValueError("secret")

    action = blocking if kind == "sync raises" else track
    graph = make_graph(actions={"track_order": action}, deadline=0.05)
    await send(graph, "where is my order", thread())
    result = await send(graph, "4471", thread())
    assert result["last_response"] == "That didn't work, sorry: track order."
    assert result["conversation_state"] == "idle"
    state = await graph.service.working_memory.get("c1")
    assert state is not None
    assert [(one.flow_name, one.status.value) for one in state.flow_history] == [("track_order", "failed")]


async def test_a_blocking_action_runs_in_a_thread(make_graph: Callable[..., Any]) -> None:
    graph = make_graph(actions={"track_order": lambda slots, action_id: {"order": slots["order_id"]}})
    await send(graph, "where is my order", thread())
    await send(graph, "4471", thread())
    state = await graph.service.working_memory.get("c1")
    assert state is not None
    assert state.flow_history[0].result == {"order": "4471"}


async def test_an_action_that_answers_after_its_flow_was_cancelled(make_graph: Callable[..., Any]) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def track(slots: dict[str, Any], action_id: str) -> str:
        begun.set()
        await go_on.wait()
        return "late"

    graph = make_graph(actions={"track_order": track})
    await send(graph, "where is my order", thread())
    running = asyncio.create_task(send(graph, "4471", thread()))
    await asyncio.wait_for(begun.wait(), 5)
    await graph.service.finish_action("c1", failed=True)
    go_on.set()
    assert (await running)["last_response"] == "That didn't work, sorry: track order."
    state = await graph.service.working_memory.get("c1")
    assert state is not None
    assert [(one.status.value, one.result) for one in state.flow_history] == [("failed", None)]


async def test_a_caller_that_gives_up_leaves_the_action_running(make_graph: Callable[..., Any]) -> None:
    begun, go_on, runs = asyncio.Event(), asyncio.Event(), []

    async def track(slots: dict[str, Any], action_id: str) -> None:
        runs.append(action_id)
        begun.set()
        await go_on.wait()

    graph = make_graph(actions={"track_order": track})
    await send(graph, "where is my order", thread())
    running = asyncio.create_task(send(graph, "4471", thread(), durability="sync"))
    await asyncio.wait_for(begun.wait(), 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    go_on.set()
    result = await graph.ainvoke(None, thread())
    assert (result["last_response"], len(runs)) == ("Order 4471 is on its way.", 1)


async def test_an_action_that_died_with_its_process_fails_after_its_deadline(
    make_graph: Callable[..., Any],
) -> None:
    graph = make_graph()
    await send(graph, "where is my order", thread())
    await graph.service.process(conversation_id="c1", user_id="ann", text="4471", begin=True)
    waiting = await graph.ainvoke({"user_message": "please cancel my order"}, thread())
    assert waiting["last_response"] == "One moment, I'm still working on it."
    late = make_graph(service=graph.service, deadline=-1.0)
    result = await late.ainvoke({"user_message": "5555"}, thread())
    assert result["last_response"].splitlines()[-3:] == [
        "That didn't work, sorry: track order.", "Which order?", "Cancel order 5555. Shall I?",
    ]  # fmt: skip


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.row("G5")
@pytest.mark.parametrize(
    "value", ["", "\x00", "x" * 8001, "\ud800", 4, {"text": "4471"}, {"user_message": 4}]
)
async def test_a_resume_that_is_no_message_interrupts_again(
    make_graph: Callable[..., Any], value: Any
) -> None:
    graph = make_graph()
    await send(graph, "where is my order", thread())
    again = await graph.ainvoke(Command(resume=value), thread())
    assert payload(again)["slot"] == "order_id"
    assert "Pass" in payload(again)["error"] or "text" in payload(again)["error"]
    assert (await graph.ainvoke(Command(resume="4471"), thread()))[
        "last_response"
    ] == "Order 4471 is on its way."
    assert await texts(graph, "user") == ["where is my order", "4471"]


@pytest.mark.row("G5")
async def test_inputs_that_no_turn_can_be_made_of_are_refused(make_graph: Callable[..., Any]) -> None:
    graph = make_graph()
    with pytest.raises(InputError, match="no message"):
        await graph.ainvoke({"messages": []}, thread())
    with pytest.raises(InputError, match="text is empty"):
        await graph.ainvoke({"user_message": " "}, thread())
    with pytest.raises(InputError, match="must be a string, not int"):
        await graph.ainvoke({"user_message": 4}, thread())
    result = await graph.ainvoke({"user_message": "where is my order"}, thread())
    assert result["last_response"] == "Which order?"
    with pytest.raises(ConflictError):
        await graph.ainvoke({"user_message": "hi"}, {"configurable": {"thread_id": "c1", "user_id": "eve"}})


def test_functions_that_no_flow_has_are_refused(make_graph: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"no flow 'track_ordr'.*track_order"):
        make_graph(actions={"track_ordr": print})
    with pytest.raises(InputError, match="cannot be called"):
        make_graph(actions={"track_order": "track"})


def test_a_synchronous_call_says_what_to_call(make_graph: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="ainvoke"):
        make_graph().invoke({"user_message": "hi"}, thread())
