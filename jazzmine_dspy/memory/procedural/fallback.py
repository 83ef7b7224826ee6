"""Recall that continues while procedural memory is down: from a fallback, and marked as degraded."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from circuitbreaker import STATE_HALF_OPEN, CircuitBreaker

from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.memory.procedural.index import FlowIndex
from jazzmine_dspy.memory.procedural.memory import QdrantProceduralMemory
from jazzmine_dspy.models.base import Shared, log
from jazzmine_dspy.models.decision import Degraded, Recalled
from jazzmine_dspy.models.errors import MemoryUnavailableError, format_error
from jazzmine_dspy.models.ports import Embedder, RecallPort
from jazzmine_dspy.models.registry import FlowRegistry

RECOVERY_S = 30
"""Seconds for which a memory that failed is left alone; then one recall tries it."""

_DOWN = (MemoryUnavailableError, DimensionError)


class FallbackRecall(Shared):
    """A recall port that does not fail if memory does: it answers from a fallback, as a ``Degraded`` list.

    After a failure the memory is left alone for :data:`RECOVERY_S`, so that no turn waits for it; then one recall
    tries it again, and the others use the fallback meanwhile.

    Args:
        primary: The port that should answer.
        fallback: Makes the port that answers in its place, once, when first needed. None, or one that fails too: the
            answer is empty, and degraded.

    Example:
        >>> from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
        >>> from jazzmine_dspy.models.registry import FlowRegistry
        >>> index = FlowIndex(FlowRegistry(), FastembedEmbedder())
        >>> index.close()
        >>> FallbackRecall(index, None).recall("where is my order", k=3).cause
        'MemoryUnavailableError: The flow index is closed (:memory:). Make a new one.'
    """

    def __init__(self, primary: RecallPort, fallback: Callable[[], RecallPort] | None) -> None:
        self.primary = primary
        self._make_fallback = fallback
        self._fallback: RecallPort | None = None
        self._lock = threading.Lock()
        self._trial = threading.Lock()
        self._breaker = CircuitBreaker(1, RECOVERY_S, _DOWN)

    @property
    def registry(self) -> Any:
        """The flows that the primary knows; a program drops an index of other flows."""
        return self.primary.registry  # type: ignore[attr-defined]

    @property
    def fingerprint(self) -> str:
        """The primary's: a fallback's answers are marked, and nobody caches them."""
        return self.primary.fingerprint

    @property
    def down(self) -> str:
        """Why the memory is left alone at the moment; empty where it is not."""
        failure = self._breaker.last_failure
        return format_error(failure) if failure is not None and self._breaker.opened else ""

    def recall(self, query: str, **request: Any) -> list[Recalled]:
        """Candidates for a query; a ``Degraded`` list where the fallback gave them.

        Raises:
            EmbeddingError: The embedder fails, which the fallback would need too.
        """
        is_trial = self._breaker.state == STATE_HALF_OPEN
        if self.down or (is_trial and not self._trial.acquire(blocking=False)):
            return self._degraded(query, **request)
        try:
            with self._breaker:
                found = self.primary.recall(query, **request)
        except _DOWN as error:
            if not is_trial:
                log.warning(
                    "procedural memory is down, the registry's own index is used instead: %s",
                    format_error(error),
                )
            return self._degraded(query, **request)
        finally:
            if is_trial:
                self._trial.release()
        if is_trial:
            log.warning("procedural memory answers again")
        return found

    def clear_cache(self) -> None:
        """Drop cached answers, and try the memory again at once."""
        self._breaker.reset()
        for port in (self.primary, self._fallback):
            clear = getattr(port, "clear_cache", None)
            if clear is not None:
                clear()

    def _degraded(self, query: str, **request: Any) -> Degraded:
        cause = format_error(self._breaker.last_failure) if self._breaker.last_failure is not None else ""
        try:
            with self._lock:
                if self._fallback is None and self._make_fallback is not None:
                    self._fallback = self._make_fallback()
            found = self._fallback.recall(query, **request) if self._fallback is not None else []
        except _DOWN as error:
            return Degraded(cause=f"{cause}; and the fallback: {format_error(error)}")
        return Degraded(found, cause=cause)


def with_fallback(
    memory: QdrantProceduralMemory | RecallPort,
    registry: FlowRegistry,
    index: RecallPort | None,
    embedder: Embedder | None,
    agent_id: str = "",
) -> FallbackRecall:
    """A port over procedural memory that goes on where the memory is down.

    Args:
        memory: The memory that the flows were synced to, or a port.
        registry: The flows that are recalled.
        index: The index of a program, with its labelled examples and its fitted ranking; it is the stand-in, else one
            over the registry, built when it is first needed.
        embedder: Builds that index. Without one there is no stand-in.
        agent_id: Agent that the flows belong to.
    """
    if isinstance(memory, FallbackRecall):
        return memory
    own = index if isinstance(index, FlowIndex) else None
    port: Any = memory
    if isinstance(memory, QdrantProceduralMemory):
        # What the program learnt from labelled turns: the registry alone does not hold it.
        turns = [
            (point.text, point.flow, point.conversation)
            for point in (own.points if own is not None else ())
            if point.kind == "turn" and point.flow in registry
        ]
        port = memory.port(
            registry, agent_id, settings=own.settings if own is not None else None, examples=turns
        )
        embedder = embedder or memory.embedder
    if own is not None:
        return FallbackRecall(port, lambda: own)
    return FallbackRecall(
        port, None if embedder is None else functools.partial(FlowIndex, registry, embedder)
    )
