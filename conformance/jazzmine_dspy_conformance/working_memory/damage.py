"""Records that cannot be read, that another version wrote, and that expired."""

# The name of a test says what it checks.
# ruff: noqa: D102

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import pytest_asyncio

from jazzmine_dspy.memory.errors import StaleStateError
from jazzmine_dspy.memory.working.state import SCHEMA_VERSION
from jazzmine_dspy.memory.working.store import Presence, WorkingMemoryStore
from jazzmine_dspy_conformance.working_memory.harness import Harness, Suite, reply, stored_state
from jazzmine_dspy_conformance.working_memory.states import whole

TTL = 100.0
GOOD: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "conversation_id": "c1", "user_id": "u1"}


def record(**fields: Any) -> bytes:
    """The bytes of a record with these fields."""
    return json.dumps({**GOOD, **fields}).encode()


DAMAGE = {
    "empty": b"",
    "truncated": record(last_agent_response="hello")[:-9],
    "not a text": b"\xff\xfe\x00 broken \x80",
    "a list": b"[1, 2]",
    "nested without end": b"[" * 100_000,
    "of another conversation": record(conversation_id="c2"),
    "a field of a wrong type": record(turn_number="many"),
    "not a number": record(sentiments=[float("nan")]),
    "an unknown status": record(active_flow={"flow_name": "f", "status": "levitating"}),
}


async def damage(store: WorkingMemoryStore, harness: Harness, data: bytes = b"broken") -> None:
    """Overwrite a record, and let the store read it."""
    await reply(store, "personal")
    await harness.put_raw("c1", data)
    assert await store.get("c1") is None


class DamageSuite(Suite):
    """An unreadable record is moved aside with its cause; the conversation starts over, and nothing is deleted."""

    @pytest.mark.parametrize("kind", DAMAGE)
    async def test_the_conversation_starts_over_and_the_record_is_moved_aside(
        self, store: WorkingMemoryStore, harness: Harness, kind: str
    ) -> None:
        await damage(store, harness, DAMAGE[kind])
        assert await store.presence("c1") is Presence.UNREADABLE
        [aside] = await store.quarantined("c1")
        assert (aside.data, bool(aside.cause), aside.at > 0) == (DAMAGE[kind], True, True)
        fresh = await store.get_or_create("c1", "u1")
        assert (fresh.last_agent_response, fresh.began_after) == ("", "corruption")
        assert (await reply(store, "after")).last_agent_response == "after"
        assert len(await store.quarantined("c1")) == 1

    async def test_the_cause_names_the_field_and_no_value(
        self, store: WorkingMemoryStore, harness: Harness, caplog: pytest.LogCaptureFixture
    ) -> None:
        await reply(store, "before")
        await harness.put_raw("c1", record(active_flow={"flow_name": "f", "status": "secret 4471"}))
        with caplog.at_level(logging.ERROR):
            await store.get("c1")
        [aside] = await store.quarantined("c1")
        assert "active_flow: " in aside.cause
        assert "4471" not in aside.cause + caplog.text
        assert "c1" in caplog.text

    async def test_neighbours_are_untouched(self, store: WorkingMemoryStore, harness: Harness) -> None:
        before = [await reply(store, "fine", name) for name in ("b1", "d1")]
        await damage(store, harness)
        assert [await stored_state(store, name) for name in ("b1", "d1")] == before
        assert await store.quarantined("b1") == []

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
        assert (await stored_state(store)).began_after == "corruption"

    async def test_it_is_found_by_another_store_in_its_turn(
        self, store: WorkingMemoryStore, other: WorkingMemoryStore, harness: Harness
    ) -> None:
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            await harness.put_raw("c1", b"broken")
            assert await other.get("c1") is None
            with pytest.raises(StaleStateError):
                await store.save(state)

    async def test_several_records_of_one_conversation_are_kept_in_order(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        for number in range(3):
            await damage(store, harness, f"broken {number}".encode())
        aside = await store.quarantined("c1")
        assert [one.data for one in aside] == [b"broken 0", b"broken 1", b"broken 2"]

    async def test_versions_grow_on_past_a_record_set_aside(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        before = await reply(store, "before")
        await harness.put_raw("c1", b"broken")
        assert (await store.get_or_create("c1", "u1")).version > before.version
        with pytest.raises(StaleStateError):
            await store.save(before)

    async def test_deleting_deletes_what_was_moved_aside_too(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await damage(store, harness)
        assert await store.delete("c1")
        assert await store.quarantined("c1") == []
        assert await store.presence("c1") is Presence.ABSENT

    async def test_what_was_moved_aside_does_not_expire(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL, remember=200.0)
        await damage(store, harness)
        await harness.pass_time(1_000.0)
        assert len(await store.quarantined("c1")) == 1

    async def test_unknown_fields_at_every_depth_are_written_back(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await store.save(whole(await store.get_or_create("c1", "u1")))
        raw = json.loads(await harness.raw("c1") or b"")
        # A mapping of things by name takes no more names of another kind.
        by_name = {"entity_workspace", "slots", "question_counts"}

        def newer(value: Any, name: str = "") -> Any:
            if isinstance(value, list):
                return [newer(item) for item in value]
            if not isinstance(value, dict):
                return value
            inner = {key: newer(item, key) for key, item in value.items()}
            return inner if name in by_name else {**inner, "news": {"a": [1, None, "é"]}}

        sent = newer(raw)
        await harness.put_raw("c1", json.dumps(sent).encode())
        await reply(store, "after")
        written = json.loads(await harness.raw("c1") or b"")
        for changed in ("last_agent_response", "last_updated"):
            del sent[changed], written[changed]
        assert written == sent

    async def test_a_newer_schema_keeps_its_number(self, store: WorkingMemoryStore, harness: Harness) -> None:
        await reply(store, "before")
        raw = json.loads(await harness.raw("c1") or b"")
        await harness.put_raw("c1", json.dumps({**raw, "schema_version": 99, "novelty": [1]}).encode())
        await reply(store, "after")
        written = json.loads(await harness.raw("c1") or b"")
        assert (written["schema_version"], written["novelty"]) == (99, [1])
        assert (await stored_state(store)).last_agent_response == "after"
        assert await store.quarantined("c1") == []

    async def test_a_record_of_an_older_schema_is_moved_aside_and_says_so(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await reply(store, "before")
        raw = json.loads(await harness.raw("c1") or b"")
        old = json.dumps({**raw, "schema_version": SCHEMA_VERSION - 1}).encode()
        await harness.put_raw("c1", old)
        assert await store.get("c1") is None
        [aside] = await store.quarantined("c1")
        assert aside.data == old
        assert "schema_version" in aside.cause


class ExpirySuite(Suite):
    """A record lives for a time after its last use; that it expired is distinguished from that it never was."""

    @pytest_asyncio.fixture
    async def short(self, harness: Harness) -> WorkingMemoryStore:
        """A store whose records do not live long, with one."""
        store = await harness.make(ttl=TTL, remember=500.0)
        await reply(store, "hello")
        return store

    async def test_reading_lets_it_live_on(self, short: WorkingMemoryStore, harness: Harness) -> None:
        for _ in range(4):
            await harness.pass_time(TTL - 20)
            assert (await stored_state(short)).last_agent_response == "hello"

    async def test_writing_lets_it_live_on(self, short: WorkingMemoryStore, harness: Harness) -> None:
        state = await stored_state(short)
        for _ in range(4):
            await harness.pass_time(TTL * 0.6)
            state = await short.save(state)

    async def test_asking_whether_it_is_there_does_not(
        self, short: WorkingMemoryStore, harness: Harness
    ) -> None:
        await harness.pass_time(TTL * 0.6)
        assert await short.presence("c1") is Presence.PRESENT
        await harness.pass_time(TTL * 0.6)
        assert await short.presence("c1") is Presence.EXPIRED

    async def test_what_begins_anew_says_after_what(
        self, short: WorkingMemoryStore, harness: Harness
    ) -> None:
        await harness.pass_time(TTL + 20)
        again = await short.get_or_create("c1", "u1")
        assert (again.began_after, again.last_agent_response) == ("expiry", "")
        assert (await short.get_or_create("c2", "u1")).began_after == "nothing"
        assert (await stored_state(short)).began_after == "expiry"

    async def test_that_it_expired_is_forgotten_some_day(
        self, short: WorkingMemoryStore, harness: Harness
    ) -> None:
        await harness.pass_time(TTL + 20)
        assert await short.get("c1") is None
        assert await short.presence("c1") is Presence.EXPIRED
        await harness.pass_time(600.0)
        assert await short.presence("c1") is Presence.ABSENT

    async def test_deleted_is_not_expired(self, short: WorkingMemoryStore, harness: Harness) -> None:
        await harness.pass_time(TTL + 20)
        await short.delete("c1")
        assert await short.presence("c1") is Presence.ABSENT

    async def test_a_state_read_before_it_expired_does_not_come_back(
        self, short: WorkingMemoryStore, harness: Harness
    ) -> None:
        before = await stored_state(short)
        await harness.pass_time(TTL + 20)
        with pytest.raises(StaleStateError, match="is gone"):
            await short.save(before)
        assert await short.presence("c1") is Presence.EXPIRED
        assert (await short.get_or_create("c1", "u1")).version > before.version
        with pytest.raises(StaleStateError):
            await short.save(before)

    async def test_each_conversation_has_its_own_time(
        self, short: WorkingMemoryStore, harness: Harness
    ) -> None:
        await reply(short, "b", "c2")
        await harness.pass_time(TTL * 0.6)
        await stored_state(short)
        await harness.pass_time(TTL * 0.6)
        assert [await short.presence(name) for name in ("c1", "c2")] == [Presence.PRESENT, Presence.EXPIRED]
