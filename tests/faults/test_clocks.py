"""Clocks that jump, of workers and of the server. The server's is moved by a shim loaded into it (`clock.c`)."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from jazzmine_dspy.memory.errors import TurnLostError
from jazzmine_dspy.memory.working import RedisWorkingMemoryStore
from jazzmine_dspy.memory.working.store import Presence

pytestmark = pytest.mark.chaos

HOUR = 3600


class Clock:
    """A server whose clock can be set."""

    def __init__(self, server: Any, file: Path) -> None:
        self.server, self._file, self._off = server, file, 0
        self.client = redis.Redis.from_url(server.url)

    def jump(self, seconds: int) -> None:
        """Move the clock, and see that the server has noticed: it looks at its clock now and then only."""
        self._off += seconds
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(self._off), "utf-8")
        fresh.replace(self._file)
        deadline = time.monotonic() + 10
        while abs(self.client.time()[0] - time.time() - self._off) > 60:
            assert time.monotonic() < deadline, "the shim has no effect"

    async def store(self, **options: Any) -> RedisWorkingMemoryStore:
        return RedisWorkingMemoryStore(self.server.url, timeout=5.0, **options)


@pytest.fixture
def clock(servers: Any, tmp_path: Path) -> Iterator[Clock]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here to build the shim with")
    shim, file = tmp_path / "clock.so", tmp_path / "clock"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(shim), str(source), "-ldl"], check=True)
    file.write_text("0", "utf-8")
    binary = next(iter(servers.binaries().values()))
    server = servers.Server(binary, environment={"LD_PRELOAD": str(shim), "CLOCK_FILE": str(file)})
    made = Clock(server, file)
    yield made
    made.client.close()
    server.close()


async def _noted(store: RedisWorkingMemoryStore, text: str) -> Any:
    async with store.turn("c"):
        await store.get_or_create("c", "u1")
        return await store.end_turn("c", text)


@pytest.mark.row("W18", "W20")
async def test_the_servers_clock_jumps_ahead_in_the_middle_of_a_turn(clock: Clock) -> None:
    store, other = await clock.store(ttl=10 * HOUR), await clock.store(ttl=10 * HOUR)
    first = await _noted(store, "first")
    late = store.turn("c")
    await late.__aenter__()
    clock.jump(HOUR)
    # The lease is over by that clock: the next turn need not wait, and the one before can't write.
    assert (await _noted(other, "second")).version == first.version + 1
    with pytest.raises(TurnLostError):
        await store.end_turn("c", "too late")
    await late.__aexit__(None, None, None)
    assert (await store.get("c")).last_agent_response == "second"
    await store.close()
    await other.close()


@pytest.mark.row("W18", "W20")
async def test_the_servers_clock_jumps_ahead_past_the_time_to_live(clock: Clock) -> None:
    store = await clock.store(ttl=HOUR)
    before = await _noted(store, "first")
    clock.jump(2 * HOUR)
    assert await store.get("c") is None
    assert await store.presence("c") is Presence.EXPIRED
    after = await _noted(store, "second")
    assert (after.began_after, after.version) == ("expiry", before.version + 2)
    await store.close()


@pytest.mark.row("W17", "W20")
async def test_the_servers_clock_jumps_back(clock: Clock) -> None:
    times = {"lease": 1.0, "wait": 10.0, "ttl": 10 * HOUR}
    store, other = await clock.store(**times), await clock.store(**times)
    async with store.turn("c"):
        await store.get_or_create("c", "u1")
        clock.jump(-HOUR)
        await store.end_turn("c", "first")
    assert (await _noted(other, "second")).version == 2
    # The lock of a worker that has died would now last for an hour.
    clock.jump(HOUR)
    assert (await store._begin("c", "died")) is not None
    clock.jump(-HOUR)
    assert (await _noted(other, "third")).version == 3
    await store.close()
    await other.close()


@pytest.mark.row("W18")
@pytest.mark.parametrize("clock_of_worker", [lambda: 0.0, lambda: -1e9, lambda: 1e15])
async def test_the_clock_of_a_worker_decides_nothing(server: Any, prefix: str, clock_of_worker: Any) -> None:
    odd = RedisWorkingMemoryStore(server.url, prefix=prefix, clock=clock_of_worker)
    other = RedisWorkingMemoryStore(server.url, prefix=prefix, wait=0.0)
    for n in range(3):
        assert (await _noted((odd, other)[n % 2], f"{n}")).version == n + 1
    async with odd.turn("c"):
        with pytest.raises(TimeoutError):
            await _noted(other, "meanwhile")
    assert await other.presence("c") is Presence.PRESENT
    await odd.delete("c")
    await odd.close()
    await other.close()
