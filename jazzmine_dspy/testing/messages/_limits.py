"""What is too large, or no text, is refused alike by every store."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Entity
from jazzmine_dspy.models.traces import ToolTrace
from jazzmine_dspy.testing.messages.harness import Suite, conversation, message, trace

BAD_IDS = {"nul": "a\0b", "half a pair": "a\ud800", "too long": "x" * 513}


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


each_id = pytest.mark.parametrize("bad_id", BAD_IDS.values(), ids=BAD_IDS.keys())


class LimitSuite(Suite):
    """Limits."""

    async def test_a_message_over_a_megabyte_is_refused(self, store: MessageStore) -> None:
        with pytest.raises(InputError, match=r"1,000,000.*c1-m1.*original_content"):
            await store.store_message(message(1, original_content="é" * 500_000))
        assert await store.get_message("c1-m1") is None
        large = message(1, original_content="é" * 499_000)
        await store.store_message(large)
        assert await store.get_message("c1-m1") == large

    async def test_an_update_may_not_grow_a_message_over_the_limit(self, store: MessageStore) -> None:
        kept = message(1, original_content="x" * 600_000)
        await store.store_message(kept)
        with pytest.raises(InputError, match="c1-m1"):
            await store.update_message(message(1, enhanced_message="y" * 600_000))
        assert await store.get_message("c1-m1") == kept

    async def test_traces_may_be_larger(self, store: MessageStore) -> None:
        large = trace(tool_traces=[ToolTrace(final_data={"out": "x" * 9_000_000})])
        await store.store_turn_trace(large)
        assert await store.get_turn_trace("t1") == large
        with pytest.raises(InputError, match="t2"):
            await store.store_turn_trace(
                trace("t2", "m2", tool_traces=[ToolTrace(final_data="x" * 10_000_000)])
            )
        with pytest.raises(InputError, match="c1"):
            await store.store_conversation(conversation(title="x" * 1_000_000))

    async def test_deep_nesting_is_refused(self, store: MessageStore) -> None:
        await store.store_message(message(1, decision={"x": _nested(98)}))
        assert await store.get_message("c1-m1") == message(1, decision={"x": _nested(98)})
        with pytest.raises(InputError, match="c1-m2"):
            await store.store_message(message(2, decision={"x": _nested(99)}))
        wide = message(3, entities=[Entity(name=str(number)) for number in range(300)])
        await store.store_message(wide)
        assert await store.get_message("c1-m3") == wide

    async def test_nul_and_other_control_characters_are_kept(self, store: MessageStore) -> None:
        odd = "a\0b\x1a0\x1a\x1a\\u0000 \\\\u0000\x7f\u2028\ufeff\uffff"
        given = message(
            1, original_content=odd, enhanced_message=odd, decision={f"k{odd}": [odd, {"\0": "\x1a"}]}
        )
        await store.store_message(given)
        assert await store.get_message("c1-m1") == given
        await store.update_message(
            message(1, intent=f"{odd}!", enhanced_message=odd, decision=given.decision)
        )
        kept = await store.get_message("c1-m1")
        assert kept is not None
        assert (kept.intent, kept.original_content, kept.decision) == (f"{odd}!", odd, given.decision)
        traced = trace(tool_traces=[ToolTrace(traceback=odd, final_data={odd: odd})])
        await store.store_turn_trace(traced)
        assert await store.get_turn_traces_by_agent_id("a1") == [traced]

    async def test_half_a_surrogate_pair_is_refused(self, store: MessageStore) -> None:
        given = message(1, decision={"a": [1]})
        assert given.decision is not None
        given.decision["a"].append("\udc80")
        with pytest.raises(InputError, match=r"c1-m1.*decision"):
            await store.store_message(given)
        assert await store.get_messages_by_conversation_id("c1") == []

    async def test_what_no_model_allows_is_refused(self, store: MessageStore) -> None:
        given = message(1)
        given.entities.append("no entity")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="c1-m1"):
            await store.store_message(given)
        await store.store_message(message(1))
        with pytest.raises(InputError, match="c1-m1"):
            await store.update_message(given)
        assert await store.get_message("c1-m1") == message(1)

    @each_id
    async def test_ids_are_checked_in_records(self, store: MessageStore, bad_id: str) -> None:
        given = [
            message(1).model_copy(update={name: bad_id}) for name in ("id", "conversation_id", "user_id")
        ]
        for one in given:
            with pytest.raises(InputError):
                await store.store_messages([message(2), one])
        for name in ("id", "user_id", "agent_id"):
            changed = conversation().model_copy(update={name: bad_id})
            for call in (store.store_conversation, store.ensure_conversation):
                with pytest.raises(InputError, match=name):
                    await call(changed)
        for name in ("id", "message_id", "conversation_id", "agent_id"):
            with pytest.raises(InputError, match=name):
                await store.store_turn_trace(trace().model_copy(update={name: bad_id}))
        assert await store.get_messages_by_conversation_id("c1") == []

    @each_id
    async def test_ids_are_checked_when_asked_for(self, store: MessageStore, bad_id: str) -> None:
        for call in (
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
                await call(bad_id)
        with pytest.raises(InputError):
            await store.get_messages_by_ids(["a", bad_id])
        with pytest.raises(InputError):
            await store.get_immediate_context("c1", 3, exclude=bad_id)

    async def test_long_ids_of_any_script_are_found(self, store: MessageStore) -> None:
        long = "語🪔" * 256
        await store.store_message(message(1, id=long, conversation_id=long, user_id=long))
        [kept] = await store.get_immediate_context(long, 1)
        assert kept.id == long
        assert await store.get_message(long.replace("語", "诶")) is None

    @pytest.mark.parametrize(("limit", "offset"), [(-1, 0), (10_001, 0), (1, -1), (1, 2**63)])
    async def test_impossible_pages_are_refused(self, store: MessageStore, limit: int, offset: int) -> None:
        with pytest.raises(InputError):
            await store.get_messages_by_conversation_id("c1", limit=limit, offset=offset)
        with pytest.raises(InputError):
            await store.get_turn_traces_by_agent_id("a1", limit=limit, offset=offset)
        if limit != 1:
            with pytest.raises(InputError):
                await store.get_immediate_context("c1", limit)
