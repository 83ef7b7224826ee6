"""Conversations, and updates of what is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError
from jazzmine_dspy.memory.messages.store import ENHANCED_FIELDS, MessageStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Entity
from jazzmine_dspy.testing.messages.harness import Suite, conversation, message, trace

ENHANCED: dict[str, Any] = {
    "enhanced_message": "made complete",
    "episode_id": 2,
    "sentiment_score": 0.5,
    "intent": "track_order",
    "entities": [Entity(name="lamp")],
    "is_cancellation": True,
    "is_continuation": False,
    "decision": {"new": None},
    "confidences": {"select": 0.9},
    "program_fingerprint": "abc",
    "state": {"flow": "track_order", "slots": {"order_id": "4471"}},
}
OTHERS: dict[str, Any] = {
    "explicit_context": ["snippet"],
    "invoked_flows": ["track_order"],
    "invoked_tools": ["find"],
    "reasoning_steps": ["step"],
    "errors": ["late"],
}
IMMUTABLE: dict[str, Any] = {
    "id": "c1-m1",
    "role": "system",
    "original_content": "altered",
    "conversation_id": "c2",
    "user_id": "u2",
    "timestamp": 99,
}


class ConversationSuite(Suite):
    """Conversations: storing, listing, updating, and deleting them with all that belongs to them."""

    async def test_a_conversation_comes_back(self, store: MessageStore) -> None:
        full = conversation(title="Zwei Lampen 🪔", created_at=5, last_updated_at=9)
        await store.store_conversation(full)
        assert await store.get_conversation("c1") == full
        assert await store.get_conversation("c2") is None

    async def test_pages_of_conversations_by_user_and_agent(self, store: MessageStore) -> None:
        for number in range(5):
            await store.store_conversation(conversation(f"c{number}", created_at=9 - number))
        await store.store_conversation(conversation("c5", user_id="u2"))
        first = await store.get_conversations_by_user_id("u1", limit=2)
        assert ([each.id for each in first], first.next_offset) == (["c0", "c1"], 2)
        last = await store.get_conversations_by_agent_id("a1", limit=3, offset=3)
        assert ([each.id for each in last], last.next_offset) == (["c3", "c4", "c5"], None)
        assert await store.get_conversations_by_user_id("u9") == []

    async def test_an_update_writes_title_agent_and_time(self, store: MessageStore) -> None:
        summaries = {0: "greeted", 11: "wanted a lamp 🪔"}
        await store.store_conversation(conversation(created_at=5, episode_summaries=summaries))
        await store.store_conversation(conversation("c2"))
        await store.update_conversation(
            conversation(title="new", user_id="u9", agent_id="a9", created_at=7, last_updated_at=8)
        )
        changed = conversation(
            title="new", agent_id="a9", created_at=5, last_updated_at=8, episode_summaries=summaries
        )
        assert await store.get_conversation("c1") == changed
        assert [each.id for each in await store.get_conversations_by_agent_id("a1")] == ["c2"]
        assert await store.get_conversations_by_agent_id("a9") == [changed]
        assert [each.id for each in await store.get_conversations_by_user_id("u1")] == ["c1", "c2"]

    async def test_summaries_are_written_where_an_update_names_them(self, store: MessageStore) -> None:
        await store.store_conversation(conversation(title="kept", episode_summaries={0: "greeted"}))
        update = conversation(title="lost", episode_summaries={0: "greeted", 2: "asked for a refund"})
        await store.update_conversation(update, fields={"episode_summaries"})
        expected = conversation(title="kept", episode_summaries=update.episode_summaries)
        assert await store.get_conversation("c1") == expected
        with pytest.raises(InputError, match="user_id"):
            await store.update_conversation(update, fields={"user_id"})

    async def test_only_a_stored_conversation_can_be_updated(self, store: MessageStore) -> None:
        with pytest.raises(NotStoredError, match="c1"):
            await store.update_conversation(conversation())
        assert await store.get_conversation("c1") is None

    async def test_storing_a_conversation_again_changes_nothing(self, store: MessageStore) -> None:
        await store.store_conversation(conversation(title="kept"))
        await store.store_conversation(conversation(title="lost", last_updated_at=4))
        assert await store.get_conversation("c1") == conversation(title="kept")

    async def test_a_conversation_belongs_to_one_user(self, store: MessageStore) -> None:
        await store.store_conversation(conversation())
        other = conversation(user_id="u2", title="mine now", last_updated_at=9)
        for call in (store.store_conversation, store.ensure_conversation):
            with pytest.raises(ConflictError, match="c1"):
                await call(other)
        assert await store.get_conversation("c1") == conversation()

    async def test_ensuring_stores_once_and_then_moves_the_time_forward(self, store: MessageStore) -> None:
        assert await store.ensure_conversation(conversation(title="first")) == conversation(title="first")
        later = conversation(title="other", agent_id="a2", created_at=3, last_updated_at=6)
        expected = conversation(title="first", last_updated_at=6)
        assert await store.ensure_conversation(later) == expected
        assert await store.ensure_conversation(conversation(last_updated_at=5)) == expected
        assert await store.get_conversation("c1") == expected

    async def test_ensuring_from_many_sides_at_once(self, store: MessageStore, second: MessageStore) -> None:
        calls = [
            (store, second)[number % 2].ensure_conversation(conversation(last_updated_at=number))
            for number in range(1, 13)
        ]
        await asyncio.gather(*calls)
        assert await second.get_conversations_by_user_id("u1") == [conversation(last_updated_at=12)]

    async def test_deleting_deletes_messages_and_traces(self, store: MessageStore) -> None:
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
        assert [each.id for each in await store.get_messages_by_user_id("u1")] == ["c2-m1"]
        assert [each.id for each in await store.get_turn_traces_by_agent_id("a1")] == ["t3"]
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


class UpdateSuite(Suite):
    """Partial updates of messages, alone and from several sides at once."""

    async def test_an_update_writes_every_enhanced_field(self, store: MessageStore) -> None:
        assert ENHANCED.keys() == ENHANCED_FIELDS
        await store.store_message(message(1, decision={"old": 1, "nested": {"gone": 1}}))
        await store.update_message(message(1, **ENHANCED))
        assert await store.get_message("c1-m1") == message(1, **ENHANCED)
        await store.update_message(message(1))
        assert await store.get_message("c1-m1") == message(1)

    async def test_an_update_leaves_every_other_field(self, store: MessageStore) -> None:
        await store.store_message(message(1, is_flagged=True, **OTHERS))
        await store.update_message(message(1, invoked_tools=["other"], **IMMUTABLE, **ENHANCED))
        assert await store.get_message("c1-m1") == message(1, is_flagged=True, **ENHANCED, **OTHERS)

    async def test_named_fields_alone_are_written(self, store: MessageStore) -> None:
        await store.store_message(message(1))
        await store.update_message(message(1, **ENHANCED, **OTHERS), fields={"invoked_tools", "intent"})
        expected = message(1, invoked_tools=["find"], intent="track_order")
        assert await store.get_message("c1-m1") == expected

    @pytest.mark.parametrize("name", ["original_content", "is_flagged", "no_such_field"])
    async def test_other_fields_cannot_be_named(self, store: MessageStore, name: str) -> None:
        await store.store_message(message(1))
        with pytest.raises(InputError, match=name):
            await store.update_message(message(1, intent="x"), fields=[name, "intent"])
        assert await store.get_message("c1-m1") == message(1)

    async def test_only_a_stored_message_can_be_updated(self, store: MessageStore) -> None:
        with pytest.raises(NotStoredError, match="c1-m1"):
            await store.update_message(message(1))
        assert await store.get_message("c1-m1") is None

    async def test_flags_and_edits_made_at_once_all_survive(
        self, store: MessageStore, second: MessageStore
    ) -> None:
        await store.store_messages([message(number) for number in range(30)])
        writes = []
        for number in range(30):
            edit = message(number, invoked_tools=["find"], errors=["late"])
            writes.append(store.update_message(message(number, **ENHANCED)))
            writes.append(second.update_message(edit, fields={"invoked_tools"}))
            writes.append(second.flag_message(f"c1-m{number}"))
            writes.append(second.update_message(edit, fields={"errors"}))
        await asyncio.gather(*writes)
        edits: dict[str, Any] = {"invoked_tools": ["find"], "errors": ["late"], "is_flagged": True}
        expected = [message(number, **ENHANCED, **edits) for number in range(30)]
        assert await second.get_messages_by_conversation_id("c1") == expected
