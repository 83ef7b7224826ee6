"""Opens engines, and the recall on an embedded engine of its own, which it fills with the registry's flows."""

from __future__ import annotations

import functools
import os
import ssl
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from jazzmine_dspy.memory.errors import MissingExtraError
from jazzmine_dspy.memory.procedural.engine import ALL, CollectionSpec, Engine, Filter
from jazzmine_dspy.memory.procedural.points import batches, write
from jazzmine_dspy.memory.procedural.ranking import RecallSettings
from jazzmine_dspy.memory.procedural.recall import Collections, FlowRecall
from jazzmine_dspy.models.base import forked
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.ports import Embedder
from jazzmine_dspy.models.registry import FlowRegistry

_SETTINGS = RecallSettings()
_CACHED = 4096
_BATCH = 1000


class FlowIndex(FlowRecall):
    """A :class:`FlowRecall` on an embedded engine of its own, which it fills with the registry's flows at first use.

    The last 4,096 answers are cached.

    Args:
        registry: The flows.
        embedder: Gives the vectors; first used when the index is built.
        settings: How to rank; an optimization run fits it.
        examples: Further examples, as (text, flow, id of the conversation that it stems from).
        engine: ``auto``, ``edge`` or ``local``, as for :func:`~jazzmine_dspy.memory.procedural.index.open_engine`.

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
        settings: RecallSettings = _SETTINGS,
        examples: Iterable[tuple[str, str, str]] = (),
        engine: str = "auto",
    ) -> None:
        super().__init__(self._open, registry, "", embedder, settings=settings, examples=examples)
        self._engine_name = engine
        self._flow_sizes = Counter(point.flow for point in self.points)
        self._conversation_sizes = Counter(point.conversation for point in self.points if point.conversation)
        self._build_lock = threading.Lock()
        self._opened: Collections | None = None
        self._closed = False
        # The index never changes, and a run asks the same of it for every program that it compares.
        self._recall_cached = functools.lru_cache(_CACHED)(super()._recall)
        self._pid = os.getpid()

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
            MemoryUnavailableError: Qdrant fails.
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
        barred = frozenset(self._conversation_sizes.keys() & exclude)
        return self._recall_cached(query, k, summaries, among, barred)

    def _names(self, allowed: Collection[str] | None) -> frozenset[str]:
        self._check_open()
        return frozenset(self._rank if allowed is None else allowed)

    def _sources(
        self, names: frozenset[str], exclude: frozenset[str], depth: int
    ) -> Iterator[tuple[CollectionSpec, Filter, int]]:
        hidden = self._rank.keys() - names
        further = sum(self._flow_sizes[name] for name in hidden)
        further += sum(self._conversation_sizes[each] for each in exclude)
        where = ALL
        if further > 2 * depth:  # to request so many more and drop them would take longer than a filter
            further = 0
            flows = {"flow_name": sorted(names)} if hidden else {}
            where = Filter(flows, {"conversation": sorted(exclude)} if exclude else {})
        yield self._open().own, where, further

    def _check_open(self) -> None:
        if self._closed:
            raise MemoryUnavailableError(
                "The flow index is closed", where=":memory:", remedy="Make a new one."
            )

    def _open(self) -> Collections:
        if os.getpid() != self._pid:
            raise forked(self._pid, "the index of the flows")
        with self._build_lock:
            self._check_open()
            if self._opened is None:
                spec = CollectionSpec("flows", self._embedder.size, indexed=("flow_name", "conversation"))
                opened = Collections(open_engine(":memory:", self._engine_name), spec)
                try:
                    opened.engine.ensure(spec)
                    points = {
                        point_id: point._replace(
                            payload={"flow_name": point.flow, "conversation": point.conversation}
                        )
                        for point_id, point in self._points.items()
                    }
                    for batch in batches(list(points.items()), _BATCH):
                        write(opened.engine, spec, self._embedder, dict(batch))
                except BaseException:
                    opened.engine.close()
                    raise
                self._opened = opened
            return self._opened


def open_engine(
    where: str | os.PathLike[str],
    engine: str = "auto",
    *,
    api_key: str | None = None,
    timeout: float = 2.0,
    retries: int = 3,
    verify: bool | str | ssl.SSLContext = True,
) -> Engine:
    """Open a server by URL, or an embedded engine on a folder or in memory.

    Args:
        where: ``http(s)://HOST:PORT``; or a folder, which is created if it does not exist; or ``:memory:``.
        engine: Without a URL: ``edge``, ``local``, or ``auto``, which is the engine that created the folder. For a new
            one it is edge if installed (the extra ``local``), since it is far quicker; ``make bench`` measures both.
        api_key: Of the server.
        timeout: Seconds that a search on a server may take; a write may take ten times as long.
        retries: Further attempts on a server after one that failed.
        verify: Whether a server's certificate is checked; or a PEM file of authorities; or an SSL context.

    Raises:
        InputError: There is no such engine, or the URL or a number is invalid.
        MemoryUnavailableError: Another engine has the folder open, or it cannot be written.
        MissingExtraError: Edge is requested, or created the folder, and is not installed.

    Example:
        >>> engine = open_engine(":memory:", "local")
        >>> engine.where
        'Qdrant embedded, :memory:'
        >>> engine.close()
    """
    path = os.fspath(where)
    if engine not in ("auto", "edge", "local"):
        raise InputError(f"There is no embedded engine {engine!r}", remedy="Choose auto, edge or local.")
    if "://" in path:
        from jazzmine_dspy.memory.procedural.qdrant_engine import open_server

        return open_server(path, api_key=api_key, timeout=timeout, retries=retries, verify=verify)
    is_installed = find_spec("qdrant_edge") is not None
    if engine == "auto":
        is_edge = any(Path(path).glob("*/edge_config.json"))
        is_local = (Path(path) / "meta.json").exists()
        engine = "edge" if is_edge or (is_installed and not is_local) else "local"
    if engine == "local":
        from jazzmine_dspy.memory.procedural.qdrant_engine import open_local

        return open_local(path)
    if not is_installed:
        raise MissingExtraError(
            "The edge engine needs the package qdrant-edge-py, which is not installed",
            where=path,
            remedy="Run: pip install 'jazzmine-dspy[local]'.",
        )
    from jazzmine_dspy.memory.procedural.edge import EdgeEngine

    return EdgeEngine(path)
