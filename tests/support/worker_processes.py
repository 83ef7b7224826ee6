"""Worker processes as a parent sees them: told what to do, paused, killed.

Tests and `tools/chaos.py` import this file.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("turn_worker.py")


class WorkerProcess:
    """One process of `turn_worker.py`. Numbers of deliveries are unique in this process's parent."""

    _numbers = itertools.count()

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.pid = process.pid
        self.news: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._events: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, url: str, prefix: str, **times: float) -> WorkerProcess:
        """Start one, and wait until it is ready. ``times`` are ``lease``, ``wait`` and ``timeout``, in seconds."""
        told = {"lease": 15.0, "wait": 15.0, "timeout": 5.0} | times
        made = cls(
            await asyncio.create_subprocess_exec(
                *(sys.executable, str(SCRIPT), url, prefix, *map(str, told.values())),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=SCRIPT.parent,
                env={**os.environ, "PYTHONWARNINGS": "ignore"},
            )
        )
        ready = await made.news.get()
        if ready.get("pid") != made.pid:
            raise RuntimeError(f"the worker did not start: {ready}")
        return made

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            told = json.loads(line)
            self._events.get(told["id"], self.news).put_nowait(told)
        gone = {"id": -1, "event": "gone"}
        for waiting in (self.news, *self._events.values()):
            waiting.put_nowait(gone)

    def _write(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps(order) + "\n").encode())

    def deliver(self, conversation: str, message: str, *, hold: bool = False) -> int:
        """Hand it a message; the number of the delivery."""
        number = next(self._numbers)
        self._events[number] = asyncio.Queue()
        self._write(id=number, conversation=conversation, message=message, hold=hold)
        return number

    async def event(self, number: int) -> dict[str, Any]:
        """The next that is heard of a delivery; ``gone`` once the process has ended."""
        if self._reading.done() and self._events[number].empty():
            return {"id": -1, "event": "gone"}
        return await self._events[number].get()

    def forget(self, number: int) -> None:
        """Nothing more is asked of a delivery."""
        self._events.pop(number, None)

    async def turn(self, conversation: str, message: str) -> dict[str, Any]:
        """Hand it a message, and wait for the outcome."""
        number = self.deliver(conversation, message)
        try:
            return await self.event(number)
        finally:
            self.forget(number)

    def go(self, number: int) -> None:
        """Let a held turn go on."""
        self._write(go=number)

    async def stop(self) -> None:
        """Pause it; back when the system says that it stands still."""
        self.process.send_signal(signal.SIGSTOP)
        # WNOWAIT leaves the news to the event loop's own watcher of children.
        await asyncio.to_thread(os.waitid, os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it run on."""
        self.process.send_signal(signal.SIGCONT)

    async def kill(self) -> int:
        """End it at once; what the system says it ended of, minus the signal's number."""
        if self.process.returncode is None:
            self.process.kill()
        await self._reading
        return await self.process.wait()

    async def close(self) -> None:
        """Let it finish what it does, and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self._reading
        await self.process.wait()


@asynccontextmanager
async def workers(count: int, url: str, prefix: str, **options: float) -> AsyncIterator[list[WorkerProcess]]:
    """Several at once, in a list that may be added to; all gone afterwards."""
    made = await asyncio.gather(*(WorkerProcess.start(url, prefix, **options) for _ in range(count)))
    running = list(made)
    try:
        yield running
    finally:
        await asyncio.gather(*(one.kill() for one in {*made, *running}))
