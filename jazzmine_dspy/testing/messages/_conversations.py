"""Conversations."""

from __future__ import annotations

import asyncio

import pytest

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError
from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.testing.messages.harness import Suite, conversation, message, trace


class ConversationSuite(Suite):
    """Conversations: storing, finding, changing, and deleting them with all that belongs to them."""

    async def test_a_conversation_comes_back(self, store: MessageStore) -> None:
        given = conversation(title="Zwei Lampen 🪔", created_at=5, last_updated_at=9)
        await store.store_conversation(given)
        assert await store.get_conversation("c1") == given
        assert await store.get_conversation("c2") is None

    async def test_conversations_by_user_and_agent(self, store: MessageStore) -> None:
        await store.store_conversation(conversation("c2"))
        await store.store_conversation(conversation("c1", agent_id="a2"))
        await store.store_conversation(conversation("c3", user_id="u2"))
        assert [one.id for one in await store.get_conversations_by_user_id("u1")] == ["c2", "c1"]
        assert [one.id for one in await store.get_conversations_by_agent_id("a1")] == ["c2", "c3"]
        assert await store.get_conversations_by_user_id("u9") == []

    async def test_pages_of_conversations(self, store: MessageStore) -> None:
        for number in range(5):
            await store.store_conversation(conversation(f"c{number}", created_at=9 - number))
        first = await store.get_conversations_by_user_id("u1", limit=2)
        assert ([one.id for one in first], first.next_offset) == (["c0", "c1"], 2)
        last = await store.get_conversations_by_agent_id("a1", limit=2, offset=3)
        assert ([one.id for one in last], last.next_offset) == (["c3", "c4"], None)

    async def test_an_update_keeps_user_and_beginning(self, store: MessageStore) -> None:
        await store.store_conversation(conversation(created_at=5))
        await store.store_conversation(conversation("c2"))
        await store.update_conversation(
            conversation(title="new", user_id="u9", agent_id="a9", created_at=7, last_updated_at=8)
        )
        changed = conversation(title="new", agent_id="a9", created_at=5, last_updated_at=8)
        assert await store.get_conversation("c1") == changed
        assert [one.id for one in await store.get_conversations_by_agent_id("a1")] == ["c2"]
        assert await store.get_conversations_by_agent_id("a9") == [changed]
        assert [one.id for one in await store.get_conversations_by_user_id("u1")] == ["c1", "c2"]

    async def test_summaries_of_episodes_are_stored_again_and_survive_an_update(
        self, store: MessageStore
    ) -> None:
        first = conversation(title="kept", episode_summaries={0: "greeted", 11: "wanted a lamp 🪔"})
        await store.store_conversation(first)
        assert await store.get_conversation("c1") == first
        await store.update_conversation(conversation(title="new"))
        assert await store.ensure_conversation(conversation()) == first.model_copy(update={"title": "new"})
        second = conversation(episode_summaries={2: "asked for a refund"})
        await store.store_conversation(second)
        assert await store.get_conversation("c1") == second.model_copy(update={"title": "new"})

    async def test_only_what_is_stored_can_be_updated(self, store: MessageStore) -> None:
        with pytest.raises(NotStoredError, match="c1"):
            await store.update_conversation(conversation())
        assert await store.get_conversation("c1") is None

    async def test_storing_a_conversation_again_updates_what_is_given(self, store: MessageStore) -> None:
        await store.store_conversation(conversation(title="kept"))
        await store.store_conversation(conversation(last_updated_at=4))
        assert await store.get_conversation("c1") == conversation(title="kept", last_updated_at=4)

    async def test_a_conversation_belongs_to_one_user(self, store: MessageStore) -> None:
        await store.store_conversation(conversation())
        other = conversation(user_id="u2", title="mine now", last_updated_at=9)
        for call in (store.store_conversation, store.ensure_conversation):
            with pytest.raises(ConflictError, match="c1"):
                await call(other)
        assert await store.get_conversation("c1") == conversation()

    async def test_ensuring_stores_once_and_then_moves_the_time_on(self, store: MessageStore) -> None:
        assert await store.ensure_conversation(conversation(title="first")) == conversation(title="first")
        later = conversation(title="other", agent_id="a2", created_at=3, last_updated_at=6)
        kept = conversation(title="first", last_updated_at=6)
        assert await store.ensure_conversation(later) == kept
        assert await store.ensure_conversation(conversation(last_updated_at=5)) == kept
        assert await store.get_conversation("c1") == kept

    async def test_ensuring_from_many_sides_at_once(self, store: MessageStore, second: MessageStore) -> None:
        calls = [
            (store, second)[number % 2].ensure_conversation(conversation(last_updated_at=number))
            for number in range(1, 13)
        ]
        await asyncio.gather(*calls)
        assert await second.get_conversations_by_user_id("u1") == [conversation(last_updated_at=12)]

    async def test_deleting_takes_messages_and_traces_along(self, store: MessageStore) -> None:
        await store.store_conversation(conversation())
        await store.store_conversation(conversation("c2"))
        await store.store_messages([message(1), message(1, "c2"), message(2)])
        await store.store_turn_trace(trace("t1", "c1-m1", conversation_id=""))
        await store.store_turn_trace(trace("t2", "c1-m9"))
        await store.store_turn_trace(trace("t3", "c2-m1", conversation_id="c2"))
        assert await store.delete_conversation("c1")
        assert await store.get_conversation("c1") is None
        assert await store.get_messages_by_conversation_id("c1") == []
        assert await store.get_immediate_context("c1", 9) == []
        assert [one.id for one in await store.get_messages_by_user_id("u1")] == ["c2-m1"]
        assert [one.id for one in await store.get_turn_traces_by_agent_id("a1")] == ["t3"]
        assert await store.get_turn_trace_by_message_id("c1-m1") is None
        assert await store.get_conversation("c2") == conversation("c2")
        assert not await store.delete_conversation("c1")

    async def test_messages_without_a_conversation_are_deleted_too(self, store: MessageStore) -> None:
        await store.store_message(message(1))
        assert await store.delete_conversation("c1")
        assert await store.get_message("c1-m1") is None

    async def test_closing_twice_is_fine(self, store: MessageStore) -> None:
        await store.store_message(message(1))
        await store.close()
        await store.close()
