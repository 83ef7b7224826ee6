"""Calls of Redis: repeated where that may help, and over within their time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redis.asyncio import RedisCluster
from redis.client import NEVER_DECODE
from redis.exceptions import NoScriptError

from jazzmine_dspy.memory.working.redis._failures import passing, unavailable
from jazzmine_dspy.memory.working.redis.connect import Client, Connections, other_loop
from jazzmine_dspy.memory.working.redis.scripts import Script
from jazzmine_dspy.models.errors import MemoryUnavailableError

R = TypeVar("R")

TRIES = 5
"""How often a call is tried in its time."""
FIRST_PAUSE = 0.004


class Calls:
    """Scripts and scans over some connections.

    Args:
        connections: To Redis.
        timeout: Seconds that a call may take, with all its tries; one try may take half of them.

    Raises (from every call):
        MemoryUnavailableError: Redis could not be reached, refused, or did not answer in that time.
        InputError: the client belongs to another event loop.
    """

    def __init__(self, connections: Connections, timeout: float) -> None:
        self.connections = connections
        self.timeout = timeout
        # Only spreads tries in time; nothing that is stored or decided depends on it.
        self._random = random.Random()

    async def run(self, script: Script, keys: list[str], *args: str | bytes | int) -> Any:
        """Run a script; what it returns, texts as bytes."""
        tail = (len(keys), *keys, *args)

        async def once(client: Client) -> Any:
            options = {NEVER_DECODE: True}
            try:
                return await client.execute_command("EVALSHA", script.sha, *tail, **options)
            except NoScriptError:
                # A server that was restarted, flushed or has just become master does not know it.
                return await client.execute_command("EVAL", script.source, *tail, **options)

        return await self._in_time(once)

    async def keys(self, pattern: str) -> set[bytes]:
        """All keys of a pattern, of all nodes. Its time is that of each step."""
        client = self.connections.here().client
        if not isinstance(client, RedisCluster):
            return await self._scanned(pattern, {})
        await self._in_time(lambda one: one.initialize())
        found: set[bytes] = set()
        for node in client.get_primaries():
            found |= await self._scanned(pattern, {"target_nodes": node})
        return found

    async def _scanned(self, pattern: str, options: dict[str, Any]) -> set[bytes]:
        found: set[bytes] = set()
        cursor = 0
        while True:

            async def once(client: Client, cursor: int = cursor) -> Any:
                step = ("SCAN", cursor, "MATCH", pattern, "COUNT", 500)
                return await client.execute_command(*step, **options)

            cursors, keys = await self._in_time(once)
            found.update(key if isinstance(key, bytes) else key.encode() for key in keys)
            cursor = next(iter(cursors.values())) if isinstance(cursors, dict) else cursors
            if not int(cursor):
                return found

    async def _in_time(self, once: Callable[[Client], Awaitable[R]]) -> R:
        opened = self.connections.here()
        deadline = asyncio.get_running_loop().time() + self.timeout
        try:
            if opened.free.locked():
                async with asyncio.timeout_at(deadline):
                    await opened.free.acquire()
            else:
                await opened.free.acquire()
        except TimeoutError as error:
            raise MemoryUnavailableError(
                f"No connection was free within {self.timeout:g} s",
                where=self.connections.where,
                remedy="Allow more of them (connections), or more time (timeout).",
            ) from error
        try:
            return await self._tried(once, opened.client, deadline)
        finally:
            opened.free.release()

    async def _tried(self, once: Callable[[Client], Awaitable[R]], client: Client, deadline: float) -> R:
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            try:
                async with asyncio.timeout_at(min(deadline, loop.time() + self.timeout / 2)):
                    return await once(client)
            except RuntimeError as error:
                # asyncio's own text, for a connection made in a loop that has ended or is not this one.
                if "loop" in str(error):
                    raise other_loop(self.connections.where) from error
                raise
            except Exception as error:
                last = error
            pause *= self._random.uniform(2, 4)
            if not left or not passing(last) or loop.time() + pause >= deadline:
                break
            await asyncio.sleep(pause)
        raise unavailable(last, self.connections.where, self.timeout) from last
