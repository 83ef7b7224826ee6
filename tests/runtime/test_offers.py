"""U11 and U12 over turns: the offer to go back to a flow, and the answers to it, over each store."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

import redis_servers
from jazzmine_dspy import Runtime, TurnProgram
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, WorkingMemoryStore
from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore

OFFER = "Shall we go back to this: cancel order?"


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    found = redis_servers.binaries()
    if not found:
        pytest.skip("no Redis or Valkey here; the extra `dev` installs some")
    with redis_servers.server() as one:
        yield str(one.url)


@pytest_asyncio.fixture(params=["in process", "redis"])
async def memory(request: pytest.FixtureRequest) -> AsyncIterator[WorkingMemoryStore]:
    if request.param == "in process":
        yield InMemoryWorkingMemoryStore()
        return
    url = request.getfixturevalue("redis")
    store = RedisWorkingMemoryStore(url, prefix=f"offers-{uuid.uuid4().hex[:8]}")
    yield store
    await store.close()


@pytest_asyncio.fixture
async def offered(floor: TurnProgram, memory: WorkingMemoryStore, make_chat: Any) -> Any:
    """A conversation in which the assistant has just offered to go back."""
    chat = make_chat(Runtime(floor, working_memory=memory))
    for text in ("please cancel my order", "where is my order", "never mind"):
        outcome = await chat(text)
    assert (outcome.next.kind, outcome.next.flow) == ("resume", "cancel_order")
    assert outcome.reply.endswith(OFFER)
    assert outcome.state.offered_flow == "cancel_order"
    return chat


@pytest.mark.row("U11")
@pytest.mark.parametrize("text", ["yes", "Sure!", "cancel order"])
async def test_a_yes_or_the_name_goes_back(offered: Any, text: str) -> None:
    outcome = await offered(text)
    assert [one.model_dump(mode="json") for one in outcome.decision.commands] == [
        {"type": "resume_flow", "flow": "cancel_order"}
    ]
    assert (outcome.next.kind, outcome.next.slot) == ("ask_slot", "order_id")
    assert outcome.state.offered_flow is None


@pytest.mark.row("U11")
@pytest.mark.parametrize("text", ["no", "never mind"])
async def test_a_no_lets_the_flow_go(offered: Any, text: str) -> None:
    outcome = await offered(text)
    assert [one.model_dump(mode="json") for one in outcome.decision.commands] == [
        {"type": "cancel_flow", "flow": "cancel_order"}
    ]
    assert (outcome.state.paused, outcome.state.flow_history[-1].flow_name) == ([], "cancel_order")


@pytest.mark.row("U11")
async def test_anything_else_goes_on_and_the_offer_lapses(offered: Any) -> None:
    assert (await offered("thanks")).next.kind == "answer"
    late = await offered("yes")
    assert late.decision.commands == []
    assert (late.next.kind, [flow.flow_name for flow in late.state.paused]) == ("none", ["cancel_order"])


@pytest.mark.row("U11")
async def test_another_task_begins_and_the_flow_waits_on(offered: Any) -> None:
    outcome = await offered("when are you open")
    assert (outcome.next.kind, outcome.next.flow) == ("run_flow", "opening_hours")
    # It is offered with that flow's end, and a yes then is the answer.
    assert outcome.next.text.endswith(OFFER)
    assert (await offered("yes")).next.slot == "order_id"


@pytest.mark.row("U10", "U11")
async def test_an_offer_that_is_said_again_is_said_in_full(offered: Any) -> None:
    again = await offered("say that again")
    assert (again.next.kind, again.question) == ("resume", OFFER)
    # The reply to a flow that is to run has no offer in it.
    ready = await offered("when are you open")
    await offered.runtime.record_reply(ready.state.conversation_id, ready.reply)
    again = await offered("say that again")
    assert (again.next.kind, again.reply, again.question) == ("resume", OFFER, OFFER)


@pytest.mark.row("U11")
async def test_the_end_of_an_action_offers_too(offered: Any) -> None:
    runtime = offered.runtime
    await runtime.process(conversation_id="c1", user_id="u1", text="when are you open")
    await runtime.begin_action("c1")
    done = await runtime.finish_action("c1", {"open": "9 to 5"})
    assert (done.next.kind, done.next.flow, done.state.offered_flow) == (
        "resume",
        "cancel_order",
        "cancel_order",
    )
    assert (await offered("yes please")).next.slot == "order_id"


async def test_who_asks_what_was_said_hears_the_offer_again(offered: Any) -> None:
    again = await offered("say that again")
    assert (again.next.kind, again.next.flow) == ("resume", "cancel_order")
    assert again.reply.endswith(OFFER)
    assert (await offered("yes")).next.slot == "order_id"


@pytest.mark.row("U18")
async def test_questions_are_counted_in_the_store(
    floor: TurnProgram, memory: WorkingMemoryStore, make_chat: Any
) -> None:
    chat = make_chat(Runtime(floor, working_memory=memory))
    await chat("please cancel my order")
    kinds = [(await chat(text)).next.kind for text in ("wibble", "wobble", "wubble")]
    assert kinds == ["reask", "reask", "handoff"]
    state = await memory.get("c1")
    assert state is not None
    assert state.escalation == "cancel_order: order_id was asked for 3 times in vain"
    assert (await chat("4471")).next.kind == "confirm"
    state = await memory.get("c1")
    assert state is not None
    assert (state.escalation, state.question_counts) == ("", {"cancel_order?": 1})
