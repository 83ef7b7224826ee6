"""Many workers on the same conversations: nothing is lost, nothing is done twice."""

# The name of a test is what it promises.
# ruff: noqa: D102

from __future__ import annotations

import asyncio
import random

from jazzmine_dspy.memory.errors import StaleStateError
from jazzmine_dspy.memory.working.store import WorkingMemoryStore
from jazzmine_dspy.testing.working_memory._promises import Promises, count, kept, reply, soon
from jazzmine_dspy.testing.working_memory.harness import Harness


class WorkerPromises(Promises):
    """Read, change and write in whole turns."""

    async def test_no_update_is_lost_within_one_store(self, store: WorkingMemoryStore) -> None:
        numbers = await soon(asyncio.gather(*(count(store) for _ in range(25))))
        assert numbers == list(range(1, 26))

    async def test_no_update_is_lost_between_stores(self, harness: Harness) -> None:
        stores = [await harness.make(wait=15.0) for _ in range(5)]
        numbers = await soon(asyncio.gather(*(count(one) for _ in range(5) for one in stores)))
        assert sorted(numbers) == list(range(1, 26))
        assert (await kept(stores[0])).last_agent_response == "25"

    async def test_no_update_is_lost_over_several_conversations(self, harness: Harness) -> None:
        stores = [await harness.make(wait=15.0) for _ in range(3)]
        drawn = random.Random(7)
        work = [(drawn.choice(stores), f"c{drawn.randrange(6)}") for _ in range(60)]
        await soon(asyncio.gather(*(count(one, name) for one, name in work)))
        for name in {name for _, name in work}:
            told = int((await kept(stores[0], name)).last_agent_response)
            assert told == sum(name == other for _, other in work)

    async def test_turns_that_fail_or_are_cancelled_lose_nothing_of_the_others(
        self, harness: Harness
    ) -> None:
        stores = [await harness.make(wait=15.0) for _ in range(3)]

        async def failing(one: WorkingMemoryStore) -> None:
            async with one.turn("c1"):
                state = await one.get_or_create("c1", "u1")
                state.last_agent_response = "never saved"
                raise ZeroDivisionError

        good = [asyncio.create_task(count(one)) for one in stores for _ in range(4)]
        bad = [asyncio.create_task(failing(one)) for one in stores for _ in range(2)]
        gone = [asyncio.create_task(failing(one)) for one in stores]
        for task in gone:
            await asyncio.sleep(0)
            task.cancel()
        ended = await soon(asyncio.gather(*bad, *gone, return_exceptions=True))
        assert all(isinstance(one, ZeroDivisionError | asyncio.CancelledError) for one in ended)
        assert sorted(await soon(asyncio.gather(*good))) == list(range(1, 13))

    async def test_without_turns_updates_are_refused_and_never_lost(self, harness: Harness) -> None:
        stores = [await harness.make(wait=15.0) for _ in range(4)]
        await stores[0].get_or_create("c1", "u1")
        written: list[int] = []

        async def write(one: WorkingMemoryStore, number: int) -> None:
            while True:
                try:
                    written.append((await reply(one, str(number))).version)
                except StaleStateError:
                    continue
                return

        await soon(asyncio.gather(*(write(one, number) for number, one in enumerate(stores * 3))))
        assert sorted(written) == list(range(1, 13))
        assert (await kept(stores[0])).version == 12

    async def test_many_conversations_at_once(self, store: WorkingMemoryStore) -> None:
        names = [f"c{number}" for number in range(100)]
        await soon(asyncio.gather(*(count(store, name) for name in names)))
        assert set(await store.conversations(limit=1000)) == set(names)
