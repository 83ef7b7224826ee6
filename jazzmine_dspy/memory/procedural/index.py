"""Recall without a memory: an index in this process, filled with the registry's flows."""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection, Iterable, Iterator

from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Filter
from jazzmine_dspy.memory.procedural.numpy_engine import NumpyEngine
from jazzmine_dspy.memory.procedural.points import write
from jazzmine_dspy.memory.procedural.ranking import DEFAULT, RecallSettings
from jazzmine_dspy.memory.procedural.recall import Collections, FlowRecall
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.ports import Embedder
from jazzmine_dspy.models.registry import FlowRegistry

_CACHED = 4096


class FlowIndex(FlowRecall):
    """A :class:`FlowRecall` in this process, which stores the registry's flows at first use.

    The last 4,096 answers are cached.

    Args:
        registry: The flows.
        embedder: Gives the vectors; first used when the index is built.
        settings: How to rank; an optimization run fits it.
        examples: Further examples, as (text, flow, id of the conversation that it stems from).

    Raises:
        FlowError: An example names an unknown flow.
        InputError: A number makes no sense.

    Example:
        >>> from jazzmine_dspy.memory.procedural import FastembedEmbedder
        >>> index = FlowIndex(FlowRegistry(), FastembedEmbedder())
        >>> index.recall("where is my order", k=5)
        []
    """

    _fields = ()

    def __init__(
        self,
        registry: FlowRegistry,
        embedder: Embedder,
        *,
        settings: RecallSettings = DEFAULT,
        examples: Iterable[tuple[str, str, str]] = (),
    ) -> None:
        super().__init__(self._open, registry, "", embedder, settings=settings, examples=examples)
        self._conversations = {point.conversation for point in self.points}
        self._build_lock = threading.Lock()
        self._opened: Collections | None = None
        self._closed = False
        # The index never changes, and a run asks the same of it for every program that it compares.
        self._recall_cached = functools.lru_cache(_CACHED)(super()._recall)

    @property
    def in_process(self) -> bool:
        """Whether nothing but this process is needed for an answer, and nothing is left to be built."""
        return self._opened is not None and not self._closed

    def __enter__(self) -> FlowIndex:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def build(self) -> None:
        """Embed all texts and store them, once. The first recall does it if this was not called.

        Raises:
            EmbeddingError: The embedder fails; the next call tries again.
            MemoryUnavailableError: The index is closed.
        """
        if self._points:
            self._open()

    def clear_cache(self) -> None:
        """Drop cached answers, those of the embedder too, so that the next ones take their real time."""
        super().clear_cache()
        self._recall_cached.cache_clear()

    def close(self) -> None:
        """Close the index; later calls raise ``MemoryUnavailableError``."""
        with self._build_lock:
            self._closed = True
            if self._opened is not None:
                self._opened.engine.close()

    def _recall(
        self,
        query: str,
        k: int,
        summaries: tuple[str, ...],
        allowed: frozenset[str] | None,
        exclude: frozenset[str],
    ) -> list[Recalled]:
        self._check_open()
        among = None if allowed is None else frozenset(self._rank.keys() & allowed)
        return self._recall_cached(query, k, summaries, among, exclude & self._conversations)

    def _names(self, allowed: Collection[str] | None) -> frozenset[str]:
        self._check_open()
        return frozenset(self._rank if allowed is None else allowed)

    def _sources(
        self, names: frozenset[str], exclude: frozenset[str]
    ) -> Iterator[tuple[CollectionSpec, Filter]]:
        must = {} if names == self._rank.keys() else {"flow_name": sorted(names)}
        yield self._open().own, Filter(must, {"conversation": sorted(exclude)} if exclude else {})

    def _check_open(self) -> None:
        if self._closed:
            raise MemoryUnavailableError(
                "The flow index is closed", where=":memory:", remedy="Make a new one."
            )

    def _open(self) -> Collections:
        with self._build_lock:
            self._check_open()
            if self._opened is None:
                opened = Collections(NumpyEngine(), CollectionSpec("flows", self._embedder.size))
                write(opened.engine, opened.own, self._embedder, self._points)
                self._opened = opened
            return self._opened
