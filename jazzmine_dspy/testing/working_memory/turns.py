"""Whole turns of a conversation run one after another, whatever becomes of them."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.models.errors import JazzmineError
from jazzmine_dspy.testing.working_memory._promises import Promises, kept, reply, settle, soon
from jazzmine_dspy.testing.working_memory.harness import Harness


class Visit:
    """A turn in a task of its own that stays until it is told to go."""

    def __init__(self, store: WorkingMemoryStore, conversation_id: str = "c1") -> None:
        self.entered, self.leave = asyncio.Event(), asyncio.Event()
        self.fence = 0
        self.task = asyncio.create_task(self._stay(store, conversation_id))

    async def _stay(self, store: WorkingMemoryStore, conversation_id: str) -> None:
        async with store.turn(conversation_id) as self.fence:
            self.entered.set()
            await self.leave.wait()

    async def end(self) -> None:
        self.leave.set()
        await soon(self.task)


class TurnPromises(Promises):
    """Order, waiting, cancellation, errors."""

    async def test_turns_run_one_after_another_in_the_order_of_asking(
        self, store: WorkingMemoryStore
    ) -> None:
        log: list[str] = []

        async def turn(name: str) -> None:
            async with store.turn("c1"):
                log.append(f"{name} in")
                await settle(store)
                log.append(f"{name} out")

        await soon(asyncio.gather(*(turn(name) for name in "abcdefgh")))
        assert log == [f"{name} {way}" for name in "abcdefgh" for way in ("in", "out")]

    async def test_turns_of_two_stores_never_overlap(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        inside, most = 0, 0

        async def turn(one: WorkingMemoryStore) -> None:
            nonlocal inside, most
            async with one.turn("c1"):
                inside += 1
                most = max(most, inside)
                await settle(one)
                inside -= 1

        stores = [store, await harness.make(wait=15.0), await harness.make(wait=15.0)]
        await soon(asyncio.gather(*(turn(one) for one in stores for _ in range(4))))
        assert most == 1

    async def test_a_second_store_waits_and_then_goes_on(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        first = Visit(store)
        await soon(first.entered.wait())
        second = Visit(await harness.make())
        await settle(store)
        assert not second.entered.is_set()
        await first.end()
        await soon(second.entered.wait())
        await second.end()

    async def test_other_conversations_do_not_wait(self, store: WorkingMemoryStore) -> None:
        async with store.turn("c1"):
            for name in ("c2", "c3"):
                visit = Visit(store, name)
                await soon(visit.entered.wait())
                await visit.end()

    async def test_two_conversations_in_one_task(self, store: WorkingMemoryStore) -> None:
        async with store.turn("a"), store.turn("b"):
            await reply(store, "in a", "a")
            await reply(store, "in b", "b")
        assert (await kept(store, "a")).last_agent_response == "in a"
        assert (await kept(store, "b")).last_agent_response == "in b"

    async def test_two_conversations_left_in_the_order_they_were_entered(
        self, store: WorkingMemoryStore
    ) -> None:
        one, other = store.turn("a"), store.turn("b")
        await one.__aenter__()
        await other.__aenter__()
        await one.__aexit__(None, None, None)
        await soon(reply(store, "still in the turn of b", "b"))
        await other.__aexit__(None, None, None)
        for name in "ab":
            await soon(reply(store, "free again", name))

    async def test_an_error_ends_the_turn_and_is_passed_on(self, store: WorkingMemoryStore) -> None:
        with pytest.raises(ZeroDivisionError):
            async with store.turn("c1"):
                raise ZeroDivisionError
        visit = Visit(store)
        await soon(visit.entered.wait())
        await visit.end()

    async def test_what_was_saved_before_an_error_stays(self, store: WorkingMemoryStore) -> None:
        with suppress(ZeroDivisionError):
            async with store.turn("c1"):
                state = await reply(store, "saved")
                state.last_agent_response = "never saved"
                raise ZeroDivisionError
        assert (await kept(store)).last_agent_response == "saved"

    async def test_a_cancelled_turn_lets_the_next_one_in(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        visit = Visit(store)
        await soon(visit.entered.wait())
        visit.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(visit.task)
        for one in (store, await harness.make()):
            following = Visit(one)
            await soon(following.entered.wait())
            await following.end()

    async def test_a_turn_cancelled_twice_lets_the_next_one_in(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        visit = Visit(store)
        await soon(visit.entered.wait())
        visit.task.cancel()
        await asyncio.sleep(0)
        visit.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(visit.task)
        following = Visit(await harness.make())
        await soon(following.entered.wait())
        await following.end()

    async def test_a_waiter_that_is_cancelled_leaves_no_trace(self, store: WorkingMemoryStore) -> None:
        first = Visit(store)
        await soon(first.entered.wait())
        second, third = Visit(store), Visit(store)
        await settle(store)
        second.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(second.task)
        await first.end()
        await soon(third.entered.wait())
        assert not second.entered.is_set()
        await third.end()

    async def test_a_waiter_of_another_store_that_is_cancelled_leaves_no_trace(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        first = Visit(store)
        await soon(first.entered.wait())
        second = Visit(await harness.make())
        await settle(store)
        second.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(second.task)
        await first.end()
        third = Visit(await harness.make())
        await soon(third.entered.wait())
        await third.end()

    @pytest.mark.parametrize("ticks", range(12))
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
            await soon(task)
        following = Visit(store)
        await soon(following.entered.wait())
        await following.end()

    async def test_waiting_too_long_is_a_timeout_and_an_error_of_ours(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        visit = Visit(store)
        await soon(visit.entered.wait())
        other = await harness.make(wait=0.05)
        with pytest.raises(LockTimeoutError, match=r"0\.05 s.*c1") as caught:
            async with other.turn("c1"):
                pytest.fail("two turns at once")
        assert isinstance(caught.value, TimeoutError)
        assert isinstance(caught.value, JazzmineError)
        assert caught.value.remedy
        await visit.end()

    async def test_waiting_too_long_in_one_store_too(self, harness: Harness) -> None:
        store = await harness.make(wait=0.05)
        visit = Visit(store)
        await soon(visit.entered.wait())
        with pytest.raises(LockTimeoutError):
            async with store.turn("c1"):
                pytest.fail("two turns at once")
        await visit.end()

    async def test_one_that_waited_too_long_leaves_the_turn_to_its_holder_and_the_next(
        self, harness: Harness
    ) -> None:
        store, hasty = await harness.make(), await harness.make(wait=0.02)
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1")
            with pytest.raises(LockTimeoutError):
                async with hasty.turn("c1"):
                    pytest.fail("two turns at once")
            await settle(store)
            await reply(store, "still mine")
        await soon(reply(hasty, "free again"))

    async def test_a_store_without_patience_takes_a_free_turn(self, harness: Harness) -> None:
        store = await harness.make(wait=0.0)
        async with store.turn("c1"):
            await reply(store, "hello")
        assert (await kept(store)).last_agent_response == "hello"

    async def test_a_save_outside_a_turn_waits_for_the_turn(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        state = await store.get_or_create("c1", "u1")
        visit = Visit(await harness.make())
        await soon(visit.entered.wait())
        saving = asyncio.create_task(store.save(state))
        await settle(store)
        assert not saving.done()
        await visit.end()
        assert (await soon(saving)).version == 1

    async def test_reading_does_not_wait_for_a_turn(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await reply(store, "before")
        visit = Visit(await harness.make())
        await soon(visit.entered.wait())
        assert (await soon(store.get_or_create("c1", "u1"))).last_agent_response == "before"
        assert (await soon(kept(store))).last_agent_response == "before"
        await visit.end()

    async def test_deleting_does_not_wait_and_leaves_the_turn_to_its_holder(
        self, store: WorkingMemoryStore, harness: Harness
    ) -> None:
        await reply(store, "before")
        visit = Visit(store)
        await soon(visit.entered.wait())
        hasty = await harness.make(wait=0.02)
        assert await soon(hasty.delete("c1"))
        with pytest.raises(LockTimeoutError):
            async with hasty.turn("c1"):
                pytest.fail("two turns at once")
        await visit.end()
