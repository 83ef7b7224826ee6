"""Turns of conversations: waited for in this process, granted by the backend, held by renewing, let go of."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from jazzmine_dspy.memory.errors import LockTimeoutError
from jazzmine_dspy.memory.working.backend import Grant, RecordBackend
from jazzmine_dspy.memory.working.lease import Gate, Lease, held
from jazzmine_dspy.models.errors import InputError, JazzmineError, format_error

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.05


class Turns:
    """The turns of one store.

    Args:
        backend: Grants them.
        wait: Seconds that a turn waits for the one before it.
        seed: Of the jitter between tries; None draws one.
    """

    def __init__(self, backend: RecordBackend, *, wait: float, seed: int | None = None) -> None:
        self._backend = backend
        self._wait = wait
        self._random = random.Random(seed)
        self._gates: dict[str, Gate] = {}
        self._background: set[asyncio.Task[None]] = set()
        # Stands for this store in the context of tasks, which may outlive it.
        self._name = object()

    def __len__(self) -> int:
        """Conversations with a turn under way or waited for here."""
        return len(self._gates)

    def current(self, conversation_id: str) -> Lease | None:
        """The turn that the running code is in, or None."""
        lease = held.get().get((self._name, conversation_id))
        return lease if lease is not None and lease.open else None

    @asynccontextmanager
    async def entered(self, conversation_id: str) -> AsyncIterator[Lease]:
        """A turn that the code within is in; the one that this task has already, if it has one."""
        outer = self.current(conversation_id)
        if outer is not None and outer.task is asyncio.current_task():
            yield outer
            return
        async with self.own(conversation_id) as lease:
            held.set({**held.get(), (self._name, conversation_id): lease})
            try:
                yield lease
            finally:
                # Not what was held before: turns need not end in the order in which they began.
                held.set({key: other for key, other in held.get().items() if other is not lease})

    @asynccontextmanager
    async def own(self, conversation_id: str) -> AsyncIterator[Lease]:
        """A turn of its own, which the code within is not in of itself."""
        deadline = asyncio.get_running_loop().time() + self._wait
        gate = self._gate(conversation_id)
        gate.users += 1
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    await gate.lock.acquire()
            except TimeoutError as error:
                raise self._waited_too_long(conversation_id) from error
            try:
                lease = await self._granted(conversation_id, deadline)
                stop = self._keep_alive(lease)
                try:
                    yield lease
                finally:
                    lease.open = False
                    stop()
                    # Where the loop was closed in the middle of the turn, nothing can be waited for.
                    if not lease.settled and not gate.loop.is_closed():
                        # A second cancellation must not leave the turn behind.
                        await asyncio.shield(self._in_background(self._ended(lease)))
            finally:
                gate.lock.release()
        finally:
            gate.users -= 1
            if not gate.users and self._gates.get(conversation_id) is gate:
                del self._gates[conversation_id]

    def _gate(self, conversation_id: str) -> Gate:
        loop = asyncio.get_running_loop()
        gate = self._gates.get(conversation_id)
        # A loop that was closed in the middle of a turn has left its gate shut.
        if gate is None or gate.loop.is_closed():
            gate = self._gates[conversation_id] = Gate(loop)
        if gate.loop is not loop:
            raise InputError(
                "The store is at work in another event loop",
                where=f"conversation {conversation_id!r}",
                remedy="Make a store for each event loop.",
            )
        return gate

    async def _granted(self, conversation_id: str, deadline: float) -> Lease:
        """Try until the turn is granted. Only one task of this process tries at a time, the others queue."""
        loop = asyncio.get_running_loop()
        token, pause = uuid.uuid4().hex, FIRST_PAUSE
        grant: Grant | None = None
        try:
            while (grant := await self._backend.acquire(conversation_id, token)) is None:
                left = deadline - loop.time()
                if left <= 0:
                    raise self._waited_too_long(conversation_id)
                await asyncio.sleep(min(left, pause * self._random.uniform(0.5, 1.5)))
                pause = min(pause * 1.6, LONGEST_PAUSE)
        finally:
            if grant is None:
                # It may have been granted with nobody left to hear it. Nobody waits for this either.
                self._in_background(self._release(conversation_id, token))
        return Lease(conversation_id, grant.fence, grant.kept, token=token)

    def _keep_alive(self, lease: Lease) -> Callable[[], None]:
        """Renew a lease three times in its span while it is open; gives what stops it."""
        span = self._backend.lease / 3
        if math.isinf(span):
            return lambda: None
        loop = asyncio.get_running_loop()

        async def renew() -> None:
            pause = span
            try:
                if not await self._backend.renew(lease.conversation_id, lease.token, lease.fence):
                    logger.warning("A turn of conversation %r was lost to another one", lease.conversation_id)
                    return
            except Exception as error:
                # Whatever it was, the turn is still under way, and the next try may do.
                cause = format_error(error)
                logger.warning("A turn of conversation %r was not renewed: %s", lease.conversation_id, cause)
                pause = span / 4
            if lease.open:
                handles[0] = later(pause)

        def begin() -> None:
            lease.renewal = self._in_background(renew())

        def later(pause: float) -> asyncio.TimerHandle:
            return loop.call_later(pause, begin)

        handles = [later(span)]
        return lambda: handles[0].cancel()

    async def _ended(self, lease: Lease) -> None:
        # Tasks of the turn that are at work with the record come to their end first.
        async with lease.serial:
            lease.forget()
            if lease.renewal is not None and not lease.renewal.done():
                # Behind the release it would take the turn again, and nobody would end it.
                await asyncio.wait([lease.renewal])
                lease.released = False
            if not lease.released:
                await self._release(lease.conversation_id, lease.token)

    async def _release(self, conversation_id: str, token: str) -> None:
        try:
            await self._backend.release(conversation_id, token)
        except JazzmineError as error:
            logger.warning("The turn of conversation %r ends with its lease: %s", conversation_id, error)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def settled(self) -> None:
        """Wait for what runs in the background."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(task for task in self._background if task.get_loop() is loop), return_exceptions=True
        )

    def _waited_too_long(self, conversation_id: str) -> LockTimeoutError:
        return LockTimeoutError(
            f"The turn before did not end within {self._wait:g} s",
            where=f"conversation {conversation_id!r}",
            remedy="Send the message again; if it lasts, look for a language model that stalls.",
        )
