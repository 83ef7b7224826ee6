"""Messages: storing, finding, the context, flags, deleting."""

from __future__ import annotations

import asyncio

import pytest

from jazzmine_dspy.memory.errors import ConflictError, NotStoredError
from jazzmine_dspy.memory.messages.store import MessageStore
from jazzmine_dspy.models.messages import Entity
from jazzmine_dspy.testing.messages.harness import Suite, message, trace


async def _stored(store: MessageStore) -> MessageStore:
    # Times tie and go backwards: the order is that of storing.
    times = [5, 5, 4, 9, 1, 1, 7]
    for number, time in enumerate(times, 1):
        await store.store_message(message(number, timestamp=time))
    await store.store_message(message(1, "c2"))
    return store


class MessageSuite(Suite):
    """Messages."""

    async def test_a_store_is_a_store(self, store: MessageStore) -> None:
        assert isinstance(store, MessageStore)

    async def test_a_full_message_comes_back(self, store: MessageStore) -> None:
        given = message(
            1,
            original_content="Où est l'autre? 🪔 \"Zeile\\n\"\n\t<b> שלום 'x'; DROP TABLE --",
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
            decision={"b": [1, 2.5, None, {"": True}], "a": {"deep": [[["x"]]]}},
            confidences={"select": 0.1 + 0.2},
            program_fingerprint="f" * 64,
            state={"flow": "track_order", "slots": {"speed": ["express", 2]}},
        )
        await store.store_message(given)
        assert await store.get_message(given.id) == given
        assert await store.get_message("c1-m2") is None

    async def test_numbers_come_back_as_they_were(self, store: MessageStore) -> None:
        numbers = [
            0,
            -1,
            2**53 + 1,
            10**30,
            1.0,
            0.1,
            -2.5e-7,
            1e16,
            1e23,
            5e-324,
            1.7976931348623157e308,
            True,
        ]
        given = message(1, decision={"numbers": numbers}, timestamp=2**70)
        await store.store_message(given)
        kept = await store.get_message(given.id)
        assert kept is not None
        assert kept.decision is not None
        assert kept.decision["numbers"] == numbers
        assert [type(one) for one in kept.decision["numbers"]] == [type(one) for one in numbers]
        assert kept.timestamp == 2**70

    async def test_messages_by_conversation_in_order_of_storing(self, store: MessageStore) -> None:
        await _stored(store)
        everything = await store.get_messages_by_conversation_id("c1")
        assert [one.original_content for one in everything] == [f"text {number}" for number in range(1, 8)]
        assert (everything.next_offset, everything.damaged) == (None, ())
        assert await store.get_messages_by_conversation_id("c9") == []

    async def test_pages_of_messages(self, store: MessageStore) -> None:
        await _stored(store)
        offset: int | None = 0
        seen = []
        while offset is not None:
            page = await store.get_messages_by_conversation_id("c1", limit=3, offset=offset)
            seen.append([one.original_content[-1] for one in page])
            offset = page.next_offset
        assert seen == [["1", "2", "3"], ["4", "5", "6"], ["7"]]
        assert await store.get_messages_by_conversation_id("c1", limit=0) == []
        assert await store.get_messages_by_conversation_id("c1", offset=7) == []

    async def test_messages_by_user(self, store: MessageStore) -> None:
        await store.store_messages([message(1), message(1, "c2"), message(2, user_id="u2"), message(3)])
        page = await store.get_messages_by_user_id("u1", limit=2)
        assert ([one.id for one in page], page.next_offset) == (["c1-m1", "c2-m1"], 2)
        assert [one.id for one in await store.get_messages_by_user_id("u1", offset=2)] == ["c1-m3"]

    async def test_messages_by_id_in_the_order_asked_for(self, store: MessageStore) -> None:
        await _stored(store)
        asked = ["c2-m1", "c1-m5", "no such", "c1-m2", "c1-m5"]
        assert [one.id for one in await store.get_messages_by_ids(asked)] == ["c2-m1", "c1-m5", "c1-m2"]
        assert await store.get_messages_by_ids([]) == []

    async def test_the_context_is_the_newest_in_order(self, store: MessageStore) -> None:
        await _stored(store)
        context = await store.get_immediate_context("c1", 3, exclude="c1-m7")
        assert [one.original_content[-1] for one in context] == ["4", "5", "6"]
        assert len(await store.get_immediate_context("c1", 50)) == 7
        assert await store.get_immediate_context("c1", 0) == []
        assert await store.get_immediate_context("c9", 3) == []

    async def test_flagged_messages_never_enter_the_context(self, store: MessageStore) -> None:
        await _stored(store)
        await store.flag_message("c1-m6")
        await store.store_message(message(8, is_flagged=True))
        assert [one.id[-1] for one in await store.get_immediate_context("c1", 3)] == ["4", "5", "7"]
        flags = [one.is_flagged for one in await store.get_messages_by_conversation_id("c1")]
        assert flags == [False] * 5 + [True, False, True]
        await store.flag_message("c1-m6", False)
        assert [one.id[-1] for one in await store.get_immediate_context("c1", 3)] == ["5", "6", "7"]

    async def test_only_what_is_stored_can_be_flagged(self, store: MessageStore) -> None:
        with pytest.raises(NotStoredError, match="c1-m99"):
            await store.flag_message("c1-m99")

    @pytest.mark.parametrize(
        "other", [{"conversation_id": "c2"}, {"original_content": "other"}, {"role": "system"}]
    )
    async def test_an_id_belongs_to_one_message(self, store: MessageStore, other: dict[str, str]) -> None:
        await store.store_message(message(2))
        said = message(2, intent="x", **({"id": "c1-m2"} | other))
        with pytest.raises(ConflictError, match="c1-m2"):
            await store.store_message(said)
        assert await store.get_message("c1-m2") == message(2)

    async def test_several_are_stored_all_or_none(self, store: MessageStore) -> None:
        await store.store_message(message(2))
        clash = message(2, original_content="other")
        with pytest.raises(ConflictError):
            await store.store_messages([message(1), message(2, intent="changed"), clash, message(3)])
        assert await store.get_messages_by_conversation_id("c1") == [message(2)]
        await store.store_messages([message(3), message(2), message(1), message(3)])
        kept = await store.get_messages_by_conversation_id("c1")
        assert [one.id[-1] for one in kept] == ["2", "3", "1"]
        await store.store_messages([])

    async def test_many_stored_at_once_are_all_there(self, store: MessageStore, second: MessageStore) -> None:
        calls = [(store, second)[number % 2].store_message(message(number)) for number in range(40)]
        await asyncio.gather(*calls)
        kept = await store.get_messages_by_conversation_id("c1")
        assert sorted(one.timestamp for one in kept) == list(range(40))
        again = await second.get_messages_by_conversation_id("c1")
        assert again == kept

    async def test_nothing_handed_out_is_what_is_kept(self, store: MessageStore) -> None:
        given = message(9, entities=[Entity(name="rug")])
        await store.store_message(given)
        given.entities[0].name = "changed after storing"
        read = await store.get_message("c1-m9")
        assert read is not None
        read.entities[0].name = "changed after reading"
        assert (await store.get_immediate_context("c1", 1))[0].entities == [Entity(name="rug")]

    async def test_deleting_a_message_takes_its_trace_along(self, store: MessageStore) -> None:
        await store.store_messages([message(1), message(2), message(3)])
        await store.store_turn_trace(trace("t1", "c1-m1"))
        await store.store_turn_trace(trace("t1", "c1-m2"))
        await store.store_turn_trace(trace("t3", "c1-m3"))
        assert await store.delete_message("c1-m2")
        assert [one.id for one in await store.get_messages_by_conversation_id("c1")] == ["c1-m1", "c1-m3"]
        assert await store.get_turn_trace("t1") is None
        assert await store.get_turn_trace_by_message_id("c1-m1") is None
        assert await store.get_turn_trace("t3") == trace("t3", "c1-m3")
        assert not await store.delete_message("c1-m2")
        await store.store_turn_trace(trace("t2", "c1-m1"))

    async def test_a_deleted_message_stored_again_is_the_newest(self, store: MessageStore) -> None:
        await store.store_messages([message(1, is_flagged=True), message(2)])
        await store.delete_message("c1-m1")
        await store.store_message(message(1, original_content="new"))
        assert [one.id[-1] for one in await store.get_immediate_context("c1", 5)] == ["2", "1"]
        await store.delete_message("c1-m1")
        await store.store_message(message(4))
        assert [one.id[-1] for one in await store.get_messages_by_conversation_id("c1")] == ["2", "4"]
