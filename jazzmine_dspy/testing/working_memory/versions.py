"""A state is taken over the version that it was read at, and over no other."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import asyncio

import pytest

from jazzmine_dspy.memory.errors import StaleStateError
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.testing.working_memory._promises import Promises, kept, reply, soon
from jazzmine_dspy.testing.working_memory.harness import Harness


class VersionPromises(Promises):
    """Compare and set."""

    async def test_each_write_counts_one(self, store: WorkingMemoryStore) -> None:
        state = await store.get_or_create("c1", "u1")
        for version in range(1, 6):
            state = await store.save(state)
            assert state.version == version == (await kept(store)).version

    async def test_reading_does_not_count(self, store: WorkingMemoryStore) -> None:
        await store.get_or_create("c1", "u1")
        await store.get_or_create("c1", "u1")
        assert (await kept(store)).version == 0

    async def test_the_versions_of_conversations_are_apart(self, store: WorkingMemoryStore) -> None:
        for _ in range(3):
            await reply(store, "a", "a")
        assert (await reply(store, "b", "b")).version == 1

    async def test_a_stale_state_is_refused_and_changes_nothing(self, store: WorkingMemoryStore) -> None:
        first, second = await store.get_or_create("c1", "u1"), await store.get_or_create("c1", "u1")
        first.last_agent_response, second.last_agent_response = "first", "second"
        assert (await store.save(first)).version == 1
        with pytest.raises(StaleStateError, match=r"version 1, not 0.*c1"):
            await store.save(second)
        assert ((await kept(store)).last_agent_response, (await kept(store)).version) == ("first", 1)

    async def test_the_same_state_saved_twice_is_stale_the_second_time(
        self, store: WorkingMemoryStore
    ) -> None:
        state = await store.get_or_create("c1", "u1")
        await store.save(state)
        with pytest.raises(StaleStateError):
            await store.save(state)

    async def test_a_stale_state_is_refused_between_stores(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other = await harness.make()
        mine, theirs = await store.get_or_create("c1", "u1"), await other.get_or_create("c1", "u1")
        await other.save(theirs)
        with pytest.raises(StaleStateError):
            await store.save(mine)

    async def test_a_version_that_never_was_is_refused(self, store: WorkingMemoryStore) -> None:
        state = await reply(store, "first")
        with pytest.raises(StaleStateError, match="version 1, not 7"):
            await store.save(state.model_copy(update={"version": 7}))

    async def test_a_state_that_was_never_kept_is_refused(self, store: WorkingMemoryStore) -> None:
        with pytest.raises(StaleStateError, match="is gone"):
            await store.save(WorkingMemory(conversation_id="c1", user_id="u1"))
        assert await store.get("c1") is None

    async def test_a_state_of_another_conversation_is_refused_there(self, store: WorkingMemoryStore) -> None:
        state = await reply(store, "of a", "a")
        await store.get_or_create("b", "u1")
        with pytest.raises(StaleStateError):
            await store.save(state.model_copy(update={"conversation_id": "b"}))
        assert (await kept(store, "b")).last_agent_response == ""

    async def test_a_late_save_does_not_bring_a_deleted_conversation_back(
        self, store: WorkingMemoryStore
    ) -> None:
        state = await store.get_or_create("c1", "u1")
        await store.delete("c1")
        with pytest.raises(StaleStateError, match="is gone"):
            await store.save(state)
        assert await store.get("c1") is None

    async def test_a_late_save_does_not_reach_the_conversation_that_took_its_place(
        self, store: WorkingMemoryStore
    ) -> None:
        old = await store.get_or_create("c1", "ann")
        await store.delete("c1")
        await store.get_or_create("c1", "bob")
        with pytest.raises(StaleStateError):
            await store.save(old)
        assert (await kept(store)).user_id == "bob"

    async def test_of_saves_at_once_one_is_taken(self, store: WorkingMemoryStore, harness: Harness) -> None:
        stores = [store, *[await harness.make() for _ in range(4)]]
        state = await store.get_or_create("c1", "u1")
        ended = await soon(
            asyncio.gather(*(one.save(state) for one in stores for _ in range(2)), return_exceptions=True)
        )
        assert sum(isinstance(one, WorkingMemory) for one in ended) == 1
        assert sum(isinstance(one, StaleStateError) for one in ended) == 9
        assert (await kept(store)).version == 1

    async def test_a_refused_write_is_an_error_of_ours_with_a_remedy(self, store: WorkingMemoryStore) -> None:
        state = await store.get_or_create("c1", "u1")
        await store.save(state)
        with pytest.raises(JazzmineError) as caught:
            await store.save(state)
        assert "c1" in caught.value.where
        assert caught.value.remedy

    async def test_after_a_refusal_the_turn_can_read_again_and_go_on(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            await store.save(state)
            with pytest.raises(StaleStateError):
                await store.save(state)
            fresh = await kept(store)
            assert (await store.save(fresh)).version == 2
