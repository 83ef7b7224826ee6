"""An unreadable record is moved aside with its cause; the conversation starts over, and nothing is deleted."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import NotStoredError, StaleStateError, StateError
from jazzmine_dspy.memory.working.backend import Presence
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.testing.working_memory._promises import Promises, flow, kept, reply
from jazzmine_dspy.testing.working_memory.harness import Harness, needs

GOOD: dict[str, Any] = {"schema_version": 2, "conversation_id": "c1", "user_id": "u1"}


def record(**fields: Any) -> bytes:
    """The bytes of a record with these fields."""
    return json.dumps({**GOOD, **fields}).encode()


DAMAGE = {
    "empty": b"",
    "truncated": record(last_agent_response="hello")[:-9],
    "zeros": bytes(64),
    "not a text": b"\xff\xfe\x00 broken \x80",
    "not JSON": b"(dp0\nS'user_id'\np1\n.",
    "a word": b"hello",
    "null": b"null",
    "a list": b"[1, 2]",
    "a number": b"17",
    "a text": b'"text"',
    "no fields": b"{}",
    "two records": record() + record(),
    "nested without end": b"[" * 100_000,
    "nested too deep": record(active_flow=None)[:-1] + b', "more": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "of another conversation": record(conversation_id="c2"),
    "no user": json.dumps({k: v for k, v in GOOD.items() if k != "user_id"}).encode(),
    "a field of a wrong type": record(turn_number="many"),
    "a mapping for a list": record(queue={}),
    "a list for a mapping": record(entity_workspace=[]),
    "a negative count": record(turn_number=-1),
    "not a number": record(sentiments=[float("nan")]),
    "infinite": record(created_at=float("inf")),
    "an unknown status": record(active_flow={"flow_name": "f", "status": "levitating"}),
    "an unknown status within": record(flow_history=[{"flow_name": "f", "status": "who knows"}]),
    "a stored status": record(status="idle"),
    "an unknown beginning": record(began_after="flood"),
    "no schema number": record(schema_version="two"),
    "a true schema number": record(schema_version=True),
    "half a pair": b'{"schema_version": 2, "conversation_id": "c1", "user_id": "\\ud83d"}',
}


_FLOW: dict[str, Any] = {"flow_name": "f", "status": "active"}

NAMED: dict[str, tuple[dict[str, Any], str]] = {
    "a slot": (
        {"active_flow": {**_FLOW, "slots": {"Ada Lovelace": {"name": "Ada", "required": "Ada"}}}},
        "active_flow.slots.*.required",
    ),
    "a slot with a field's name": (
        {"paused": [{**_FLOW, "slots": {"ada": {"name": "Ada", "attempts": -1}}}]},
        "paused.0.slots.*.attempts",
    ),
    "an entity": (
        {"entity_workspace": {"Ada": {"name": "Ada", "mention_count": "Ada"}}},
        "entity_workspace.*.mention_count",
    ),
    "an attribute of the user": (
        {"queue": [{"message_id": "m", "user_id": "u", "text": "t", "user_attributes": ["Ada"]}]},
        "queue.0.user_attributes",
    ),
    "a recalled term": (
        {"current_turn": {"retrieved_semantic_terms": [{"Ada": 1}, "Ada"]}},
        "current_turn.retrieved_semantic_terms.1",
    ),
}
"""Damage beside names that come from users, and the field that its cause must tell."""


class DamagePromises(Promises):
    """What lies in the store is not what was written."""

    @needs("raw", "aside")
    @pytest.mark.parametrize("kind", DAMAGE)
    async def test_the_conversation_starts_over_and_the_record_is_moved_aside(
        self, store: WorkingMemoryStore, harness: Harness, kind: str
    ) -> None:
        await reply(store, "before")
        await harness.put_raw("c1", DAMAGE[kind])
        assert await store.get("c1") is None
        assert await store.presence("c1") is Presence.UNREADABLE
        [aside] = await store.aside("c1")
        assert (aside.data, bool(aside.cause), aside.at > 0) == (DAMAGE[kind], True, True)
        fresh = await store.get_or_create("c1", "u1")
        assert (fresh.last_agent_response, fresh.began_after) == ("", "corruption")
        assert (await reply(store, "after")).last_agent_response == "after"
        assert len(await store.aside("c1")) == 1

    @needs("raw", "aside")
    async def test_the_cause_names_the_field_and_no_value(
        self, store: WorkingMemoryStore, harness: Harness, caplog: pytest.LogCaptureFixture
    ) -> None:
        await reply(store, "before")
        await harness.put_raw("c1", record(active_flow={"flow_name": "f", "status": "secret 4471"}))
        with caplog.at_level(logging.ERROR):
            await store.get("c1")
        [aside] = await store.aside("c1")
        assert "active_flow.status" in aside.cause
        assert "4471" not in aside.cause + caplog.text
        assert "c1" in caplog.text

    @needs("raw", "aside")
    @pytest.mark.parametrize("kind", NAMED)
    async def test_the_cause_holds_no_name_that_users_or_their_data_gave(
        self, store: WorkingMemoryStore, harness: Harness, caplog: pytest.LogCaptureFixture, kind: str
    ) -> None:
        damage, field = NAMED[kind]
        await reply(store, "before")
        await harness.put_raw("c1", record(**damage))
        with caplog.at_level(logging.DEBUG):
            await store.get("c1")
        [aside] = await store.aside("c1")
        assert field in aside.cause
        assert field in caplog.text
        assert "ada" not in (aside.cause + caplog.text).lower()

    @needs("raw", "aside")
    async def test_neighbours_are_untouched(self, store: WorkingMemoryStore, harness: Harness) -> None:
        before = [await reply(store, "fine", name) for name in ("b1", "d1")]
        await reply(store, "before")
        await harness.put_raw("c1", b"broken")
        assert await store.get("c1") is None
        assert [await kept(store, name) for name in ("b1", "d1")] == before
        assert await store.aside("b1") == []

    @needs("raw", "aside")
    async def test_it_is_found_at_the_beginning_of_a_turn(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await reply(store, "before")
        await harness.put_raw("c1", b"broken")
        async with store.turn("c1"):
            assert await store.get("c1") is None
            fresh = await store.get_or_create("c1", "u1")
            assert fresh.began_after == "corruption"
            await store.save(fresh)
        assert (await kept(store)).began_after == "corruption"

    @needs("raw", "aside")
    async def test_it_is_found_by_another_store_in_its_turn(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other = await harness.make()
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            await harness.put_raw("c1", b"broken")
            assert await other.get("c1") is None
            with pytest.raises(StaleStateError):
                await store.save(state)

    @needs("raw", "aside")
    async def test_several_records_of_one_conversation_are_kept_in_order(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        for number in range(3):
            await reply(store, "before")
            await harness.put_raw("c1", f"broken {number}".encode())
            assert await store.get("c1") is None
        aside = await store.aside("c1")
        assert [one.data for one in aside] == [b"broken 0", b"broken 1", b"broken 2"]
        assert len({one.id for one in aside}) == 3

    @needs("raw", "aside")
    async def test_versions_grow_on_past_a_record_set_aside(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        before = await reply(store, "before")
        await harness.put_raw("c1", b"broken")
        assert (await store.get_or_create("c1", "u1")).version > before.version
        with pytest.raises(StaleStateError):
            await store.save(before)

    @needs("raw", "aside")
    async def test_a_record_mended_by_hand_is_read_again(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await reply(store, "before")
        await harness.put_raw("c1", record(last_agent_response="mended"))
        assert (await reply(store, (await kept(store)).last_agent_response)).last_agent_response == "mended"

    @needs("aside")
    async def test_a_good_record_set_aside_by_hand_comes_back_whole(self, store: WorkingMemoryStore) -> None:
        state = await store.get_or_create("c1", "u1")
        state.active_flow = flow(a=[1])
        before = await store.save(state)
        aside_id = await store.set_aside("c1", cause="looked at by hand")
        assert aside_id is not None
        assert await store.get("c1") is None
        [aside] = await store.aside("c1")
        assert (aside.id, aside.cause) == (aside_id, "looked at by hand")
        await store.restore("c1", aside_id)
        again = await kept(store)
        assert again.model_dump(exclude={"version"}) == before.model_dump(exclude={"version"})
        assert again.version > before.version
        assert await store.aside("c1") == []
        assert (await store.save(again)).version == again.version + 1

    @needs("aside")
    async def test_where_nothing_lies_nothing_is_set_aside(self, store: WorkingMemoryStore) -> None:
        assert await store.set_aside("c1", cause="?") is None
        assert await store.aside("c1") == []
        assert await store.presence("c1") is Presence.ABSENT

    @needs("aside")
    async def test_a_record_does_not_come_back_over_one_that_went_on(self, store: WorkingMemoryStore) -> None:
        await reply(store, "first")
        aside_id = await store.set_aside("c1", cause="by hand")
        assert aside_id is not None
        second = await reply(store, "second")
        with pytest.raises(StateError, match=r"gone on.*c1"):
            await store.restore("c1", aside_id)
        assert await store.get("c1") == second
        assert len(await store.aside("c1")) == 1

    @needs("aside")
    async def test_what_was_never_set_aside_cannot_come_back(self, store: WorkingMemoryStore) -> None:
        await reply(store, "first", "other")
        aside_id = await store.set_aside("other", cause="by hand")
        assert aside_id is not None
        for wrong in ("nothing", "", "0", "*"):
            with pytest.raises(NotStoredError, match="set aside under"):
                await store.restore("other", wrong)
        with pytest.raises(NotStoredError):
            await store.restore("c1", aside_id)

    @needs("aside")
    async def test_a_state_read_before_it_was_set_aside_is_stale_after_it_came_back(
        self, store: WorkingMemoryStore
    ) -> None:
        before = await reply(store, "first")
        aside_id = await store.set_aside("c1", cause="by hand")
        assert aside_id is not None
        await store.restore("c1", aside_id)
        with pytest.raises(StaleStateError):
            await store.save(before)

    @needs("aside")
    async def test_deleting_forgets_what_was_set_aside_too(self, store: WorkingMemoryStore) -> None:
        await reply(store, "personal")
        await store.set_aside("c1", cause="by hand")
        assert await store.conversations() == ["c1"]
        assert await store.delete("c1")
        assert await store.aside("c1") == []
        assert await store.conversations() == []
        assert await store.presence("c1") is Presence.ABSENT

    @needs("aside", "expiry")
    async def test_what_was_set_aside_does_not_expire(self, harness: Harness) -> None:
        store = await harness.make(ttl=100.0, remember=200.0)
        await reply(store, "first")
        await store.set_aside("c1", cause="by hand")
        await harness.pass_time(1_000.0)
        assert len(await store.aside("c1")) == 1
        assert await store.conversations() == ["c1"]
