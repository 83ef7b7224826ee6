"""Updates change what they are meant to, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import NotStoredError
from jazzmine_dspy.memory.messages.store import ENHANCED_FIELDS, OWN_FIELDS, MessageStore
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Entity, Message
from jazzmine_dspy.testing.messages.harness import Suite, message

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


async def _get(store: MessageStore) -> Message:
    kept = await store.get_message("c1-m1")
    assert kept is not None
    return kept


class UpdateSuite(Suite):
    """Partial updates, alone and from several sides at once."""

    async def test_an_update_writes_every_enhanced_field(self, store: MessageStore) -> None:
        assert ENHANCED.keys() == ENHANCED_FIELDS
        await store.store_message(message(1, decision={"old": 1, "nested": {"gone": 1}}))
        await store.update_message(message(1, **ENHANCED))
        assert await _get(store) == message(1, **ENHANCED)
        await store.update_message(message(1))
        assert await _get(store) == message(1)

    async def test_an_update_leaves_every_other_field(self, store: MessageStore) -> None:
        await store.store_message(message(1, is_flagged=True, **OTHERS))
        said: dict[str, Any] = {
            "id": "c1-m1",
            "role": "system",
            "original_content": "altered",
            "conversation_id": "c2",
            "user_id": "u2",
            "timestamp": 99,
        }
        await store.update_message(message(1, invoked_tools=["other"], **said, **ENHANCED))
        assert await _get(store) == message(1, is_flagged=True, **ENHANCED, **OTHERS)

    async def test_named_fields_alone_are_written(self, store: MessageStore) -> None:
        await store.store_message(message(1))
        await store.update_message(message(1, **ENHANCED, **OTHERS), fields={"invoked_tools", "intent"})
        assert await _get(store) == message(1, invoked_tools=["find"], intent="track_order")

    @pytest.mark.parametrize("name", [*sorted(OWN_FIELDS), "no_such_field"])
    async def test_what_was_said_cannot_be_written(self, store: MessageStore, name: str) -> None:
        await store.store_message(message(1))
        with pytest.raises(InputError, match=name):
            await store.update_message(message(1, intent="x"), fields=[name, "intent"])
        assert await _get(store) == message(1)

    async def test_only_what_is_stored_can_be_updated_at_all(self, store: MessageStore) -> None:
        with pytest.raises(NotStoredError, match="c1-m1"):
            await store.update_message(message(1))
        assert await store.get_message("c1-m1") is None

    async def test_storing_again_writes_what_is_given(self, store: MessageStore) -> None:
        await store.store_messages([message(1, **OTHERS), message(2)])
        await store.flag_message("c1-m1")
        await store.store_message(message(1, intent="new", errors=None, timestamp=50, user_id="u1"))
        kept = message(1, is_flagged=True, **(OTHERS | {"intent": "new", "errors": None}))
        assert await _get(store) == kept
        everything = await store.get_messages_by_conversation_id("c1")
        assert [one.id for one in everything] == ["c1-m1", "c1-m2"]

    async def test_storing_again_never_lifts_or_sets_a_flag(self, store: MessageStore) -> None:
        await store.store_messages([message(1), message(2, is_flagged=True)])
        await store.store_message(message(1, is_flagged=True))
        await store.store_message(message(2, is_flagged=False))
        assert [one.is_flagged for one in await store.get_messages_by_conversation_id("c1")] == [False, True]

    async def test_what_is_changed_in_place_is_given_too(self, store: MessageStore) -> None:
        given = message(1)
        await store.store_message(given)
        given.entities.append(Entity(name="rug"))
        await store.store_message(given)
        assert (await _get(store)).entities == [Entity(name="rug")]

    async def test_a_flag_set_meanwhile_survives(self, store: MessageStore, second: MessageStore) -> None:
        for number in range(30):
            await store.store_message(message(number))
        writes = []
        for number in range(30):
            writes.append(store.update_message(message(number, intent="found")))
            writes.append(second.flag_message(f"c1-m{number}"))
            writes.append(store.store_message(message(number, invoked_flows=["f"])))
        await asyncio.gather(*writes)
        kept = await store.get_messages_by_conversation_id("c1")
        told = [(one.intent, one.is_flagged, one.invoked_flows) for one in kept]
        assert told == [("found", True, ["f"])] * 30

    async def test_edits_of_different_fields_both_survive(
        self, store: MessageStore, second: MessageStore
    ) -> None:
        for number in range(30):
            await store.store_message(message(number))
        writes = []
        for number in range(30):
            tools = message(number, invoked_tools=["find"], errors=["late"])
            writes.append(store.update_message(message(number, **ENHANCED)))
            writes.append(second.update_message(tools, fields={"invoked_tools"}))
            writes.append(second.update_message(tools, fields={"errors"}))
        await asyncio.gather(*writes)
        kept = await second.get_messages_by_conversation_id("c1")
        for one in kept:
            number = int(one.id.partition("-m")[2])
            assert one == message(number, **ENHANCED, invoked_tools=["find"], errors=["late"])
        assert len(kept) == 30
