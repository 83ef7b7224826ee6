"""Turns over a backend that fails, forgets and is slow: what the suite cannot bring about from outside."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    InMemoryWorkingMemoryStore,
    TurnCache,
)
from jazzmine_dspy.memory.working.backend import Grant, Kept, Presence
from jazzmine_dspy.memory.working.in_process import InProcessBackend
from jazzmine_dspy.models.errors import MemoryUnavailableError


class Trying(InProcessBackend):
    """A backend that counts its calls, and fails or is held up before or after doing what it was asked to."""

    def __init__(self, *, lease: float = float("inf"), **options: Any) -> None:
        super().__init__(**options)
        self.lease = lease  # type: ignore[misc]
        self.calls: Counter[str] = Counter()
        self.before: dict[str, list[Exception]] = {}
        self.after: dict[str, list[Exception]] = {}
        self.held_before: dict[str, asyncio.Event] = {}
        self.held_after: dict[str, asyncio.Event] = {}
        self.reached: dict[str, asyncio.Event] = {}
        self.times: list[float] = []

    async def _around(self, name: str, work: Callable[[], Any]) -> Any:
        self.calls[name] += 1
        self.times.append(asyncio.get_running_loop().time())
        if self.before.get(name):
            raise self.before[name].pop(0)
        if name in self.held_before:
            self.reached[name].set()
            await self.held_before[name].wait()
        result = await work()
        if name in self.reached:
            self.reached[name].set()
        if name in self.held_after:
            await self.held_after[name].wait()
        if self.after.get(name):
            raise self.after[name].pop(0)
        return result

    def hold(self, name: str, *, before: bool = False) -> tuple[asyncio.Event, asyncio.Event]:
        """Hold calls up; gives what says that one was reached, and what lets them go."""
        self.reached[name] = asyncio.Event()
        where = self.held_before if before else self.held_after
        where[name] = asyncio.Event()
        return self.reached[name], where[name]

    async def acquire(self, conversation_id: str, token: str) -> Grant | None:
        work = super().acquire
        found: Grant | None = await self._around("acquire", lambda: work(conversation_id, token))
        return found

    async def renew(self, conversation_id: str, token: str, fence: int) -> bool:
        work = super().renew
        return bool(await self._around("renew", lambda: work(conversation_id, token, fence)))

    async def release(self, conversation_id: str, token: str) -> bool:
        work = super().release
        return bool(await self._around("release", lambda: work(conversation_id, token)))

    async def write(self, conversation_id: str, data: bytes, **options: Any) -> int:
        work = super().write
        return int(await self._around("write", lambda: work(conversation_id, data, **options)))

    async def create(self, conversation_id: str, data: bytes, *, fence: int | None) -> Kept:
        work = super().create
        kept: Kept = await self._around("create", lambda: work(conversation_id, data, fence=fence))
        return kept

    async def read(self, conversation_id: str) -> Kept | None:
        work = super().read
        kept: Kept | None = await self._around("read", lambda: work(conversation_id))
        return kept

    async def presence(self, conversation_id: str) -> Presence:
        self.calls["presence"] += 1
        return await super().presence(conversation_id)


DOWN = MemoryUnavailableError("The store does not answer", remedy="Start it.")


def over(backend: Trying, **options: Any) -> InMemoryWorkingMemoryStore:
    return InMemoryWorkingMemoryStore(backend=backend, **{"wait": 2.0, **options})


async def free(backend: Trying) -> bool:
    """Whether another store gets the turn at once."""
    try:
        async with over(backend, wait=0.0).turn("c1"):
            return True
    except LockTimeoutError:
        return False


# --- renewal ------------------------------------------------------------------------------------------------


@pytest.mark.row("W16")
async def test_a_turn_is_renewed_while_it_lasts_and_no_longer() -> None:
    backend = Trying(lease=0.003)
    backend.reached["renew"] = renewed = asyncio.Event()
    store = over(backend)
    async with store.turn("c1"):
        for _ in range(3):
            await asyncio.wait_for(renewed.wait(), 5)
            renewed.clear()
    at_the_end = backend.calls["renew"]
    await store.close()
    # Longer than several spans of renewing.
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(renewed.wait(), 0.02)
    assert backend.calls["renew"] <= at_the_end + 1


@pytest.mark.row("W16")
@pytest.mark.parametrize("failure", [DOWN, RuntimeError("a fault of the backend")], ids=["down", "fault"])
async def test_a_renewal_that_fails_is_tried_again(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    backend = Trying(lease=0.003)
    backend.before["renew"] = [failure] * 3
    backend.reached["renew"] = renewed = asyncio.Event()
    async with over(backend).turn("c1"):
        await asyncio.wait_for(renewed.wait(), 5)
    assert sum("was not renewed" in message for message in caplog.messages) == 3
    assert "a fault of the backend" not in caplog.text


@pytest.mark.row("W18")
async def test_a_turn_that_is_lost_is_not_renewed_any_more(caplog: pytest.LogCaptureFixture) -> None:
    backend = Trying(lease=0.003)
    backend.reached["renew"] = renewed = asyncio.Event()
    async with over(backend).turn("c1"):
        backend.lapse("c1")
        assert await backend.acquire("c1", "another")
        await asyncio.wait_for(renewed.wait(), 5)
        renewed.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(renewed.wait(), 0.02)
    assert sum("was lost" in message for message in caplog.messages) == 1


@pytest.mark.parametrize("ending", ["turn", "operation"])
async def test_a_renewal_under_way_at_the_end_of_a_turn_does_not_take_it_again(ending: str) -> None:
    backend = Trying(lease=0.003)
    store = over(backend)
    await store.get_or_create("c1", "u1")
    renewing, let_renew = backend.hold("renew", before=True)
    _, let_write = backend.hold("write", before=True)

    async def turn() -> None:
        if ending == "operation":
            await store.end_turn("c1", "with its release in the write")
            return
        async with store.turn("c1"):
            await renewing.wait()

    leaving = asyncio.create_task(turn())
    await asyncio.wait_for(renewing.wait(), 5)
    let_write.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not leaving.done()
    let_renew.set()
    await leaving
    assert await free(backend)
    assert backend.calls["renew"] == 1


# --- answers that are lost ----------------------------------------------------------------------------------


async def test_a_turn_granted_with_the_answer_lost_is_given_back() -> None:
    backend = Trying()
    backend.after["acquire"] = [DOWN]
    store = over(backend)
    with pytest.raises(MemoryUnavailableError):
        async with store.turn("c1"):
            pytest.fail("it was not heard of")
    await store.close()
    assert await free(backend)
    assert store.locks == 0


async def test_a_turn_granted_to_a_task_that_is_gone_is_given_back() -> None:
    backend = Trying()
    store = over(backend)
    await store.get_or_create("c1", "u1")
    reached, let_go = backend.hold("acquire")
    task = asyncio.create_task(store.end_turn("c1", "hello"))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    let_go.set()
    await store.close()
    assert await free(backend)
    assert store.locks == 0


async def test_a_write_with_its_answer_lost_is_seen_by_the_next_read_in_the_turn() -> None:
    backend = Trying()
    store = over(backend)
    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
        backend.after["write"] = [DOWN]
        with pytest.raises(MemoryUnavailableError):
            await store.end_turn("c1", "written all the same")
        state = await store.get("c1")
        assert state is not None
        assert (state.last_agent_response, state.version) == ("written all the same", 1)
        assert (await store.end_turn("c1", "next")).version == 2


async def test_a_write_that_was_not_done_is_not_seen() -> None:
    backend = Trying()
    store = over(backend)
    async with store.turn("c1"):
        before = await store.get_or_create("c1", "u1")
        backend.before["write"] = [DOWN]
        with pytest.raises(MemoryUnavailableError):
            await store.end_turn("c1", "never written")
        assert await store.get("c1") == before


async def test_a_cancelled_write_leaves_the_turn_with_what_is_so() -> None:
    backend = Trying()
    store = over(backend)
    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
        reached, let_go = backend.hold("write")
        task = asyncio.create_task(store.end_turn("c1", "cancelled"))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        let_go.set()
        state = await store.get("c1")
        assert state is not None
        assert state.last_agent_response == "cancelled"
        assert (await store.end_turn("c1", "next")).version == 2


async def test_a_release_that_fails_is_logged_and_hides_no_error(caplog: pytest.LogCaptureFixture) -> None:
    backend = Trying()
    store = over(backend)
    backend.before["release"] = [DOWN, DOWN]
    async with store.turn("c1"):
        pass
    assert "ends with its lease" in caplog.text
    backend.lapse("c1")
    with pytest.raises(ZeroDivisionError):
        async with store.turn("c1"):
            raise ZeroDivisionError
    assert store.locks == 0


async def test_a_turn_cancelled_while_it_is_given_back_is_given_back() -> None:
    backend = Trying()
    reached, let_go = backend.hold("release", before=True)
    store = over(backend)

    async def turn() -> None:
        async with store.turn("c1"):
            pass

    task = asyncio.create_task(turn())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    let_go.set()
    await store.close()
    assert await free(backend)


# --- tasks of one turn --------------------------------------------------------------------------------------


@pytest.mark.row("W16")
async def test_a_turn_is_not_over_while_a_task_of_it_writes() -> None:
    backend = Trying()
    store = over(backend)
    reached, let_go = backend.hold("write", before=True)
    writing: list[asyncio.Task[Any]] = []

    async def turn() -> None:
        async with store.turn("c1"):
            await store.get_or_create("c1", "u1")
            writing.append(asyncio.create_task(store.end_turn("c1", "by a task")))
            await reached.wait()

    leaving = asyncio.create_task(turn())
    await reached.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not await free(backend)
    let_go.set()
    await leaving
    assert (await writing[0]).last_agent_response == "by a task"
    assert await free(backend)


async def test_a_read_beside_a_write_does_not_bring_back_what_was_before() -> None:
    backend = Trying()
    store = over(backend)
    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
        wrote, let_write = backend.hold("write", before=True)
        _, let_read = backend.hold("read")
        writing = asyncio.create_task(store.end_turn("c1", "written"))
        await wrote.wait()
        reading = asyncio.create_task(store.get("c1"))
        for _ in range(5):
            await asyncio.sleep(0)
        let_write.set()
        await writing
        let_read.set()
        await reading
        assert (await store.end_turn("c1", "next")).version == 2


@pytest.mark.row("W19")
async def test_a_record_mended_while_it_is_being_set_aside_stays() -> None:
    class Mending(Trying):
        async def set_aside(self, conversation_id: str, **options: Any) -> str | None:
            known = self._conversations[conversation_id]
            known.data, known.version = good, known.version + 1
            return await super().set_aside(conversation_id, **options)

    backend = Mending()
    store = over(backend)
    await store.get_or_create("c1", "ann")
    good = backend._conversations["c1"].data
    backend._conversations["c1"].data = b"broken"
    assert (await store.get_or_create("c1", "bob")).user_id == "ann"
    assert await store.aside("c1") == []


# --- trips to the backend -----------------------------------------------------------------------------------


async def test_a_turn_reads_once_whatever_is_done_in_it() -> None:
    backend = Trying()
    store = over(backend)
    await store.get_or_create("c1", "u1")
    backend.calls.clear()
    async with store.turn("c1"):
        await store.begin_turn("c1", TurnCache(message_id="m1"))
        await store.start_flow("c1", ActiveFlowState(flow_name="track"))
        await store.get("c1")
        await store.end_turn("c1", "hello")
    # The one read is that of granting the turn.
    assert backend.calls == {"acquire": 1, "read": 1, "write": 3, "release": 1}


async def test_an_operation_by_itself_is_two_trips() -> None:
    backend = Trying()
    store = over(backend)
    await store.get_or_create("c1", "u1")
    backend.calls.clear()
    await store.end_turn("c1", "hello")
    assert backend.calls == {"acquire": 1, "read": 1, "write": 1}
    assert await free(backend)


async def test_the_first_turn_of_a_conversation_does_not_ask_twice_whether_it_is_there() -> None:
    backend = Trying()
    store = over(backend)
    async with store.turn("c1"):
        await store.get_or_create("c1", "u1")
    assert backend.calls == {"acquire": 1, "read": 1, "presence": 1, "create": 1, "release": 1}


# --- what is left behind ------------------------------------------------------------------------------------


async def test_closing_waits_for_what_is_under_way() -> None:
    backend = Trying()
    backend.after["acquire"] = [DOWN]
    store = over(backend)
    with pytest.raises(MemoryUnavailableError):
        await store.end_turn("c1", "it was not heard of")
    assert backend.calls["release"] == 0
    await store.close()
    assert backend.calls["release"] == 1
