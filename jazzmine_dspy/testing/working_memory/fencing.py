"""A turn that lost its lease can lose work, never state."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import pytest

from jazzmine_dspy.memory.errors import StaleStateError, TurnLostError
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.testing.working_memory._promises import Promises, kept, reply
from jazzmine_dspy.testing.working_memory.harness import Harness, needs


class FencingPromises(Promises):
    """Numbers of turns, and writes that come too late."""

    async def test_numbers_grow_from_1(self, store: WorkingMemoryStore) -> None:
        fences = []
        for _ in range(4):
            async with store.turn("c1") as fence:
                fences.append(fence)
        assert fences == [1, 2, 3, 4]

    async def test_numbers_grow_over_all_stores(self, store: WorkingMemoryStore, harness: Harness) -> None:
        fences = []
        for one in (store, await harness.make(), store, await harness.make()):
            async with one.turn("c1") as fence:
                fences.append(fence)
        assert fences == sorted(set(fences))

    async def test_numbers_of_conversations_are_apart(self, store: WorkingMemoryStore) -> None:
        for _ in range(3):
            await reply(store, "a", "a")
        async with store.turn("b") as fence:
            assert fence == 1

    async def test_a_save_outside_a_turn_has_a_number_too(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1") as first:
            await store.get_or_create("c1", "u1")
        await reply(store, "a turn of its own")
        async with store.turn("c1") as second:
            assert second > first + 1

    async def test_numbers_grow_on_after_deletion(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1") as first:
            await reply(store, "hello")
        await store.delete("c1")
        async with store.turn("c1") as second:
            assert second > first

    @needs("expiry")
    async def test_numbers_grow_on_after_expiry(self, harness: Harness) -> None:
        store = await harness.make(ttl=100.0)
        async with store.turn("c1") as first:
            await reply(store, "hello")
        await harness.pass_time(150.0)
        async with store.turn("c1") as second:
            assert second > first

    @needs("leases")
    async def test_a_late_write_is_refused_once_another_turn_has_begun(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other = await harness.make()
        async with store.turn("c1"):
            late = await store.get_or_create("c1", "u1")
            await harness.lose_lease("c1")
            async with other.turn("c1"):
                with pytest.raises(TurnLostError, match=r"lease.*c1") as caught:
                    await store.save(late)
                assert isinstance(caught.value, StaleStateError)
                assert (await kept(other)).version == 0
                await reply(other, "in time")
        assert (await kept(store)).last_agent_response == "in time"

    @needs("leases")
    async def test_a_late_write_is_refused_after_the_other_turn_has_ended(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other = await harness.make()
        async with store.turn("c1"):
            late = await store.get_or_create("c1", "u1")
            await harness.lose_lease("c1")
            async with other.turn("c1"):
                pass
            # The other turn wrote nothing: it is the turn's number that tells, not the version.
            with pytest.raises(TurnLostError):
                await store.save(late)
        assert (await kept(other)).version == 0

    @needs("leases")
    async def test_the_newest_of_three_turns_wins(self, harness: Harness) -> None:
        stores = [await harness.make() for _ in range(3)]
        turns = [one.turn("c1") for one in stores]
        for turn, one in zip(turns, stores, strict=True):
            await turn.__aenter__()
            await one.get_or_create("c1", "u1")
            if one is not stores[-1]:
                await harness.lose_lease("c1")
        for number, one in enumerate(stores[:-1]):
            with pytest.raises(TurnLostError):
                await reply(one, f"by {number}")
        assert (await reply(stores[-1], "by the newest")).version == 1
        for turn in reversed(turns):
            await turn.__aexit__(None, None, None)
        assert (await kept(stores[0])).last_agent_response == "by the newest"

    @needs("leases")
    async def test_ending_a_lost_turn_leaves_the_other_one_its_lock(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other, third = await harness.make(), await harness.make(wait=0.05)
        lost, newer = store.turn("c1"), other.turn("c1")
        await lost.__aenter__()
        await harness.lose_lease("c1")
        await newer.__aenter__()
        await lost.__aexit__(None, None, None)
        with pytest.raises(TimeoutError):
            async with third.turn("c1"):
                pytest.fail("the lost turn has ended another one's")
        await reply(other, "undisturbed")
        await newer.__aexit__(None, None, None)

    @needs("leases")
    async def test_a_lost_turn_that_nobody_followed_can_still_write(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            await harness.lose_lease("c1")
            assert (await store.save(state)).version == 1

    @needs("leases")
    async def test_a_lost_turn_cannot_make_the_conversation(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other = await harness.make()
        async with store.turn("c1"):
            await harness.lose_lease("c1")
            async with other.turn("c1"):
                with pytest.raises(TurnLostError):
                    await store.get_or_create("c1", "late")
                await other.get_or_create("c1", "in time")
        assert (await kept(store)).user_id == "in time"

    @needs("leases")
    async def test_after_losing_a_turn_the_next_one_is_granted_and_writes(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other = await harness.make()
        async with store.turn("c1"):
            late = await store.get_or_create("c1", "u1")
            await harness.lose_lease("c1")
            async with other.turn("c1"):
                await reply(other, "in time")
            with pytest.raises(TurnLostError):
                await store.save(late)
        async with store.turn("c1"):
            assert (await reply(store, "the turn repeated")).version == 2

    @needs("leases")
    async def test_a_late_write_does_not_reach_a_conversation_deleted_and_begun_anew(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other = await harness.make()
        async with store.turn("c1"):
            late = await store.get_or_create("c1", "ann")
            await harness.lose_lease("c1")
            await other.delete("c1")
            async with other.turn("c1"):
                await other.get_or_create("c1", "bob")
            with pytest.raises(StaleStateError):
                await store.save(late)
        assert (await kept(store)).user_id == "bob"

    @needs("leases", "expiry")
    async def test_a_late_write_does_not_reach_a_conversation_expired_and_begun_anew(
        self, harness: Harness
    ) -> None:
        store, other = await harness.make(ttl=100.0), await harness.make(ttl=100.0)
        async with store.turn("c1"):
            late = await store.get_or_create("c1", "ann")
            await harness.lose_lease("c1")
            await harness.pass_time(150.0)
            async with other.turn("c1"):
                again = await other.get_or_create("c1", "bob")
                assert again.began_after == "expiry"
            with pytest.raises(StaleStateError):
                await store.save(late)
        assert (await kept(store)).user_id == "bob"

    async def test_a_conversation_deleted_during_a_turn_is_not_brought_back_by_it(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other = await harness.make()
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "ann")
            await other.delete("c1")
            with pytest.raises(StaleStateError):
                await store.save(state)
            # The turn is still its own, and may begin the conversation anew.
            assert (await store.get_or_create("c1", "ann")).last_agent_response == ""
            await reply(store, "anew")
        assert (await kept(other)).last_agent_response == "anew"
