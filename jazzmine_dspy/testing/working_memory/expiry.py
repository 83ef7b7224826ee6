"""A record lives for a time after its last use; that it expired is told apart from that it never was."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import pytest

from jazzmine_dspy.memory.errors import StaleStateError
from jazzmine_dspy.memory.working.backend import Presence
from jazzmine_dspy.testing.working_memory._promises import Promises, kept, reply
from jazzmine_dspy.testing.working_memory.harness import Harness, needs

TTL = 100.0


class ExpiryPromises(Promises):
    """Time to live."""

    @needs("expiry")
    async def test_an_unused_record_expires(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        await harness.pass_time(TTL + 20)
        assert await store.get("c1") is None
        assert await store.conversations() == []

    @needs("expiry")
    async def test_not_before_its_time(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        await harness.pass_time(TTL - 20)
        assert (await kept(store)).last_agent_response == "hello"

    @needs("expiry")
    async def test_reading_lets_it_live_on(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        for _ in range(4):
            await harness.pass_time(TTL * 0.6)
            assert await store.get("c1") is not None

    @needs("expiry")
    async def test_get_or_create_lets_it_live_on(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        for _ in range(4):
            await harness.pass_time(TTL * 0.6)
            assert (await store.get_or_create("c1", "u1")).last_agent_response == "hello"

    @needs("expiry")
    async def test_writing_lets_it_live_on(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        state = await store.get_or_create("c1", "u1")
        for _ in range(4):
            await harness.pass_time(TTL * 0.6)
            state = await store.save(state)

    @needs("expiry")
    async def test_a_turn_lets_it_live_on(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        for _ in range(4):
            await harness.pass_time(TTL * 0.6)
            async with store.turn("c1"):
                pass
        assert (await kept(store)).last_agent_response == "hello"

    @needs("expiry")
    async def test_asking_whether_it_is_there_does_not(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        await harness.pass_time(TTL * 0.6)
        assert await store.presence("c1") is Presence.PRESENT
        assert await store.conversations() == ["c1"]
        await harness.pass_time(TTL * 0.6)
        assert await store.presence("c1") is Presence.EXPIRED

    @needs("expiry")
    async def test_expired_is_told_from_never_existed(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        await harness.pass_time(TTL + 20)
        assert await store.presence("c1") is Presence.EXPIRED
        assert await store.presence("c2") is Presence.ABSENT

    @needs("expiry")
    async def test_what_begins_anew_says_after_what(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        await harness.pass_time(TTL + 20)
        again = await store.get_or_create("c1", "u1")
        assert (again.began_after, again.last_agent_response) == ("expiry", "")
        assert (await store.get_or_create("c2", "u1")).began_after == "nothing"
        assert (await kept(store)).began_after == "expiry"

    @needs("expiry")
    async def test_within_a_turn_it_says_so_too(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        await harness.pass_time(TTL + 20)
        async with store.turn("c1"):
            assert (await store.get_or_create("c1", "u1")).began_after == "expiry"

    @needs("expiry")
    async def test_that_it_expired_is_forgotten_some_day(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL, remember=500.0)
        await reply(store, "hello")
        await harness.pass_time(TTL + 20)
        assert await store.presence("c1") is Presence.EXPIRED
        await harness.pass_time(600.0)
        assert await store.presence("c1") is Presence.ABSENT

    @needs("expiry")
    async def test_deleted_is_not_expired(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "hello")
        await harness.pass_time(TTL + 20)
        await store.delete("c1")
        assert await store.presence("c1") is Presence.ABSENT

    @needs("expiry")
    async def test_a_state_read_before_it_expired_does_not_come_back(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        state = await reply(store, "hello")
        await harness.pass_time(TTL + 20)
        with pytest.raises(StaleStateError, match="is gone"):
            await store.save(state)
        assert await store.presence("c1") is Presence.EXPIRED

    @needs("expiry")
    async def test_versions_grow_on_past_expiry(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        before = await reply(store, "hello")
        await harness.pass_time(TTL + 20)
        assert (await store.get_or_create("c1", "u1")).version > before.version
        with pytest.raises(StaleStateError):
            await store.save(before)

    @needs("expiry")
    async def test_a_record_that_expires_within_a_turn_is_not_brought_back(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            await harness.pass_time(TTL + 20)
            with pytest.raises(StaleStateError):
                await store.save(state)
            assert (await store.get_or_create("c1", "u1")).began_after == "expiry"

    @needs("expiry")
    async def test_each_conversation_has_its_own_time(self, harness: Harness) -> None:
        store = await harness.make(ttl=TTL)
        await reply(store, "a", "a")
        await reply(store, "b", "b")
        await harness.pass_time(TTL * 0.6)
        await kept(store, "a")
        await harness.pass_time(TTL * 0.6)
        assert await store.conversations() == ["a"]
