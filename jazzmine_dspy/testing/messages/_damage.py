"""Records that cannot be read hide nothing but themselves."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import DamagedRecordError
from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.testing.messages.harness import Harness, Suite, conversation, message, trace


def _altered(record: Any, **changes: Any) -> str:
    return json.dumps(record.model_dump(mode="json", exclude={"is_flagged"}) | changes)


DAMAGED = {
    "no object": "[]",
    "empty": "{}",
    "null": "null",
    "a text": '"lost"',
    "out of range": _altered(message(3), sentiment_score=7),
    "another type": _altered(message(3), entities="rug"),
    "an unknown role": _altered(message(3), role="stranger"),
    "another message": _altered(message(4)),
    "another conversation": _altered(message(3), conversation_id="c2"),
}


each_damage = pytest.mark.parametrize("raw", DAMAGED.values(), ids=DAMAGED.keys())


class DamageSuite(Suite):
    """Damaged records."""

    @each_damage
    async def test_a_damaged_message_is_left_out_and_named(
        self, store: MessageStore, behind: Harness, raw: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        await store.store_messages([message(number) for number in range(1, 6)])
        await behind.corrupt(store, "message", "c1-m3", raw)
        with caplog.at_level(logging.WARNING):
            page = await store.get_messages_by_conversation_id("c1")
        assert [one.id[-1] for one in page] == ["1", "2", "4", "5"]
        [(lost, cause)] = page.damaged
        assert lost == "c1-m3"
        assert cause
        [record] = [one for one in caplog.records if one.levelno == logging.WARNING]
        assert "c1-m3" in record.getMessage()
        assert cause in record.getMessage()
        for others in (
            await store.get_messages_by_user_id("u1"),
            await store.get_messages_by_ids([f"c1-m{number}" for number in range(1, 6)]),
        ):
            assert [one.id[-1] for one in others] == ["1", "2", "4", "5"]
            assert [one.id for one in others.damaged] == ["c1-m3"]

    @each_damage
    async def test_the_context_is_filled_with_good_ones(
        self, store: MessageStore, behind: Harness, raw: str
    ) -> None:
        await store.store_messages([message(number) for number in range(1, 6)])
        await behind.corrupt(store, "message", "c1-m3", raw)
        context = await store.get_immediate_context("c1", 3, exclude="c1-m5")
        assert [one.id[-1] for one in context] == ["1", "2", "4"]
        assert [one.id for one in context.damaged] == ["c1-m3"]
        assert (await store.get_immediate_context("c1", 2)).damaged == ()

    async def test_a_long_row_of_damaged_messages(self, store: MessageStore, behind: Harness) -> None:
        await store.store_messages([message(number) for number in range(130)])
        for number in range(2, 129):
            await behind.corrupt(store, "message", f"c1-m{number}", "{}")
        context = await store.get_immediate_context("c1", 3)
        assert [one.timestamp for one in context] == [0, 1, 129]
        assert [one.id for one in context.damaged] == [f"c1-m{number}" for number in range(2, 129)]

    @each_damage
    async def test_by_id_it_is_an_error(self, store: MessageStore, behind: Harness, raw: str) -> None:
        await store.store_message(message(3))
        await behind.corrupt(store, "message", "c1-m3", raw)
        with pytest.raises(DamagedRecordError, match="c1-m3"):
            await store.get_message("c1-m3")

    @each_damage
    async def test_it_cannot_be_changed_but_flagged_and_deleted(
        self, store: MessageStore, behind: Harness, raw: str
    ) -> None:
        await store.store_message(message(3))
        await behind.corrupt(store, "message", "c1-m3", raw)
        for change in (store.update_message(message(3)), store.store_message(message(3))):
            with pytest.raises(DamagedRecordError, match="c1-m3"):
                await change
        await store.flag_message("c1-m3")
        assert (await store.get_immediate_context("c1", 3)).damaged == ()
        assert await store.delete_message("c1-m3")
        await store.store_message(message(3))
        assert await store.get_message("c1-m3") == message(3)

    async def test_pages_count_what_is_damaged(self, store: MessageStore, behind: Harness) -> None:
        await store.store_messages([message(number) for number in range(1, 6)])
        await behind.corrupt(store, "message", "c1-m2", "{}")
        first = await store.get_messages_by_conversation_id("c1", limit=2)
        assert ([one.id[-1] for one in first], first.next_offset) == (["1"], 2)
        second = await store.get_messages_by_conversation_id("c1", limit=2, offset=2)
        assert ([one.id[-1] for one in second], second.damaged) == (["3", "4"], ())

    async def test_the_warning_does_not_repeat_the_content(
        self, store: MessageStore, behind: Harness, caplog: pytest.LogCaptureFixture
    ) -> None:
        await store.store_message(message(3))
        secret = _altered(message(3), original_content="my card is 4111", sentiment_score="card 4111")
        await behind.corrupt(store, "message", "c1-m3", secret)
        [lost] = (await store.get_messages_by_conversation_id("c1")).damaged
        assert "4111" not in lost.cause + caplog.text
        assert "sentiment_score" in lost.cause

    async def test_damaged_conversations(self, store: MessageStore, behind: Harness) -> None:
        for name in ("c1", "c2", "c3"):
            await store.store_conversation(conversation(name))
        await behind.corrupt(store, "conversation", "c2", _altered(conversation("c2"), created_at=-1))
        for page in (
            await store.get_conversations_by_user_id("u1"),
            await store.get_conversations_by_agent_id("a1"),
        ):
            assert [one.id for one in page] == ["c1", "c3"]
            assert [one.id for one in page.damaged] == ["c2"]
        for call in (
            store.get_conversation("c2"),
            store.ensure_conversation(conversation("c2", last_updated_at=5)),
            store.update_conversation(conversation("c2")),
        ):
            with pytest.raises(DamagedRecordError, match="c2"):
                await call
        assert await store.delete_conversation("c2")

    async def test_damaged_traces_are_replaced(self, store: MessageStore, behind: Harness) -> None:
        for number in (1, 2, 3):
            await store.store_turn_trace(trace(f"t{number}", f"m{number}"))
        await behind.corrupt(store, "trace", "t2", _altered(trace("t2", "m2"), llm_calls=[{"purpose": 1}]))
        for page in (
            await store.get_turn_traces_by_conversation_id("c1"),
            await store.get_turn_traces_by_agent_id("a1"),
        ):
            assert [one.id for one in page] == ["t1", "t3"]
            assert [one.id for one in page.damaged] == ["t2"]
        for call in (store.get_turn_trace("t2"), store.get_turn_trace_by_message_id("m2")):
            with pytest.raises(DamagedRecordError, match="t2"):
                await call
        await store.store_turn_trace(trace("t2", "m2", total_latency_ms=3.0))
        assert await store.get_turn_trace_by_message_id("m2") == trace("t2", "m2", total_latency_ms=3.0)
