"""Tasks and turns: a turn within a turn, tasks begun in one, and those that outlive it."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import asyncio
import contextvars

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.testing.working_memory._promises import Promises, kept, reply, settle, soon
from jazzmine_dspy.testing.working_memory.harness import Harness
from jazzmine_dspy.testing.working_memory.turns import Visit


class SharingPromises(Promises):
    """Who is in a turn, and who is not."""

    async def test_a_turn_within_the_turn_is_the_same_one(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1") as outer:
            async with store.turn("c1") as inner:
                assert inner == outer
                await reply(store, "inner")
            # The inner one has not ended the turn.
            second = Visit(store)
            await settle(store)
            assert not second.entered.is_set()
            await reply(store, "outer")
        await soon(second.entered.wait())
        await second.end()

    async def test_an_error_within_the_inner_turn_leaves_the_outer_one_whole(
        self, store: WorkingMemoryStore
    ) -> None:
        async with store.turn("c1"):
            with pytest.raises(ZeroDivisionError):
                async with store.turn("c1"):
                    raise ZeroDivisionError
            await soon(reply(store, "still in the turn"))
        assert (await kept(store)).last_agent_response == "still in the turn"

    async def test_a_function_called_in_the_turn_is_in_it(self, store: WorkingMemoryStore) -> None:
        async def deep() -> WorkingMemory:
            return await reply(store, "deep")

        async with store.turn("c1"):
            assert (await soon(deep())).version == 1

    async def test_saves_in_a_turn_see_each_other(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            for number in range(1, 4):
                await reply(store, str(number))
                assert (await kept(store)).version == number

    async def test_tasks_gathered_in_a_turn_work_in_it(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1")
            read = await soon(asyncio.gather(*(kept(store) for _ in range(5))))
            saved = await soon(store.save(read[0]))
            assert (await asyncio.create_task(kept(store))) == saved
            assert (await soon(asyncio.create_task(store.save(saved)))).version == 2
        assert (await kept(store)).version == 2

    async def test_reads_beside_a_write_in_one_turn_do_not_spoil_it(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            for number in range(20):
                state.last_agent_response = str(number)
                saving = asyncio.create_task(store.save(state))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                read = asyncio.gather(*(kept(store) for _ in range(3)), store.get_or_create("c1", "u1"))
                state = await soon(saving)
                await soon(read)
                assert await kept(store) == state

    async def test_the_turn_of_a_task_begun_in_a_turn_is_its_own(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1") as fence:
            child = Visit(store)
            await settle(store)
            assert not child.entered.is_set()
        await soon(child.entered.wait())
        assert child.fence > fence
        await child.end()

    async def test_waiting_within_a_turn_for_a_task_that_waits_for_the_turn_ends_in_an_error(
        self, harness: Harness
    ) -> None:
        store = await harness.make(wait=0.05)
        async with store.turn("c1"):
            child = Visit(store)
            with pytest.raises(LockTimeoutError):
                await soon(child.task)
            await reply(store, "the turn goes on")

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
        visit = Visit(store)
        await soon(visit.entered.wait())
        ended.set()
        await settle(store)
        assert not task.done()
        await visit.end()
        await soon(task)
        assert (await kept(store)).last_agent_response == "later"

    async def test_a_turn_left_with_a_save_of_a_task_under_way_loses_nothing(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        other = await harness.make()
        for ticks in range(8):
            async with store.turn("c1"):
                state = await store.get_or_create("c1", "u1")
                state.last_agent_response = f"by a task, {ticks}"
                task = asyncio.create_task(store.save(state))
                for _ in range(ticks):
                    await asyncio.sleep(0)
            following = asyncio.create_task(reply(other, "by the next turn"))
            done = await soon(asyncio.gather(task, following, return_exceptions=True))
            # Whichever came first, the state is that of the last one that was told it was taken.
            newest = max((one for one in done if isinstance(one, WorkingMemory)), key=lambda one: one.version)
            assert await kept(store) == newest

    async def test_a_task_in_a_fresh_context_is_in_no_turn(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            saving = asyncio.get_running_loop().create_task(store.save(state), context=contextvars.Context())
            await settle(store)
            assert not saving.done()
        assert (await soon(saving)).version == 1

    async def test_a_turn_of_one_store_is_none_of_another(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        hasty = await harness.make(wait=0.05)
        async with store.turn("c1"):
            state = await store.get_or_create("c1", "u1")
            with pytest.raises(LockTimeoutError):
                await hasty.save(state)
            await store.save(state)
