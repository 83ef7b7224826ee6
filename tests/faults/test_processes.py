"""Workers that are killed or paused in the middle of a turn, and messages delivered more than once."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from jazzmine_dspy.memory.working import RedisWorkingMemoryStore

pytestmark = pytest.mark.chaos


@pytest.mark.row("W17", "W18", "W12")
async def test_a_worker_killed_in_the_middle_of_a_turn(
    server: Any, prefix: str, processes: Any, worker: Any
) -> None:
    async with processes.workers(2, server.url, prefix, lease=0.5) as (killed, other):
        held = killed.deliver("c", "m1", hold=True)
        inside = await killed.event(held)
        assert (inside["event"], inside["fence"]) == ("inside", 1)
        assert await killed.kill() == -signal.SIGKILL
        assert (await killed.event(held))["event"] == "gone"
        assert other.pid != killed.pid
        told = await other.turn("c", "m1")
        assert (told["event"], told["fence"]) == ("applied", 2)
        store = RedisWorkingMemoryStore(server.url, prefix=prefix)
        assert worker.log_of(await store.get("c")) == ["m1"]
        await store.close()


@pytest.mark.row("W17", "W18")
async def test_a_worker_paused_for_longer_than_its_lease_goes_on_too_late(
    server: Any, prefix: str, processes: Any, worker: Any
) -> None:
    async with processes.workers(2, server.url, prefix, lease=0.5) as (paused, other):
        held = paused.deliver("c", "m1", hold=True)
        assert (await paused.event(held))["event"] == "inside"
        await paused.stop()
        newer = await other.turn("c", "m2")
        assert (newer["event"], newer["fence"]) == ("applied", 2)
        paused.resume()
        paused.go(held)
        assert (await paused.event(held))["event"] == "TurnLostError"
        # It is alive and can do the turn again.
        again = await paused.turn("c", "m1")
        assert (again["event"], again["fence"]) == ("applied", 3)
        store = RedisWorkingMemoryStore(server.url, prefix=prefix)
        assert worker.log_of(await store.get("c")) == ["m2", "m1"]
        await store.close()


@pytest.mark.row("W17")
async def test_a_worker_paused_for_longer_than_its_lease_keeps_its_turn_if_nobody_came(
    server: Any, prefix: str, processes: Any, worker: Any
) -> None:
    store = RedisWorkingMemoryStore(server.url, prefix=prefix)
    async with processes.workers(1, server.url, prefix, lease=0.5) as (paused,):
        held = paused.deliver("c", "m1", hold=True)
        assert (await paused.event(held))["event"] == "inside"
        await paused.stop()
        assert await store._client.delete(store.key("c", "lock")) == 1
        paused.resume()
        paused.go(held)
        assert (await paused.event(held))["event"] == "applied"
        assert worker.log_of(await store.get("c")) == ["m1"]
    await store.close()


@pytest.mark.row("W12", "W16")
async def test_a_message_delivered_three_times_is_applied_once(
    server: Any, prefix: str, processes: Any, worker: Any
) -> None:
    async with processes.workers(3, server.url, prefix) as three:
        told = await asyncio.gather(*(one.turn("c", "m1") for one in three))
        assert sorted(one["event"] for one in told) == ["applied", "repeated", "repeated"]
        assert sorted(one["fence"] for one in told) == [1, 2, 3]
        store = RedisWorkingMemoryStore(server.url, prefix=prefix)
        assert worker.log_of(await store.get("c")) == ["m1"]
        await store.close()
