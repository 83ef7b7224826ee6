"""A clock for tests of pauses: nobody waits, and every pause is told."""

from __future__ import annotations


class Time:
    """A clock that moves only while somebody sleeps, in seconds, and the pauses that were slept."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)
