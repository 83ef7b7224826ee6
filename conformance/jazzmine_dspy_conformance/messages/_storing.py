"""Conversations, messages and traces: storing, reading, contexts, updating, deleting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError
from jazzmine_dspy.memory.messages.store import ENHANCED_FIELDS, MessageStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Entity, LLMCallRecord, SlotEvent, ToolTrace
from jazzmine_dspy_conformance.messages.harness import Suite, conversation, message, trace

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
CALL: dict[str, Any] = {"purpose": "decision", "model": "m", "prompt_tokens": 3, "completion_tokens": 2}
IMMUTABLE: dict[str, Any] = {
    "id": "c1-m1",
    "role": "system",
    "original_content": "altered",
    "conversation_id": "c2",
    "user_id": "u2",
    "timestamp": 99,
}


async def _fill(store: MessageStore) -> None:
    # Times tie and go backwards: the order is that of storing.
    for number, time in enumerate([5, 5, 4, 9, 1, 1, 7], 1):
        await store.store_message(message(number, timestamp=time))
    await store.store_message(message(1, "c2"))


class ConversationSuite(Suite):
    """Conversations: storing, listing, updating, and deleting them with all that belongs to them."""

    async def test_a_conversation_comes_back_and_closing_twice_is_fine(self, store: MessageStore) -> None:
        full = conversation(title="Zwei Lampen 🪔", created_at=5, last_updated_at=9)
        await store.store_conversation(full)
        assert await store.get_conversation("c1") == full
        assert await store.get_conversation("c2") is None
        await store.close()
        await store.close()

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

    async def test_storing_a_conversation_again_changes_nothing(self, store: MessageStore) -> None:
        await store.store_conversation(conversation(title="kept"))
        await store.store_conversation(conversation(title="lost", last_updated_at=4))
        other = conversation(user_id="u2", title="mine now", last_updated_at=9)
        for call in (store.store_conversation, store.ensure_conversation):
            with pytest.raises(ConflictError, match="c1"):
                await call(other)
        assert await store.get_conversation("c1") == conversation(title="kept")

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
        # Messages without a conversation are deleted too.
        await store.store_message(message(1))
        assert await store.delete_conversation("c1")
        assert await store.get_message("c1-m1") is None


class MessageSuite(Suite):
    """Messages."""

    async def test_a_full_message_comes_back(self, store: MessageStore) -> None:
        assert isinstance(store, MessageStore)
        full = message(
            1,
            original_content="Où est l'autre? 🪔 \"Zeile\\n\"\n\t<b> שלום 'x'; DROP TABLE --\x1a\x7f\u2028",
            enhanced_message="Where is the second delivery?",
            explicit_context=["a", ""],
            episode_id=3,
            sentiment_score=-0.25,
            entities=[Entity(name="Lampe", attributes=["Farbe: rot"])],
            is_cancellation=True,
            is_continuation=False,
            is_flagged=True,
            invoked_flows=["track_order"],
            reasoning_steps=[],
            timestamp=2**70,
            decision={"b": [1, 2.5, None, 10**30, {"": True}], "a": {"deep": [[["x"]]]}},
            confidences={"select": 0.1 + 0.2},
            program_fingerprint="f" * 64,
            state={"flow": "track_order", "slots": {"speed": ["express", 2]}},
        )
        await store.store_message(full)
        assert await store.get_message(full.id) == full
        assert await store.get_message("c1-m2") is None

    async def test_messages_by_conversation_in_order_of_storing(self, store: MessageStore) -> None:
        await _fill(store)
        page = await store.get_messages_by_conversation_id("c1")
        assert [each.original_content for each in page] == [f"text {number}" for number in range(1, 8)]
        assert (page.next_offset, page.damaged) == (None, ())
        assert await store.get_messages_by_conversation_id("c9") == []

    async def test_pages_of_messages(self, store: MessageStore) -> None:
        await _fill(store)
        offset: int | None = 0
        pages = []
        while offset is not None:
            page = await store.get_messages_by_conversation_id("c1", limit=3, offset=offset)
            pages.append([each.original_content[-1] for each in page])
            offset = page.next_offset
        assert pages == [["1", "2", "3"], ["4", "5", "6"], ["7"]]
        assert await store.get_messages_by_conversation_id("c1", limit=0) == []
        assert await store.get_messages_by_conversation_id("c1", offset=7) == []

    async def test_messages_by_user(self, store: MessageStore) -> None:
        await store.store_messages([message(1), message(1, "c2"), message(2, user_id="u2"), message(3)])
        page = await store.get_messages_by_user_id("u1", limit=2)
        assert ([each.id for each in page], page.next_offset) == (["c1-m1", "c2-m1"], 2)
        assert [each.id for each in await store.get_messages_by_user_id("u1", offset=2)] == ["c1-m3"]

    async def test_messages_by_id_in_the_requested_order(self, store: MessageStore) -> None:
        await _fill(store)
        ids = ["c2-m1", "c1-m5", "no such", "c1-m2", "c1-m5"]
        assert [each.id for each in await store.get_messages_by_ids(ids)] == ["c2-m1", "c1-m5", "c1-m2"]
        assert await store.get_messages_by_ids([]) == []

    async def test_the_context_is_the_newest_in_order(self, store: MessageStore) -> None:
        await _fill(store)
        context = await store.get_immediate_context("c1", 3, exclude="c1-m7")
        assert [each.original_content[-1] for each in context] == ["4", "5", "6"]
        assert len(await store.get_immediate_context("c1", 50)) == 7
        assert await store.get_immediate_context("c1", 0) == []
        assert await store.get_immediate_context("c9", 3) == []

    async def test_flagged_messages_never_enter_the_context(self, store: MessageStore) -> None:
        await _fill(store)
        await store.flag_message("c1-m6")
        await store.store_message(message(8, is_flagged=True))
        assert [each.id[-1] for each in await store.get_immediate_context("c1", 3)] == ["4", "5", "7"]
        flags = [each.is_flagged for each in await store.get_messages_by_conversation_id("c1")]
        assert flags == [False] * 5 + [True, False, True]
        await store.flag_message("c1-m6", False)
        assert [each.id[-1] for each in await store.get_immediate_context("c1", 3)] == ["5", "6", "7"]

    @pytest.mark.parametrize(
        "other", [{"conversation_id": "c2"}, {"original_content": "other"}, {"role": "system"}]
    )
    async def test_an_id_belongs_to_one_message(self, store: MessageStore, other: dict[str, str]) -> None:
        await store.store_message(message(2))
        with pytest.raises(ConflictError, match="c1-m2"):
            await store.store_message(message(2, intent="x", **({"id": "c1-m2"} | other)))
        assert await store.get_message("c1-m2") == message(2)

    async def test_storing_a_message_again_changes_nothing(self, store: MessageStore) -> None:
        await store.store_messages([message(1, intent="first"), message(2)])
        await store.flag_message("c1-m2")
        await store.store_messages([message(2), message(1, intent="second", is_flagged=True, timestamp=50)])
        page = await store.get_messages_by_conversation_id("c1")
        assert page == [message(1, intent="first"), message(2, is_flagged=True)]

    async def test_several_are_stored_all_or_none(self, store: MessageStore) -> None:
        await store.store_message(message(2))
        with pytest.raises(ConflictError):
            await store.store_messages([message(1), message(2, original_content="other"), message(3)])
        assert await store.get_messages_by_conversation_id("c1") == [message(2)]
        await store.store_messages([message(3), message(2), message(1), message(3)])
        page = await store.get_messages_by_conversation_id("c1")
        assert [each.id[-1] for each in page] == ["2", "3", "1"]
        await store.store_messages([])

    async def test_many_stored_at_once_are_all_there(self, store: MessageStore, second: MessageStore) -> None:
        calls = [(store, second)[number % 2].store_message(message(number)) for number in range(40)]
        await asyncio.gather(*calls)
        page = await store.get_messages_by_conversation_id("c1")
        assert sorted(each.timestamp for each in page) == list(range(40))
        assert await second.get_messages_by_conversation_id("c1") == page

    async def test_results_share_no_object_with_the_store(self, store: MessageStore) -> None:
        original = message(9, entities=[Entity(name="rug")])
        await store.store_message(original)
        original.entities[0].name = "changed after storing"
        copy = await store.get_message("c1-m9")
        assert copy is not None
        copy.entities[0].name = "changed after reading"
        assert (await store.get_immediate_context("c1", 1))[0].entities == [Entity(name="rug")]

    async def test_deleting_a_message_deletes_its_trace(self, store: MessageStore) -> None:
        await store.store_messages([message(1), message(2), message(3)])
        await store.store_turn_trace(trace("t1", "c1-m1"))
        await store.store_turn_trace(trace("t1", "c1-m2"))
        await store.store_turn_trace(trace("t3", "c1-m3"))
        assert await store.delete_message("c1-m2")
        page = await store.get_messages_by_conversation_id("c1")
        assert [each.id for each in page] == ["c1-m1", "c1-m3"]
        assert await store.get_turn_trace("t1") is None
        assert await store.get_turn_trace_by_message_id("c1-m1") is None
        assert await store.get_turn_trace("t3") == trace("t3", "c1-m3")
        assert not await store.delete_message("c1-m2")
        await store.store_turn_trace(trace("t2", "c1-m1"))

    async def test_a_deleted_message_stored_again_is_the_newest(self, store: MessageStore) -> None:
        await store.store_messages([message(1, is_flagged=True), message(2)])
        await store.delete_message("c1-m1")
        await store.store_message(message(1, original_content="new"))
        assert [each.id[-1] for each in await store.get_immediate_context("c1", 5)] == ["2", "1"]
        await store.delete_message("c1-m1")
        await store.store_message(message(4))
        page = await store.get_messages_by_conversation_id("c1")
        assert [each.id[-1] for each in page] == ["2", "4"]


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

    async def test_only_what_is_stored_can_be_changed(self, store: MessageStore) -> None:
        for call, name in (
            (store.update_conversation(conversation()), "conversation 'c1'"),
            (store.update_message(message(1)), "c1-m1"),
            (store.flag_message("c1-m99"), "c1-m99"),
        ):
            with pytest.raises(NotStoredError, match=name):
                await call
        assert await store.get_conversation("c1") is None
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


class TraceSuite(Suite):
    """Turn traces."""

    async def test_a_full_trace_comes_back(self, store: MessageStore) -> None:
        data: dict[str, Any] = {"rows": [{"ß": None, "n": 1.5}], "": [], "text": "x" * 100_000}
        full = trace(
            llm_calls=[
                LLMCallRecord(**CALL, latency_ms=0.1),
                LLMCallRecord(**CALL, success=False, error="timed out"),
            ],
            tool_traces=[ToolTrace(tool_name="find", final_data=data, traceback="Trace\n  back")],
            slot_events=[SlotEvent(flow_name="f", slot_name="s", value=["a", 1])],
            total_latency_ms=12.5,
        )
        await store.store_turn_trace(full)
        assert await store.get_turn_trace("t1") == full
        assert full.total_tokens == 10
        assert await store.get_turn_trace("t2") is None
        assert await store.get_turn_trace_by_message_id("c1-m2") is None

    async def test_a_trace_moves_from_the_message_to_the_reply(self, store: MessageStore) -> None:
        await store.store_turn_trace(trace(conversation_id="", llm_calls=[LLMCallRecord(**CALL)]))
        moved = trace(message_id="c1-m2", llm_calls=[LLMCallRecord(**CALL)], total_latency_ms=9.0)
        await store.store_turn_trace(moved)
        assert await store.get_turn_trace_by_message_id("c1-m2") == moved
        assert await store.get_turn_trace_by_message_id("c1-m1") == moved
        assert await store.get_turn_traces_by_conversation_id("c1") == [moved]
        assert await store.get_turn_traces_by_conversation_id("") == []

    async def test_a_message_has_one_trace(self, store: MessageStore) -> None:
        await store.store_turn_trace(trace("t1", "c1-m1"))
        await store.store_turn_trace(trace("t1", "c1-m2"))
        for message_id in ("c1-m1", "c1-m2"):
            with pytest.raises(ConflictError, match=message_id):
                await store.store_turn_trace(trace("t2", message_id))
        assert await store.get_turn_trace("t2") is None
        await store.store_turn_trace(trace("t2", "c1-m3"))
        with pytest.raises(ConflictError):
            await store.store_turn_trace(trace("t2", "c1-m1", total_latency_ms=5.0))
        assert await store.get_turn_trace("t2") == trace("t2", "c1-m3")

    async def test_traces_by_conversation_and_agent(self, store: MessageStore) -> None:
        for number in (3, 1, 2):
            await store.store_turn_trace(trace(f"t{number}", f"m{number}"))
        await store.store_turn_trace(trace("t4", "m4", conversation_id="c2"))
        await store.store_turn_trace(trace("t5", "m5", agent_id="a2"))
        first = await store.get_turn_traces_by_conversation_id("c1", limit=3)
        assert ([each.id for each in first], first.next_offset) == (["t3", "t1", "t2"], 3)
        rest = await store.get_turn_traces_by_conversation_id("c1", limit=3, offset=3)
        assert ([each.id for each in rest], rest.next_offset) == (["t5"], None)
        page = await store.get_turn_traces_by_agent_id("a1", offset=2)
        assert [each.id for each in page] == ["t2", "t4"]
        assert await store.get_turn_traces_by_agent_id("a9") == []
