"""The promises of a message store, kept by the one in this process."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError
from jazzmine_dspy.memory.messages import InMemoryMessageStore, MessageStore
from jazzmine_dspy.models.messages import Entity, Message
from jazzmine_dspy.models.traces import LLMCallRecord, TurnTrace


def message(number: int, conversation: str = "c1", **fields: Any) -> Message:
    base: dict[str, Any] = {
        "id": f"{conversation}-m{number}",
        "conversation_id": conversation,
        "user_id": "u1",
        "role": "user" if number % 2 else "assistant",
        "original_content": f"text {number}",
        "timestamp": number,
    }
    return Message(**(base | fields))


@pytest.fixture
async def store() -> InMemoryMessageStore:
    store = InMemoryMessageStore()
    for number in range(1, 8):
        await store.store_message(message(number))
    await store.store_message(message(1, "c2"))
    return store


def test_it_is_a_store() -> None:
    assert isinstance(InMemoryMessageStore(), MessageStore)


async def test_messages_come_back_by_conversation_and_page(store: InMemoryMessageStore) -> None:
    everything = await store.get_messages_by_conversation_id("c1")
    assert [one.timestamp for one in everything] == [1, 2, 3, 4, 5, 6, 7]
    page = await store.get_messages_by_conversation_id("c1", limit=2, offset=3)
    assert [one.timestamp for one in page] == [4, 5]
    assert await store.get_messages_by_conversation_id("c9") == []


async def test_the_context_is_the_newest_in_order_without_the_message_itself(
    store: InMemoryMessageStore,
) -> None:
    context = await store.get_immediate_context("c1", 3, exclude="c1-m7")
    assert [one.timestamp for one in context] == [4, 5, 6]
    assert await store.get_immediate_context("c1", 0) == []


async def test_flagged_messages_never_enter_the_context(store: InMemoryMessageStore) -> None:
    await store.flag_message("c1-m6")
    assert [one.timestamp for one in await store.get_immediate_context("c1", 3)] == [4, 5, 7]
    assert (await store.get_messages_by_conversation_id("c1"))[5].is_flagged
    await store.flag_message("c1-m6", False)
    assert [one.timestamp for one in await store.get_immediate_context("c1", 3)] == [5, 6, 7]


async def test_an_update_keeps_what_was_said_and_a_flag_set_meanwhile(store: InMemoryMessageStore) -> None:
    edited = message(3, enhanced_message="made complete", intent="track_order", original_content="altered")
    await store.flag_message("c1-m3")
    await store.update_message(edited)
    kept = await store.get_message("c1-m3")
    assert kept is not None
    assert (kept.enhanced_message, kept.intent) == ("made complete", "track_order")
    assert (kept.original_content, kept.is_flagged) == ("text 3", True)


async def test_storing_again_updates_and_keeps_the_place(store: InMemoryMessageStore) -> None:
    await store.store_message(message(2, enhanced_message="again"))
    kept = await store.get_messages_by_conversation_id("c1")
    assert [one.timestamp for one in kept] == [1, 2, 3, 4, 5, 6, 7]
    assert kept[1].enhanced_message == "again"


@pytest.mark.parametrize(
    "other", [{"conversation_id": "c2"}, {"original_content": "other"}, {"role": "system"}]
)
async def test_an_id_belongs_to_one_message(store: InMemoryMessageStore, other: dict[str, str]) -> None:
    with pytest.raises(ConflictError, match="c1-m2"):
        await store.store_message(message(2, **other))
    kept = await store.get_message("c1-m2")
    assert kept == message(2)


async def test_unknown_messages_cannot_be_changed(store: InMemoryMessageStore) -> None:
    with pytest.raises(NotStoredError, match="c1-m99"):
        await store.flag_message("c1-m99")
    with pytest.raises(NotStoredError):
        await store.update_message(message(99))
    assert await store.get_message("c1-m99") is None


async def test_nothing_handed_out_is_what_is_kept(store: InMemoryMessageStore) -> None:
    given = message(9, entities=[Entity(name="rug")])
    await store.store_message(given)
    given.entities[0].name = "changed after storing"
    read = await store.get_message("c1-m9")
    assert read is not None
    read.entities[0].name = "changed after reading"
    assert (await store.get_immediate_context("c1", 1))[0].entities == [Entity(name="rug")]


async def test_a_trace_moves_from_the_message_to_the_reply(store: InMemoryMessageStore) -> None:
    call = LLMCallRecord(purpose="decision", model="m", prompt_tokens=3, completion_tokens=2)
    trace = TurnTrace(id="t1", message_id="c1-m1", llm_calls=[call])
    await store.store_turn_trace(trace)
    trace.message_id = "c1-m2"
    await store.store_turn_trace(trace)
    found = await store.get_turn_trace_by_message_id("c1-m2")
    assert found == trace == await store.get_turn_trace_by_message_id("c1-m1")
    assert found is not None
    assert found.total_tokens == 5
    with pytest.raises(ConflictError, match="c1-m2"):
        await store.store_turn_trace(TurnTrace(id="t2", message_id="c1-m2"))
    assert await store.get_turn_trace("t2") is None
