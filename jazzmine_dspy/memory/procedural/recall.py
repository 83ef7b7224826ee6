"""Which flows may a message want? Dense and BM25 search over an embedded Qdrant, fused by reciprocal ranks, by flow."""

from __future__ import annotations

import contextlib
import functools
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.procedural import _sparse, ranking
from jazzmine_dspy.memory.procedural.embedded import open_embedded
from jazzmine_dspy.memory.procedural.engine import Branch, Engine, Hit, Layout, StoredPoint
from jazzmine_dspy.memory.procedural.points import BlockingRecall, Point, points_of, questions
from jazzmine_dspy.memory.procedural.ranking import Described, Lists, Settings
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.forking import leave_to_parent, renew_in_children
from jazzmine_dspy.models.registry import FlowRegistry

if TYPE_CHECKING:
    from jazzmine_dspy.models.ports import Embedder

_SETTINGS = Settings()
_REMEMBERED = 4096
_BATCH = 1000
_PREFIX = "flows-"
_VERSION = 3
"""To be raised when the same flows are stored in another way."""


class FlowIndex(BlockingRecall):
    """Finds flows by their descriptions, keywords and examples, with one point for each of them.

    A flow's score is the sum of the fused scores of its best three points: the best point alone lets one chance match
    decide, and all points together would favour flows of many examples. A run fits the number (``settings``), and its
    report says what each choice gave.

    Args:
        registry: The flows.
        embedder: Gives the vectors; first used when the index is built.
        settings: How to rank; an optimization run fits it.
        examples: Further examples, as (text, flow, id of the conversation that it stems from).
        path: ``:memory:``, or a folder in which the index is kept and found again.
        engine: ``auto``, ``edge`` or ``local``, as for :func:`~jazzmine_dspy.memory.procedural.embedded.open_embedded`.

    Raises:
        FlowError: an example names an unknown flow.
        InputError: a number makes no sense.

    Example:
        >>> from jazzmine_dspy.memory.procedural import FastembedEmbedder
        >>> index = FlowIndex(FlowRegistry(), FastembedEmbedder())
        >>> index.recall("where is my order", k=5)
        []
    """

    def __init__(
        self,
        registry: FlowRegistry,
        embedder: Embedder,
        *,
        settings: Settings = _SETTINGS,
        examples: Iterable[tuple[str, str, str]] = (),
        path: str = ":memory:",
        engine: str = "auto",
    ) -> None:
        ranking.check(settings)
        self.registry = registry
        self.settings = settings
        """How it ranks."""
        self.points: tuple[Point, ...] = tuple(points_of(registry, examples))
        """All texts, in the registry's order."""
        self._ids = tuple(str(uuid.UUID(int=number)) for number in range(len(self.points)))
        self._described = {
            each: Described(point.flow, point.kind, point.text, number)
            for number, (each, point) in enumerate(zip(self._ids, self.points, strict=True))
        }
        self._sizes = Counter(point.flow for point in self.points)
        self._stemming: dict[str, set[str]] = {}
        for each, point in zip(self._ids, self.points, strict=True):
            if point.conversation:
                self._stemming.setdefault(point.conversation, set()).add(each)
        self._embedder = embedder
        self._path = path
        self._chosen = engine
        self._rank = {name: number for number, name in enumerate(registry)}
        self._build_lock = threading.Lock()
        self._answers_lock = threading.Lock()
        self._answers: dict[tuple[Any, ...], tuple[Recalled, ...]] = {}
        self._opened: tuple[Engine, Layout] | None = None
        self._closed = False
        renew_in_children(self)

    def renew_after_fork(self) -> None:
        """Build the index anew in a forked child: its engine has threads, which only the parent has.

        An index in a folder stays the parent's, and its calls say so.
        """
        self._build_lock, self._answers_lock = threading.Lock(), threading.Lock()
        if self._path == ":memory:" and self._opened is not None:
            leave_to_parent(self._opened)
            self._opened = None

    def __deepcopy__(self, memo: dict[int, Any]) -> FlowIndex:
        return self

    def __enter__(self) -> FlowIndex:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the flows, the examples, the embedder and the settings."""
        return sha256([self._content(), list(self._rank), [*self.settings]])

    def recall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """Candidates for a query, best first; equal scores stand in the registry's order.

        Args:
            query: The message, at best rewritten to stand alone.
            k: How many flows at most.
            summaries: Of earlier episodes; together they are a second query, of less weight.
            allowed: Names of the flows to choose from; None means all.
            exclude: Conversations whose examples do not count.

        Returns:
            Each flow once. Its score is a sum of fused scores, below ``2 * points_per_flow / rrf_k`` (0.6)
            with the default weights.

        Raises:
            EmbeddingError: the embedder fails.
            MemoryUnavailableError: the index is closed, or Qdrant fails.
        """
        names = self._rank.keys() if allowed is None else self._rank.keys() & set(allowed)
        k = min(k, len(names))
        if self._closed:
            raise _closed(self._path)
        if k < 1:
            return []
        self._built()
        # A filter that lets everything through still costs time.
        flows = tuple(sorted(names)) if len(names) < len(self._rank) else None
        left_out = tuple(sorted(self._stemming.keys() & set(exclude)))
        # The index never changes, and a run asks the same of it for every program that it compares.
        key = (query, tuple(summaries), k, flows, left_out)
        with self._answers_lock:
            known = self._answers.get(key)
        if known is None:
            known = tuple(self._search(query, summaries, k, flows, left_out))
            with self._answers_lock:
                if len(self._answers) >= _REMEMBERED:
                    self._answers.pop(next(iter(self._answers)))
                self._answers[key] = known
        return list(known)

    def lists(
        self,
        query: str,
        *,
        summaries: Sequence[str] = (),
        exclude: Collection[str] = (),
        depth: int | None = None,
    ) -> Lists:
        """The ranked lists behind an answer, so that :meth:`ranked` can try other settings without a search.

        Args:
            query: The message.
            summaries: Of earlier episodes.
            exclude: Conversations whose examples do not count.
            depth: Points of each list: the largest depth that will be tried. Default: four times that of the settings.

        Raises:
            EmbeddingError: the embedder fails.
            MemoryUnavailableError: the index is closed, or Qdrant fails.
        """
        if self._closed:
            raise _closed(self._path)
        if not self.points:
            return Lists(())
        self._built()
        left_out = tuple(self._stemming.keys() & set(exclude))
        depth = 4 * self.settings.depth if depth is None else depth
        return self._asked(questions(self._embedder, query, summaries), None, left_out, depth)

    def ranked(self, lists: Lists, *, k: int, settings: Settings | None = None) -> list[Recalled]:
        """What :meth:`recall` answers to these lists under other settings (default: its own).

        Example:
            >>> from jazzmine_dspy.memory.procedural import FastembedEmbedder
            >>> index = FlowIndex(FlowRegistry(), FastembedEmbedder())
            >>> index.ranked(index.lists("where is my order"), k=3, settings=Settings(rrf_k=60))
            []
        """
        return ranking.recalled(lists, settings or self.settings, self._describe, self._rank.__getitem__, k=k)

    def build(self) -> None:
        """Embed all texts and store them, once. The first recall does it where this was not called.

        Raises:
            EmbeddingError: the embedder fails; the next call tries again.
            MemoryUnavailableError: Qdrant fails, or another process has the folder open.
        """
        if self.points:
            self._built()

    def forget(self) -> None:
        """Let remembered answers go, those of the embedder too, so that the next ones take their real time."""
        with self._answers_lock:
            self._answers.clear()
        forget = getattr(self._embedder, "forget", None)
        if forget is not None:
            forget()

    def close(self) -> None:
        """Give the index back; later calls raise ``MemoryUnavailableError``."""
        with self._build_lock:
            self._closed = True
            self._answers.clear()
            if self._opened is not None:
                self._opened[0].close()

    def _search(
        self,
        query: str,
        summaries: Sequence[str],
        k: int,
        flows: Sequence[str] | None,
        left_out: Sequence[str],
    ) -> list[Recalled]:
        asked = questions(self._embedder, query, summaries)
        depth = self.settings.depth
        while True:
            lists = self._asked(asked, flows, left_out, depth)
            found = self.ranked(lists, k=k)
            if len(found) >= k or depth >= len(self.points):
                return found
            depth *= 4

    def _asked(
        self,
        questions: dict[str, Branch],
        flows: Sequence[str] | None,
        left_out: Sequence[str],
        depth: int,
    ) -> Lists:
        engine, layout = self._built()
        unwanted = set().union(*(self._stemming[each] for each in left_out))
        failing = len(unwanted)
        where: dict[str, Sequence[str]] = {}
        among = None if flows is None else frozenset(flows)
        if flows is not None:
            others = len(self.points) - sum(self._sizes[name] for name in flows)
            if others > (1 - ranking.MOST) * len(self.points):
                where, among = {"flow_name": flows}, None
            else:
                failing += others

        def ask(branches: Sequence[Branch], limit: int) -> list[list[Hit]]:
            return engine.search(layout, branches, depth=limit, where=where)

        def narrowed(branches: Sequence[Branch], limit: int) -> list[list[Hit]]:
            named = {"flow_name": flows} if flows is not None else {}
            return engine.search(layout, branches, depth=limit, where=named)

        def passes(hit: Hit) -> bool:
            return hit.id not in unwanted and (among is None or self._described[hit.id].flow in among)

        chosen: Callable[[Sequence[Branch], int], list[list[Hit]]] = ask
        if failing:
            further = narrowed if among is not None else None
            chosen = ranking.passing(ask, passes, failing=failing, narrowed=further)
        lists = ranking.searched(chosen, list(questions.values()), self._describe, depth)
        return Lists(**{"dense": (), **dict(zip(questions, lists, strict=True))})

    def _describe(self, hit: Hit) -> Described:
        return self._described[hit.id]

    def _built(self) -> tuple[Engine, Layout]:
        if self._opened is not None:
            return self._opened
        with self._build_lock:
            if self._closed:
                raise _closed(self._path)
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> tuple[Engine, Layout]:
        layout = Layout(_PREFIX + self._content()[:16], self._embedder.size, indexed=("flow_name",))
        engine = open_embedded(self._path, self._chosen)
        try:
            kept = layout.collection in engine.collections()
            if kept and sum(1 for _ in engine.scroll(layout, {}, keys=("flow_name",))) != len(self.points):
                # A process was killed while it built it.
                engine.drop(layout.collection)
                kept = False
            for name in engine.collections():
                if name.startswith(_PREFIX) and name != layout.collection:
                    engine.drop(name)
            if not kept:
                self._store(engine, layout)
        except BaseException:
            with contextlib.suppress(MemoryUnavailableError):  # told is what failed first
                engine.close()
            raise
        return engine, layout

    def _store(self, engine: Engine, layout: Layout) -> None:
        texts = [point.text for point in self.points]
        vectors, words = self._embedder.embed(texts), _sparse.documents(texts)
        engine.ensure(layout)
        for start in range(0, len(texts), _BATCH):
            engine.upsert(
                layout,
                [
                    StoredPoint(
                        self._ids[number],
                        vectors[number],
                        words[number],
                        {"flow_name": self.points[number].flow},
                    )
                    for number in range(start, min(start + _BATCH, len(texts)))
                ],
            )

    def _content(self) -> str:
        """SHA-256 over what is stored, as against how it is asked."""
        return sha256([_VERSION, self._embedder.fingerprint, self._texts_hash])

    @functools.cached_property
    def _texts_hash(self) -> str:
        return sha256([_sparse.FINGERPRINT, [[*point] for point in self.points]])


def _closed(path: str) -> MemoryUnavailableError:
    return MemoryUnavailableError("The flow index is closed", where=path, remedy="Make a new one.")
