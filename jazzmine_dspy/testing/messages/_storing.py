"""Messages and traces: storing, reading, contexts, deleting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError
from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.models.messages import Entity, LLMCallRecord, SlotEvent, ToolTrace
from jazzmine_dspy.testing.messages.harness import Suite, message, trace


async def _fill(store: MessageStore) -> None:
    # Times tie and go backwards: the order is that of storing.
    for number, time in enumerate([5, 5, 4, 9, 1, 1, 7], 1):
        await store.store_message(message(number, timestamp=time))
    await store.store_message(message(1, "c2"))


def _call(**fields: Any) -> LLMCallRecord:
    return LLMCallRecord(purpose="decision", model="m", prompt_tokens=3, completion_tokens=2, **fields)


class MessageSuite(Suite):
    """Messages."""

    async def test_it_has_every_method_of_a_store(self, store: MessageStore) -> None:
        assert isinstance(store, MessageStore)

    async def test_a_full_message_comes_back(self, store: MessageStore) -> None:
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

    async def test_only_a_stored_message_can_be_flagged(self, store: MessageStore) -> None:
        with pytest.raises(NotStoredError, match="c1-m99"):
            await store.flag_message("c1-m99")

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


class TraceSuite(Suite):
    """Turn traces."""

    async def test_a_full_trace_comes_back(self, store: MessageStore) -> None:
        data: dict[str, Any] = {"rows": [{"ß": None, "n": 1.5}], "": [], "text": "x" * 100_000}
        full = trace(
            llm_calls=[_call(latency_ms=0.1), _call(success=False, error="timed out")],
            tool_traces=[ToolTrace(tool_name="find", final_data=data, traceback="Trace\n  back")],
            slot_events=[SlotEvent(flow_name="f", slot_name="s", value=["a", 1])],
            total_latency_ms=12.5,
        )
        await store.store_turn_trace(full)
        stored = await store.get_turn_trace("t1")
        assert stored == full
        assert stored is not None
        assert stored.total_tokens == 10
        assert await store.get_turn_trace("t2") is None
        assert await store.get_turn_trace_by_message_id("c1-m2") is None

    async def test_a_trace_moves_from_the_message_to_the_reply(self, store: MessageStore) -> None:
        await store.store_turn_trace(trace(conversation_id="", llm_calls=[_call()]))
        moved = trace(message_id="c1-m2", llm_calls=[_call()], total_latency_ms=9.0)
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
