"""What jazzmine wrote and we could not write again is carried whole, or moved aside; it never shuts a conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from jazzmine_dspy.integrations.jazzmine.working_memory import JazzmineCodec
from jazzmine_dspy.memory.working import InMemoryWorkingMemoryStore, Presence, RedisWorkingMemoryStore
from jazzmine_dspy.memory.working.in_process import InProcessBackend

pytestmark = pytest.mark.row("W19", "W22")

HALF = "a\ud800"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def call(**fields: Any) -> dict[str, Any]:
    return {
        "tool_name": "t", "arguments": {}, "result": None, "result_summary": "", "success": True, "error": "",
        "turn_number": 1, "call_index": 0, "called_at": 1.0, "step": None, "branch": None, **fields,
    }  # fmt: skip


def flow(**fields: Any) -> dict[str, Any]:
    return {
        "flow_id": "f", "flow_name": "pay", "flow_type": "flow", "status": "active", "started_at_turn": 1,
        "started_at": 1.0, "priority": [], "tools_required": [], "current_step": 0, "total_steps": 0,
        "step_results": [], "branch_results": {}, "condition_expr": None, "condition_branch_taken": None,
        "tool_call_history": [], "slots": {}, **fields,
    }  # fmt: skip


def slot(**fields: Any) -> dict[str, Any]:
    return {
        "name": "iban", "description": "", "type": "text", "required": True, "collected": True, "value": "x",
        "collected_at_turn": 1, "validation_error": "", **fields,
    }  # fmt: skip


def ended(**fields: Any) -> dict[str, Any]:
    return {
        "flow_id": "", "flow_name": "f", "flow_type": "flow", "status": "completed", "started_at_turn": 1,
        "ended_at_turn": 1, "slot_values": {}, "tool_summaries": [], **fields,
    }  # fmt: skip


def asked(payload: Any) -> dict[str, Any]:
    waiting = flow(status="awaiting_confirmation")
    confirmation = {
        "flow_id": "f", "action_description": "Pay?", "action_payload": payload, "requested_at_turn": 1,
        "requested_at": 1.0, "timeout_turns": 3,
    }  # fmt: skip
    return record(active_flow=waiting, pending_confirmation=confirmation)


def record(**fields: Any) -> dict[str, Any]:
    return {
        "conversation_id": "c1", "user_id": "u", "agent_id": "", "created_at": 1.0, "last_updated": 1.0,
        "status": "idle", "turn_number": 3, "active_flow": None, "flow_history": [],
        "pending_confirmation": None, "entity_workspace": {}, "entity_max_age_turns": 5, "topic_history": [],
        "last_agent_response": None, "last_agent_intent": None, "current_turn": None, **fields,
    }  # fmt: skip


CARRIED = {
    "half a pair in the last answer": record(last_agent_response=HALF),
    "half a pair in the user's id": record(user_id=HALF),
    "half a pair in a topic": record(topic_history=[{"turn_number": 1, "intent": HALF, "summary": ""}]),
    "half a pair in an argument's name": record(
        active_flow=flow(tool_call_history=[call(arguments={HALF: 1})])
    ),
    "half a pair in a field of nobody": record(of_nobody=HALF),
    **{
        f"a result {depth} deep": record(active_flow=flow(tool_call_history=[call(result=nested(depth))]))
        for depth in (190, 194, 195, 196, 197, 198, 199, 200, 201, 254, 255, 256, 400, 900)
    },
    "a slot's value 400 deep": record(active_flow=flow(slots={"iban": slot(value=nested(400))})),
    "a field of nobody 400 deep": record(of_nobody=nested(400)),
}

REFUSED = {
    "a slot of no name": record(active_flow=flow(slots={HALF: slot()})),
    "an entity of no name": record(
        entity_workspace={
            HALF: {
                "name": HALF,
                "attributes": [],
                "first_seen_turn": 1,
                "last_seen_turn": 1,
                "mention_count": 1,
            }
        }
    ),
    "a history over 4 MB": record(flow_history=[ended(slot_values={"x": "y" * 1000})] * 4500),
    "a history that carrying makes too large": record(
        flow_history=[ended(slot_values={"x": float("nan"), "y": "é" * 30})] * 9000
    ),
    "a payload that is a text": asked("pay 5"),
    "a payload that is a list": asked([{"amount": 5}]),
    "a payload with no number": asked({"amount": float("nan")}),
    "a payload 400 deep": asked({"amount": nested(400)}),
    "a payload with half a pair": asked({"amount": HALF}),
}


class Place:
    """A store in jazzmine's mode, and jazzmine's own side of it."""

    def __init__(self, store: Any, client: Any = None) -> None:
        self.store, self._client = store, client

    async def put(self, wrote: dict[str, Any]) -> bytes:
        data = json.dumps(wrote).encode()
        if self._client is not None:
            await self._client.set("wm:c1", data)
        else:
            await self.store.get_or_create("c1", "u")
            self.store.backend._conversations["c1"].data = data
        return data

    async def theirs(self) -> Any:
        if self._client is not None:
            return json.loads(await self._client.get("wm:c1"))
        return json.loads(self.store.backend._conversations["c1"].data.partition(b"\n")[0])


@pytest.fixture(params=["in process", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def place(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    if kind == "redis":
        server = request.getfixturevalue("shared_server")
        client = Redis.from_url(server.url)
        store: Any = RedisWorkingMemoryStore(server.url, records="jazzmine", timeout=10.0)
        yield Place(store, client)
        await client.flushall()
        await client.aclose()
    else:
        store = InMemoryWorkingMemoryStore(backend=InProcessBackend(), codec=JazzmineCodec())
        yield Place(store)
    await store.close()


@pytest.mark.parametrize("what", CARRIED)
async def test_what_we_cannot_hold_is_written_back_as_it_was(place: Place, what: str) -> None:
    await place.put(CARRIED[what])
    state = await place.store.get("c1")
    assert state is not None
    saved = await place.store.save(state)
    assert await place.store.get("c1") == saved
    assert await place.store.aside("c1") == []
    assert await place.theirs() == {**CARRIED[what], "last_updated": saved.last_updated}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_can_neither_be_held_nor_carried_is_moved_aside_with_its_cause(
    place: Place, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = await place.put(REFUSED[what])
    assert await place.store.get("c1") is None
    assert await place.store.presence("c1") is Presence.UNREADABLE
    [aside] = await place.store.aside("c1")
    assert aside.data is not None
    assert aside.data.rstrip(b"\n") == data
    assert aside.cause
    assert aside.cause in caplog.text
    fresh = await place.store.get_or_create("c1", "u")
    assert fresh.began_after == "corruption"
    assert await place.store.confirm_action("c1") is None
    assert (await place.store.get("c1")).turn_number == 0


async def test_a_payload_that_is_none_is_an_empty_one_for_us_and_stays_none_for_jazzmine(
    place: Place,
) -> None:
    await place.put(asked(None))
    state = await place.store.get("c1")
    assert state.pending_confirmation.action_payload == {}
    await place.store.save(state)
    assert (await place.theirs())["pending_confirmation"]["action_payload"] is None


async def test_a_payload_that_is_confirmed_is_the_one_that_was_asked_about(place: Place) -> None:
    await place.put(asked({"amount": 5, "to": {"iban": "DE1"}}))
    assert await place.store.confirm_action("c1") == {"amount": 5, "to": {"iban": "DE1"}}
