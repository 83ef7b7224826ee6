"""Records written by a newer version are read, and keep what only that version knows."""

from __future__ import annotations

import json
from typing import Any

from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.models.messages import Entity
from jazzmine_dspy.models.traces import LLMCallRecord
from jazzmine_dspy.testing.messages.harness import (
    Harness,
    Kind,
    Suite,
    conversation,
    message,
    trace,
)


async def _add(
    behind: Harness, store: MessageStore, kind: Kind, record_id: str, **new: Any
) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(await behind.raw(store, kind, record_id)) | new
    await behind.corrupt(store, kind, record_id, json.dumps(data))
    return data


async def _raw(behind: Harness, store: MessageStore, kind: Kind, record_id: str) -> Any:
    return json.loads(await behind.raw(store, kind, record_id))


class NewerSuite(Suite):
    """Fields of a newer version, at the top and within."""

    async def test_a_message_with_unknown_fields_is_read(self, store: MessageStore, behind: Harness) -> None:
        given = message(1, entities=[Entity(name="lamp")])
        await store.store_message(given)
        within = [{"name": "lamp", "attributes": [], "colour": "red"}]
        await _add(behind, store, "message", "c1-m1", mood={"v": [1, None]}, entities=within)
        assert await store.get_message("c1-m1") == given
        page = await store.get_messages_by_conversation_id("c1")
        assert (page, page.damaged) == ([given], ())

    async def test_an_update_keeps_unknown_fields(self, store: MessageStore, behind: Harness) -> None:
        given = message(1, entities=[Entity(name="lamp")])
        await store.store_message(given)
        within = [{"name": "lamp", "attributes": [], "colour": "red"}]
        await _add(behind, store, "message", "c1-m1", mood={"v": [1, None]}, entities=within)
        await store.update_message(message(1, entities=given.entities, intent="new"))
        await store.store_message(message(1, invoked_tools=["find"]))
        await store.flag_message("c1-m1")
        raw = await _raw(behind, store, "message", "c1-m1")
        assert (raw["mood"], raw["entities"]) == ({"v": [1, None]}, within)
        assert (raw["intent"], raw["invoked_tools"]) == ("new", ["find"])

    async def test_a_trace_keeps_unknown_fields(self, store: MessageStore, behind: Harness) -> None:
        given = trace(llm_calls=[LLMCallRecord(purpose="decision", model="m")])
        await store.store_turn_trace(given)
        calls = (await _raw(behind, store, "trace", "t1"))["llm_calls"]
        calls[0]["cached_tokens"] = 7
        await _add(behind, store, "trace", "t1", llm_calls=calls, cost=0.5)
        assert await store.get_turn_trace("t1") == given
        given.total_latency_ms = 4.0
        await store.store_turn_trace(given)
        raw = await _raw(behind, store, "trace", "t1")
        assert (raw["cost"], raw["llm_calls"], raw["total_latency_ms"]) == (0.5, calls, 4.0)

    async def test_a_conversation_keeps_unknown_fields(self, store: MessageStore, behind: Harness) -> None:
        await store.store_conversation(conversation())
        await _add(behind, store, "conversation", "c1", channel="phone")
        await store.ensure_conversation(conversation(last_updated_at=5))
        await store.update_conversation(conversation(title="new", last_updated_at=5))
        assert await store.get_conversation("c1") == conversation(title="new", last_updated_at=5)
        assert (await _raw(behind, store, "conversation", "c1"))["channel"] == "phone"

    async def test_a_record_of_an_older_version_is_read(self, store: MessageStore, behind: Harness) -> None:
        await store.store_message(message(1, intent="x"))
        said = ("id", "conversation_id", "user_id", "role", "original_content", "timestamp")
        raw = await _raw(behind, store, "message", "c1-m1")
        await behind.corrupt(store, "message", "c1-m1", json.dumps({name: raw[name] for name in said}))
        assert await store.get_message("c1-m1") == message(1)
        await store.update_message(message(1, intent="y"))
        assert await store.get_message("c1-m1") == message(1, intent="y")
