"""Whole turns of a conversation run one after another; a lost turn can lose work, never state."""

# The name of a test says what it checks.
# ruff: noqa: D102

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

import pytest

from jazzmine_dspy.memory.errors import StaleStateError, TurnLostError
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy_conformance.working_memory.harness import (
    BackgroundTurn,
    Harness,
    Suite,
    background_turn,
    count,
    reply,
    stored_state,
    take_turn,
    wait_in_vain,
    with_timeout,
    yield_to_tasks,
)


class TurnSuite(Suite):
    """Order, waiting, cancellation, tasks in a turn, lost turns, many workers."""

    async def test_turns_run_one_after_another_in_the_order_of_asking(
        self, store: WorkingMemoryStore
    ) -> None:
        log: list[str] = []

        async def turn(name: str) -> None:
            async with store.turn("c1"):
                log.append(f"{name} in")
                await yield_to_tasks(store)
                log.append(f"{name} out")

        await with_timeout(asyncio.gather(*(turn(name) for name in "abcdefgh")))
        assert log == [f"{name} {way}" for name in "abcdefgh" for way in ("in", "out")]

    async def test_a_second_store_waits_and_then_goes_on(
        self, store: WorkingMemoryStore, other: WorkingMemoryStore
    ) -> None:
        async with background_turn(store):
            second = BackgroundTurn(other)
            await yield_to_tasks(store)
            assert not second.entered.is_set()
        await second.end()

    async def test_other_conversations_do_not_wait(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            for name in ("c2", "c3"):
                await take_turn(store, name)

    async def test_what_was_saved_before_an_error_stays(self, store: WorkingMemoryStore) -> None:
        with suppress(ZeroDivisionError):
            async with store.turn("c1"):
                state = await reply(store, "saved")
                state.last_agent_response = "never saved"
                raise ZeroDivisionError
        assert (await stored_state(store)).last_agent_response == "saved"

    @pytest.mark.parametrize("times", [1, 2])
    async def test_a_cancelled_turn_lets_the_next_one_in(
        self, store: WorkingMemoryStore, other: WorkingMemoryStore, times: int
    ) -> None:
        turn = BackgroundTurn(store)
        await with_timeout(turn.entered.wait())
        for _ in range(times):
            turn.task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await turn.end()
        for one in (store, other):
            await take_turn(one)

    @pytest.mark.parametrize("ticks", [0, 1, 3, 7])
    async def test_cancelled_at_any_point_a_turn_lets_the_next_one_in(
        self, store: WorkingMemoryStore, ticks: int
    ) -> None:
        async def turn() -> None:
            async with store.turn("c1"):
                await reply(store, "hello")

        task = asyncio.create_task(turn())
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await with_timeout(task)
        await take_turn(store)

    async def test_waiting_too_long_is_a_timeout_and_an_error_of_ours(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        async with background_turn(store):
            error = await wait_in_vain(await harness.make(wait=0.05))
            assert re.search(r"0\.05 s.*c1", str(error))
            assert isinstance(error, TimeoutError)
            assert isinstance(error, JazzmineError)
            assert error.remedy

    async def test_a_save_outside_a_turn_waits_for_the_turn(
        self, store: WorkingMemoryStore, other: WorkingMemoryStore
    ) -> None:
        state = await store.get_or_create("c1", "u1")
        async with background_turn(other):
            saving = asyncio.create_task(store.save(state))
            await yield_to_tasks(store)
            assert not saving.done()
        assert (await with_timeout(saving)).version == 1

    async def test_reading_does_not_wait_for_a_turn(
        self, store: WorkingMemoryStore, other: WorkingMemoryStore
    ) -> None:
        await reply(store, "before")
        async with background_turn(other):
            assert (await with_timeout(store.get_or_create("c1", "u1"))).last_agent_response == "before"
            assert (await with_timeout(stored_state(store))).last_agent_response == "before"

    async def test_deleting_does_not_wait_and_leaves_the_turn_to_its_holder(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await reply(store, "before")
        async with background_turn(store):
            hasty = await harness.make(wait=0.02)
            assert await with_timeout(hasty.delete("c1"))
            await wait_in_vain(hasty)

    async def test_a_turn_within_the_turn_is_the_same_one(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1") as outer:
            async with store.turn("c1") as inner:
                assert inner == outer
                await reply(store, "inner")
            # The inner one has not ended the turn.
            second = BackgroundTurn(store)
            await yield_to_tasks(store)
            assert not second.entered.is_set()
            await reply(store, "outer")
        await second.end()

    async def test_tasks_gathered_in_a_turn_work_in_it(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1")
            read = await with_timeout(asyncio.gather(*(stored_state(store) for _ in range(5))))
            saved = await with_timeout(store.save(read[0]))
            assert (await asyncio.create_task(stored_state(store))) == saved
            assert (await with_timeout(asyncio.create_task(store.save(saved)))).version == 2
        assert (await stored_state(store)).version == 2

    async def test_the_turn_of_a_task_begun_in_a_turn_is_its_own(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1") as fence:
            child = BackgroundTurn(store)
            await yield_to_tasks(store)
            assert not child.entered.is_set()
        await with_timeout(child.entered.wait())
        assert child.fence > fence
        await child.end()

    async def test_a_task_that_outlives_its_turn_has_a_turn_of_its_own(
        self, store: WorkingMemoryStore
    ) -> None:
        ended = asyncio.Event()

        async def later() -> WorkingMemory:
            await ended.wait()
            return await reply(store, "later")

        async with store.turn("c1"):
            await reply(store, "in the turn")
            task = asyncio.create_task(later())
        async with background_turn(store):
            ended.set()
            await yield_to_tasks(store)
            assert not task.done()
        await with_timeout(task)
        assert (await stored_state(store)).last_agent_response == "later"

    @pytest.mark.parametrize("between", ["nothing", "deletion", "expiry"])
    async def test_numbers_grow_over_all_stores_past_deletion_and_expiry(
        self, harness: Harness, between: str
    ) -> None:
        fences = []
        for one in 2 * [await harness.make(ttl=100.0), await harness.make(ttl=100.0)]:
            async with one.turn("c1") as fence:
                fences.append(fence)
                await one.get_or_create("c1", "u1")
            if between == "deletion":
                await one.delete("c1")
            elif between == "expiry":
                await harness.pass_time(150.0)
        assert fences == sorted(set(fences))

    async def test_a_late_write_is_refused_once_another_turn_has_begun(
        self, store: WorkingMemoryStore, other: WorkingMemoryStore, harness: Harness
    ) -> None:
        async with store.turn("c1"):
            late = await store.get_or_create("c1", "u1")
            await harness.lose_lease("c1")
            async with other.turn("c1"):
                with pytest.raises(TurnLostError, match=r"lease.*c1") as caught:
                    await store.save(late)
                assert isinstance(caught.value, StaleStateError)
                assert (await stored_state(other)).version == 0
                await reply(other, "in time")
        assert (await stored_state(store)).last_agent_response == "in time"

    async def test_ending_a_lost_turn_leaves_the_other_one_its_lock(
        self, store: WorkingMemoryStore, other: WorkingMemoryStore, harness: Harness
    ) -> None:
        lost, newer = store.turn("c1"), other.turn("c1")
        await lost.__aenter__()
        await harness.lose_lease("c1")
        await newer.__aenter__()
        await lost.__aexit__(None, None, None)
        await wait_in_vain(await harness.make(wait=0.05))
        await reply(other, "undisturbed")
        await newer.__aexit__(None, None, None)

    async def test_a_lost_turn_that_nobody_followed_can_still_write(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            await harness.lose_lease("c1")
            assert (await store.save(state)).version == 1

    async def test_a_lost_turn_cannot_make_the_conversation(
        self, store: WorkingMemoryStore, other: WorkingMemoryStore, harness: Harness
    ) -> None:
        async with store.turn("c1"):
            await harness.lose_lease("c1")
            async with other.turn("c1"):
                with pytest.raises(TurnLostError):
                    await store.get_or_create("c1", "late")
                await other.get_or_create("c1", "in time")
        assert (await stored_state(store)).user_id == "in time"

    async def test_a_conversation_deleted_during_a_turn_is_not_brought_back_by_it(
        self, store: WorkingMemoryStore, other: WorkingMemoryStore
    ) -> None:
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "ann")
            await other.delete("c1")
            with pytest.raises(StaleStateError):
                await store.save(state)
            # The turn is still its own, and may begin the conversation anew.
            assert (await store.get_or_create("c1", "ann")).last_agent_response == ""
            await reply(store, "anew")
        assert (await stored_state(other)).last_agent_response == "anew"

    async def test_no_update_is_lost_between_stores(self, harness: Harness) -> None:
        stores = [await harness.make(wait=15.0) for _ in range(5)]
        numbers = await with_timeout(asyncio.gather(*(count(one) for _ in range(5) for one in stores)))
        assert sorted(numbers) == list(range(1, 26))
        assert (await stored_state(stores[0])).last_agent_response == "25"

    async def test_turns_that_fail_or_are_cancelled_lose_nothing_of_the_others(
        self, workers: list[WorkingMemoryStore]
    ) -> None:
        async def failing(one: WorkingMemoryStore) -> None:
            async with one.turn("c1"):
                state = await one.get_or_create("c1", "u1")
                state.last_agent_response = "never saved"
                raise ZeroDivisionError

        good = [asyncio.create_task(count(one)) for one in workers for _ in range(4)]
        bad = [asyncio.create_task(failing(one)) for one in workers for _ in range(2)]
        gone = [asyncio.create_task(failing(one)) for one in workers]
        for task in gone:
            await asyncio.sleep(0)
            task.cancel()
        ended = await with_timeout(asyncio.gather(*bad, *gone, return_exceptions=True))
        assert all(isinstance(one, ZeroDivisionError | asyncio.CancelledError) for one in ended)
        assert sorted(await with_timeout(asyncio.gather(*good))) == list(range(1, 13))

    async def test_many_conversations_at_once(self, store: WorkingMemoryStore) -> None:
        names = [f"c{number}" for number in range(100)]
        await with_timeout(asyncio.gather(*(count(store, name) for name in names)))
        assert [(await stored_state(store, name)).version for name in names] == [1] * 100
