"""A TCP proxy that does to a connection what networks do, and counts what it did.

Tests and `tools/chaos.py` import this file.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import weakref
from collections import Counter, deque
from collections.abc import Mapping

FAULTS = {
    "cut_request": "the connection ends before the request has left",
    "cut_midway": "the connection ends in the middle of the request",
    "cut_reply": "the request arrives, the connection ends before the answer does",
    "half_close": "the request arrives, and instead of the answer comes the end of that direction alone",
    "delay": "the request arrives late",
    "blackhole": "nothing arrives any more, and the connection stays open",
}


class Proxy:
    """Passes on bytes between clients and one server of this machine.

    Args:
        target: Port of the server.
        rates: For each fault how likely it strikes a request.
        delay: Seconds by which a request is late.
        seed: Of the choice among faults.
    """

    def __init__(
        self, target: int, *, rates: Mapping[str, float] | None = None, delay: float = 0.05, seed: int = 0
    ) -> None:
        self.target = target
        self.rates = dict(rates or {})
        self.delay = delay
        self.planned: deque[str] = deque()
        self.done: Counter[str] = Counter()
        self.open = 0
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines: weakref.WeakSet[_Line] = weakref.WeakSet()
        self._changed = asyncio.Condition()
        self.port = 0

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"redis://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.shut()

    async def shut(self) -> None:
        """End all connections and take no more; entering it again opens the same port."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def plan(self, *faults: str) -> None:
        """Let these faults strike the next requests that run a script, one each; "" lets one pass."""
        self.planned.extend(faults)

    def silence(self) -> None:
        """Let nothing arrive any more on the connections that are open; new ones work."""
        for line in self._lines:
            line.muted = line.deaf = True

    def log_out(self) -> None:
        """Let the server forget who the open connections are, as it does when a password is withdrawn."""
        for line in self._lines:
            line.far.write(b"RESET\r\n")

    async def struck(self, fault: str, times: int = 1) -> None:
        """Wait until a fault has struck so often."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.done[fault] >= times)

    def _fault(self, chunk: bytes) -> str:
        if self.planned and b"EVAL" in chunk:
            return self.planned.popleft()
        roll = self._random.random() if self.rates else 1.0
        for fault, rate in self.rates.items():
            if roll < rate:
                return fault
            roll -= rate
        return ""

    async def _count(self, fault: str) -> None:
        self.done[fault] += 1
        async with self._changed:
            self._changed.notify_all()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.done["connections"] += 1
        self.open += 1
        answers: asyncio.Task[None] | None = None
        far: asyncio.StreamWriter | None = None
        try:
            from_server, far = await asyncio.open_connection("127.0.0.1", self.target)
            self._lines.add(line := _Line(writer, far))
            answers = asyncio.create_task(_answers(from_server, line))
            await self._requests(reader, far, line, answers)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            self._tasks.discard(task)
            if answers is not None:
                answers.cancel()
            for end in (writer, far):
                if end is not None:
                    with contextlib.suppress(OSError):
                        end.transport.abort()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        far: asyncio.StreamWriter,
        line: _Line,
        answers: asyncio.Task[None],
    ) -> None:
        while chunk := await reader.read(1 << 18):
            if line.deaf:
                continue
            fault = self._fault(chunk)
            if fault:
                await self._count(fault)
            if fault == "cut_request":
                return
            if fault == "cut_midway":
                far.write(chunk[: len(chunk) // 2])
                await far.drain()
                return
            if fault == "blackhole":
                line.muted = line.deaf = True
                continue
            if fault == "delay":
                await asyncio.sleep(self.delay)
            if fault in ("cut_reply", "half_close"):
                line.then = fault
            far.write(chunk)
            await far.drain()
            if fault == "cut_reply":
                await answers
                return


class _Line:
    """The way back to the client and that to the server, and what is to happen to the next answer."""

    def __init__(self, writer: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.writer, self.far = writer, far
        self.then = ""
        self.muted = self.deaf = False


async def _answers(reader: asyncio.StreamReader, line: _Line) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(1 << 18):
            if line.muted:
                continue
            if line.then == "cut_reply":
                return
            if line.then == "half_close":
                line.muted = True
                line.writer.write_eof()
                continue
            line.writer.write(chunk.replace(b"+RESET\r\n", b""))
            await line.writer.drain()
        if not line.deaf:
            line.writer.write_eof()
