"""Recall that goes on where procedural memory is down: from a stand-in, and said so."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.memory.procedural.points import BlockingRecall
from jazzmine_dspy.models.decision import Degraded, Recalled
from jazzmine_dspy.models.errors import MemoryUnavailableError, format_error
from jazzmine_dspy.models.ports import RecallPort

logger = logging.getLogger("jazzmine_dspy")

_THREADS = 16

_DOWN = (MemoryUnavailableError, DimensionError)


class FallbackRecall:
    """A recall port that never fails because memory does: it answers from a stand-in, as a ``Degraded`` list.

    After a failure the memory is left alone for a while, so that no turn waits for what is known to be down; then one
    question tries it again, and the others go on with the stand-in meanwhile.

    Args:
        primary: The port that should answer.
        stand_in: Makes what answers in its place, once, when it is first needed. None, or one that fails too: the
            answer is empty, and degraded.
        pause: Seconds for which the memory is not asked after a failure.
        clock: Seconds.

    Example:
        >>> from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
        >>> from jazzmine_dspy.models.registry import FlowRegistry
        >>> index = FlowIndex(FlowRegistry(), FastembedEmbedder())
        >>> index.close()
        >>> FallbackRecall(index, None).recall("where is my order", k=3).cause
        'MemoryUnavailableError: The flow index is closed (:memory:). Make a new one.'
    """

    def __init__(
        self,
        primary: RecallPort,
        stand_in: Callable[[], RecallPort] | None,
        *,
        pause: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.primary = primary
        self._make = stand_in
        self._pause = pause
        self._clock = clock
        self._made: RecallPort | None = None
        self._again = float("-inf")
        self._cause = ""
        self._lock = threading.Lock()
        self._making = threading.Lock()
        # Its own: threads that wait for a server that is down must not keep the rest of the process waiting.
        self._threads = ThreadPoolExecutor(_THREADS, "jazzmine-recall")

    def __deepcopy__(self, memo: dict[int, Any]) -> FallbackRecall:
        return self

    @property
    def registry(self) -> Any:
        """The flows that the primary knows; a program lets an index of other flows go."""
        return self.primary.registry  # type: ignore[attr-defined]

    @property
    def fingerprint(self) -> str:
        """The primary's: what the stand-in gives is marked, and kept by nobody."""
        return self.primary.fingerprint

    @property
    def down(self) -> str:
        """Why the memory is not asked at the moment; empty where it is."""
        return self._cause if self._clock() < self._again else ""

    def recall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """Candidates for a query; a ``Degraded`` list where the stand-in gave them.

        Raises:
            EmbeddingError: the embedder fails, which helps the stand-in as little.
        """
        cause = self._resting()
        if not cause:
            try:
                found = self.primary.recall(query, k=k, summaries=summaries, allowed=allowed, exclude=exclude)
            except _DOWN as error:
                cause = self._failed(error)
            else:
                self._answered()
                return found
        return self._instead(cause, query, k=k, summaries=summaries, allowed=allowed, exclude=exclude)

    async def arecall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """The same without blocking the loop."""
        asked: dict[str, Any] = {"k": k, "summaries": summaries, "allowed": allowed, "exclude": exclude}
        if isinstance(self.primary, BlockingRecall) and not self.down:
            # Whether the memory is down is asked again in the thread: many may have waited for one until then.
            return await self._in_own_thread(functools.partial(self.recall, query, **asked))
        cause = self._resting()
        if not cause:
            try:
                found = await self.primary.arecall(query, **asked)
            except _DOWN as error:
                cause = self._failed(error)
            else:
                self._answered()
                return found
        return await self._in_own_thread(functools.partial(self._instead, cause, query, **asked))

    def forget(self) -> None:
        """Let remembered answers go, and ask the memory again at once."""
        with self._lock:
            self._again = float("-inf")
        for one in (self.primary, self._made):
            forget = getattr(one, "forget", None)
            if forget is not None:
                forget()

    def _resting(self) -> str:
        """Why the memory is not to be asked now. Who may try it again makes the others wait for the result."""
        with self._lock:
            if not self._cause:
                return ""
            now = self._clock()
            if now < self._again:
                return self._cause
            self._again = now + self._pause
            return ""

    def _failed(self, error: Exception) -> str:
        with self._lock:
            if not self._cause:
                logger.warning(
                    "procedural memory is down, the registry's own index stands in: %s", format_error(error)
                )
            self._cause = format_error(error)
            self._again = self._clock() + self._pause
            return self._cause

    def _answered(self) -> None:
        with self._lock:
            if self._cause:
                logger.warning("procedural memory answers again")
            self._cause = ""

    def _instead(self, cause: str, query: str, **asked: Any) -> Degraded:
        try:
            stand_in = self._stand_in()
            found = stand_in.recall(query, **asked) if stand_in is not None else []
        except _DOWN as error:
            return Degraded(cause=f"{cause}; and the stand-in: {format_error(error)}")
        return Degraded(found, cause=cause)

    async def _in_own_thread(self, work: Callable[[], list[Recalled]]) -> list[Recalled]:
        run = contextvars.copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self._threads, run, work)

    def _stand_in(self) -> RecallPort | None:
        with self._making:
            if self._made is None and self._make is not None:
                self._made = self._make()
            return self._made
