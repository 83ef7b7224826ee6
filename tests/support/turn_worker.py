"""A worker process: takes turns that it is told to take over standard input, and says how they went.

Every line in is a JSON object. ``{"id", "conversation", "message"}`` delivers a message; with ``"hold": true`` the
turn waits, once it is about to write, for ``{"go": id}``. Every line out is about one of them: ``"inside"``, then
``"applied"`` or ``"repeated"`` with the turn's number and the version written, or the name of an error.

What a turn does is not idempotent by itself: it appends the message's id to a list in the state.

Run: turn_worker.py URL PREFIX LEASE WAIT TIMEOUT
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from jazzmine_dspy.memory.working.flow import ActiveFlowState, TurnCache
from jazzmine_dspy.memory.working.operations import begin_turn, end_turn
from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore
from jazzmine_dspy.memory.working.state import WorkingMemory
from jazzmine_dspy.models.errors import JazzmineError


def log_of(state: WorkingMemory | None) -> list[str]:
    """The messages whose turns are in a state, in their order."""
    return list(state.active_flow.slots["log"].value) if state and state.active_flow else []


async def apply(
    store: RedisWorkingMemoryStore,
    conversation: str,
    message: str,
    before_writing: Callable[[int], Awaitable[None]],
) -> dict[str, Any]:
    """One turn for one delivery of a message."""
    async with store.turn(conversation) as fence:
        state = await store.get_or_create(conversation, "u1")
        before = state.turn_number
        begin_turn(state, TurnCache(message_id=message))
        if state.turn_number == before:
            return {"event": "repeated", "fence": fence, "version": state.version}
        flow = state.active_flow or ActiveFlowState(flow_name="ledger")
        flow.slot("log").value = [*log_of(state), message]
        state.active_flow = flow
        await before_writing(fence)
        end_turn(state, f"Noted {message}.")
        saved = await store.save(state)
        return {"event": "applied", "fence": fence, "version": saved.version}


class Worker:
    """Turns under way in this process."""

    def __init__(self, store: RedisWorkingMemoryStore) -> None:
        self.store = store
        self.waiting: dict[int, asyncio.Event] = {}

    def say(self, **told: Any) -> None:
        # One write, so that a kill cannot leave half a line.
        os.write(1, (json.dumps(told) + "\n").encode())

    async def deliver(self, order: dict[str, Any]) -> None:
        number = order["id"]

        async def before_writing(fence: int) -> None:
            if order.get("hold"):
                self.waiting[number] = asyncio.Event()
                self.say(id=number, event="inside", fence=fence)
                await self.waiting[number].wait()

        try:
            told = await apply(self.store, order["conversation"], order["message"], before_writing)
        except JazzmineError as error:
            told = {"event": type(error).__name__, "text": error.message}
        self.say(id=number, **told)


async def main(url: str, prefix: str, *times: str) -> None:
    named = dict(zip(("lease", "wait", "timeout"), map(float, times), strict=True))
    store = RedisWorkingMemoryStore(url, prefix=prefix, **named)
    worker = Worker(store)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    worker.say(id=-1, event="ready", pid=os.getpid())
    tasks: set[asyncio.Task[None]] = set()
    while line := await orders.readline():
        order = json.loads(line)
        if "go" in order:
            worker.waiting[order["go"]].set()
            continue
        task = asyncio.create_task(worker.deliver(order))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
