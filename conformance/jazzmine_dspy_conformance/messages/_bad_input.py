"""Rows that cannot be read hide only themselves; input outside the limits is refused."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import DamagedRecordError
from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import ToolTrace
from jazzmine_dspy_conformance.messages.harness import Harness, Suite, conversation, message, trace


def _altered(record: Any, **changes: Any) -> str:
    return json.dumps(record.model_dump(mode="json", exclude={"is_flagged"}) | changes)


DAMAGED = {
    "no object": "[]",
    "empty": "{}",
    "out of range": _altered(message(3), sentiment_score=7),
    "another type": _altered(message(3), entities="rug"),
    "an unknown role": _altered(message(3), role="stranger"),
    "a newer field": _altered(message(3), mood="new"),
    "another message": _altered(message(4)),
    "another conversation": _altered(message(3), conversation_id="c2"),
}


class DamageSuite(Suite):
    """Damaged rows."""

    @pytest.mark.parametrize("raw", DAMAGED.values(), ids=DAMAGED.keys())
    async def test_a_damaged_message_is_left_out_and_named(
        self, store: MessageStore, harness: Harness, raw: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        await store.store_messages([message(number) for number in range(1, 6)])
        await harness.corrupt(store, "message", "c1-m3", raw)
        with caplog.at_level(logging.WARNING):
            page = await store.get_messages_by_conversation_id("c1")
        [(damaged, cause)] = page.damaged
        assert damaged == "c1-m3"
        [warning] = [each for each in caplog.records if each.levelno == logging.WARNING]
        assert cause
        assert "c1-m3" in warning.getMessage()
        assert cause in warning.getMessage()
        ids = [f"c1-m{number}" for number in range(1, 6)]
        for others in (
            page,
            await store.get_messages_by_user_id("u1"),
            await store.get_messages_by_ids(ids),
            await store.get_immediate_context("c1", 4),
        ):
            assert [each.id for each in others] == [each for each in ids if each != "c1-m3"]
            assert [each.id for each in others.damaged] == ["c1-m3"]
        assert (await store.get_immediate_context("c1", 2)).damaged == ()
        with pytest.raises(DamagedRecordError, match="c1-m3"):
            await store.get_message("c1-m3")

    async def test_a_damaged_message_cannot_be_changed_but_flagged_and_deleted(
        self, store: MessageStore, harness: Harness
    ) -> None:
        await store.store_message(message(3))
        await harness.corrupt(store, "message", "c1-m3", "{}")
        for change in (store.update_message(message(3)), store.store_message(message(3))):
            with pytest.raises(DamagedRecordError, match="c1-m3"):
                await change
        await store.flag_message("c1-m3")
        assert (await store.get_immediate_context("c1", 3)).damaged == ()
        assert await store.delete_message("c1-m3")
        await store.store_message(message(3))
        assert await store.get_message("c1-m3") == message(3)

    async def test_a_long_row_of_damaged_messages(self, store: MessageStore, harness: Harness) -> None:
        await store.store_messages([message(number) for number in range(40)])
        for number in range(2, 39):
            await harness.corrupt(store, "message", f"c1-m{number}", "{}")
        context = await store.get_immediate_context("c1", 3)
        assert [each.timestamp for each in context] == [0, 1, 39]
        assert [each.id for each in context.damaged] == [f"c1-m{number}" for number in range(2, 39)]

    async def test_pages_count_damaged_rows(self, store: MessageStore, harness: Harness) -> None:
        await store.store_messages([message(number) for number in range(1, 6)])
        await harness.corrupt(store, "message", "c1-m2", "{}")
        first = await store.get_messages_by_conversation_id("c1", limit=2)
        assert ([each.id[-1] for each in first], first.next_offset) == (["1"], 2)
        second = await store.get_messages_by_conversation_id("c1", limit=2, offset=2)
        assert ([each.id[-1] for each in second], second.damaged) == (["3", "4"], ())

    async def test_the_warning_names_the_field_without_content(
        self, store: MessageStore, harness: Harness, caplog: pytest.LogCaptureFixture
    ) -> None:
        await store.store_message(message(3))
        secret = {"confidences": {"ann@example.org": "card 4111"}, "original_content": "card 4111"}
        await harness.corrupt(store, "message", "c1-m3", _altered(message(3), **secret))
        [(_, cause)] = (await store.get_messages_by_conversation_id("c1")).damaged
        assert cause.startswith("confidences: ")
        assert "4111" not in cause + caplog.text
        assert "ann@" not in cause + caplog.text

    async def test_damaged_conversations(self, store: MessageStore, harness: Harness) -> None:
        for name in ("c1", "c2", "c3"):
            await store.store_conversation(conversation(name))
        await harness.corrupt(store, "conversation", "c2", _altered(conversation("c2"), created_at=-1))
        for page in (
            await store.get_conversations_by_user_id("u1"),
            await store.get_conversations_by_agent_id("a1"),
        ):
            assert [each.id for each in page] == ["c1", "c3"]
            assert [each.id for each in page.damaged] == ["c2"]
        for call in (
            store.get_conversation("c2"),
            store.ensure_conversation(conversation("c2", last_updated_at=5)),
            store.update_conversation(conversation("c2")),
        ):
            with pytest.raises(DamagedRecordError, match="c2"):
                await call
        assert await store.delete_conversation("c2")

    async def test_damaged_traces_can_be_replaced(self, store: MessageStore, harness: Harness) -> None:
        for number in (1, 2, 3):
            await store.store_turn_trace(trace(f"t{number}", f"m{number}"))
        await harness.corrupt(store, "trace", "t2", _altered(trace("t2", "m2"), llm_calls=[{"purpose": 1}]))
        for page in (
            await store.get_turn_traces_by_conversation_id("c1"),
            await store.get_turn_traces_by_agent_id("a1"),
        ):
            assert [each.id for each in page] == ["t1", "t3"]
            assert [each.id for each in page.damaged] == ["t2"]
        for call in (store.get_turn_trace("t2"), store.get_turn_trace_by_message_id("m2")):
            with pytest.raises(DamagedRecordError, match="t2"):
                await call
        replacement = trace("t2", "m2", total_latency_ms=3.0)
        await store.store_turn_trace(replacement)
        assert await store.get_turn_trace_by_message_id("m2") == replacement

    async def test_a_record_without_the_newest_fields_is_read(
        self, store: MessageStore, harness: Harness
    ) -> None:
        await store.store_message(message(1, intent="x"))
        await harness.corrupt(
            store, "message", "c1-m1", message(1).model_dump_json(exclude_unset=True, exclude_none=True)
        )
        assert await store.get_message("c1-m1") == message(1)
        await store.update_message(message(1, intent="y"))
        assert await store.get_message("c1-m1") == message(1, intent="y")


class LimitSuite(Suite):
    """Input that is too large, or no text."""

    async def test_a_message_over_a_megabyte_is_refused(self, store: MessageStore) -> None:
        with pytest.raises(InputError, match=r"1,000,000.*c1-m1"):
            await store.store_message(message(1, original_content="é" * 500_000))
        assert await store.get_message("c1-m1") is None
        large = message(1, original_content="é" * 499_000)
        await store.store_message(large)
        with pytest.raises(InputError, match="c1-m1"):
            await store.update_message(message(1, enhanced_message="y" * 600_000))
        assert await store.get_message("c1-m1") == large

    async def test_traces_may_be_larger(self, store: MessageStore) -> None:
        large = trace(tool_traces=[ToolTrace(final_data={"out": "x" * 9_000_000})])
        await store.store_turn_trace(large)
        assert await store.get_turn_trace("t1") == large
        with pytest.raises(InputError, match="t2"):
            await store.store_turn_trace(
                trace("t2", "m2", tool_traces=[ToolTrace(final_data="x" * 10_000_000)])
            )

    async def test_nul_is_dropped_and_what_looks_like_it_stays(self, store: MessageStore) -> None:
        odd = "a\0\0b\\\0c \\u0000 \\\\u0000\\\\\0"
        record = message(1, original_content=odd, decision={f"k{odd}": [odd]})
        await store.store_message(record)
        await store.store_message(record)
        clean = odd.replace("\0", "")
        expected = message(1, original_content=clean, decision={f"k{clean}": [clean]})
        assert await store.get_message("c1-m1") == expected

    async def test_what_no_reader_takes_is_refused(self, store: MessageStore) -> None:
        await store.store_message(message(1))
        half, deep, wrong = (message(number, decision={"a": [1]}) for number in (1, 2, 3))
        assert half.decision is not None
        half.decision["a"].append("\udc80")
        deep.decision = {"a": json.loads("[" * 250 + "]" * 250)}
        wrong.entities.append("no entity")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="c1-m1"):
            await store.update_message(half)
        for record in (deep, wrong):
            with pytest.raises(InputError, match=record.id):
                await store.store_message(record)
        assert await store.get_messages_by_conversation_id("c1") == [message(1)]

    @pytest.mark.parametrize("bad_id", ["a\0b", "a\ud800", "x" * 513], ids=["nul", "half a pair", "too long"])
    async def test_ids_are_checked(self, store: MessageStore, bad_id: str) -> None:
        for name in ("id", "conversation_id", "user_id"):
            with pytest.raises(InputError, match=name):
                await store.store_messages([message(2), message(1).model_copy(update={name: bad_id})])
        for name in ("id", "user_id", "agent_id"):
            changed = conversation().model_copy(update={name: bad_id})
            for call in (store.store_conversation, store.ensure_conversation):
                with pytest.raises(InputError, match=name):
                    await call(changed)
        for name in ("id", "message_id", "conversation_id", "agent_id"):
            with pytest.raises(InputError, match=name):
                await store.store_turn_trace(trace().model_copy(update={name: bad_id}))
        for read in (
            store.get_message,
            store.get_conversation,
            store.get_turn_trace,
            store.get_turn_trace_by_message_id,
            store.get_messages_by_conversation_id,
            store.get_messages_by_user_id,
            store.get_conversations_by_user_id,
            store.get_conversations_by_agent_id,
            store.get_turn_traces_by_conversation_id,
            store.get_turn_traces_by_agent_id,
            store.flag_message,
            store.delete_message,
            store.delete_conversation,
        ):
            with pytest.raises(InputError):
                await read(bad_id)
        with pytest.raises(InputError):
            await store.get_messages_by_ids(["a", bad_id])
        with pytest.raises(InputError):
            await store.get_immediate_context("c1", 3, exclude=bad_id)
        assert await store.get_messages_by_conversation_id("c1") == []

    async def test_long_ids_of_any_script_are_distinct(self, store: MessageStore) -> None:
        long = "語🪔" * 256
        await store.store_message(message(1, id=long, conversation_id=long, user_id=long))
        [stored] = await store.get_immediate_context(long, 1)
        assert stored.id == long
        assert await store.get_message(long.replace("語", "诶")) is None

    @pytest.mark.parametrize(("limit", "offset"), [(-1, 0), (10_001, 0), (1, -1), (1, 2**63)])
    async def test_impossible_pages_are_refused(self, store: MessageStore, limit: int, offset: int) -> None:
        with pytest.raises(InputError):
            await store.get_messages_by_conversation_id("c1", limit=limit, offset=offset)
        if limit != 1:
            with pytest.raises(InputError):
                await store.get_immediate_context("c1", limit)
