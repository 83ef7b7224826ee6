"""Which flows may a message want? Dense and BM25 search over Qdrant, fused by reciprocal ranks, by flow."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from jazzmine_dspy.memory.procedural import _collection, _sparse
from jazzmine_dspy.memory.procedural._collection import Point, Search, Words
from jazzmine_dspy.memory.procedural._stopwords import ENGLISH
from jazzmine_dspy.models._base import sha256
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import FlowError, InputError, MemoryUnavailableError
from jazzmine_dspy.models.registry import FlowRegistry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_REMEMBERED = 4096
_VERSION = 1
"""To be raised when the same flows are stored in another way."""


class Embedder(Protocol):
    """What the index needs of an embedder."""

    @property
    def fingerprint(self) -> str:
        """Names the model and its weights."""
        ...

    @property
    def size(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of shape (number of texts, size)."""
        ...


class FlowIndex:
    """Finds flows by their descriptions, keywords and examples, with one point for each of them.

    A flow's score is the sum of the fused scores of its best three points. The best point alone lets one
    chance match decide: on 1,001 turns of BANKING77 (5 examples a flow) it has the flow among the first three
    for 90.3 %, three points for 92.6 %; on 251 training turns of the support dataset it is 74.2 and 79.7 %.
    All points together would favour flows of many examples.

    Args:
        registry: The flows.
        embedder: Gives the vectors; first used when the index is built.
        rrf_k: Constant of the reciprocal rank fusion: a point of rank r, from 0, gets 1 / (r + k) of a list.
        weights: Of the dense list and of the BM25 list; one of weight w gives 1 / ((r + 1) / w + k - 1).
        summary_weight: Factor on both where the query is the episode summaries.
        examples: Further examples, as (text, flow, id of the conversation that it stems from).
        depth: Points of each list that are fused; more where they hold too few flows.
        points_per_flow: How many of a flow's points add up to its score.
        path: ``:memory:``, or a folder in which the index is kept and found again.

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
        rrf_k: int = 10,
        weights: tuple[float, float] = (1.0, 1.0),
        summary_weight: float = 0.3,
        examples: Iterable[tuple[str, str, str]] = (),
        depth: int = 100,
        points_per_flow: int = 3,
        path: str = ":memory:",
    ) -> None:
        if min(rrf_k, depth, points_per_flow) < 1 or min(*weights, summary_weight) < 0 or not any(weights):
            raise InputError(
                "A flow index needs numbers of at least 1 and weights that are not negative, nor both 0",
                where=f"rrf_k={rrf_k}, depth={depth}, points_per_flow={points_per_flow}, weights={weights}, "
                f"summary_weight={summary_weight}",
            )
        self.registry = registry
        self.points: tuple[Point, ...] = tuple(_points(registry, examples))
        """All texts, in the registry's order."""
        self._conversations = {point.conversation for point in self.points} - {""}
        self._embedder = embedder
        self._rrf_k = rrf_k
        self._weights = weights
        self._summary_weight = summary_weight
        self._depth = depth
        self._top = points_per_flow
        self._path = path
        self._rank = {name: number for number, name in enumerate(registry)}
        self._build_lock = threading.Lock()
        self._answers_lock = threading.Lock()
        self._answers: dict[tuple[Any, ...], tuple[Recalled, ...]] = {}
        self._collection: _collection.Collection | None = None
        self._closed = False

    def __deepcopy__(self, memo: dict[int, Any]) -> FlowIndex:
        return self

    def __enter__(self) -> FlowIndex:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the flows, the examples, the embedder and the settings."""
        settings = [self._rrf_k, *self._weights, self._summary_weight, self._depth, self._top]
        return sha256([self._content(), list(self._rank), settings])

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
            with the default weights and no summaries.

        Raises:
            EmbeddingError: the embedder fails.
            MemoryUnavailableError: the index is closed, or Qdrant fails.
        """
        names = self._rank.keys() if allowed is None else self._rank.keys() & set(allowed)
        k = min(k, len(names))
        if self._closed:
            raise MemoryUnavailableError("The flow index is closed", remedy="Make a new one.")
        if k < 1:
            return []
        collection = self._built()
        # A filter that lets everything through still costs Qdrant's embedded mode two thirds of its time.
        flows = tuple(sorted(names)) if len(names) < len(self._rank) else None
        left_out = tuple(sorted(self._conversations.intersection(exclude)))
        # The index never changes, and a run asks the same of it for every program that it compares.
        key = (query, tuple(summaries), k, flows, left_out)
        with self._answers_lock:
            known = self._answers.get(key)
        if known is None:
            known = self._search(collection, query, summaries, k, flows, left_out)
            with self._answers_lock:
                if len(self._answers) >= _REMEMBERED:
                    self._answers.pop(next(iter(self._answers)))
                self._answers[key] = known
        return list(known)

    def _search(
        self,
        collection: _collection.Collection,
        query: str,
        summaries: Sequence[str],
        k: int,
        flows: Sequence[str] | None,
        left_out: Sequence[str],
    ) -> tuple[Recalled, ...]:
        searches = self._searches(query, summaries)
        depth = min(self._depth, len(self.points))
        while True:
            points = collection.fused(searches, rrf_k=self._rrf_k, depth=depth, flows=flows, exclude=left_out)
            found = self._grouped(points)
            if len(found) >= k or depth == len(self.points):
                # Thresholds are fitted without summaries; with them a flow is found twice.
                scale = 1.0 + self._summary_weight if any(text.strip() for text in summaries) else 1.0
                return tuple(Recalled(name, score / scale) for name, score in found[:k])
            depth = min(depth * 4, len(self.points))

    async def arecall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        """Same as :meth:`recall`, in a thread."""
        return await asyncio.to_thread(
            self.recall, query, k=k, summaries=summaries, allowed=allowed, exclude=exclude
        )

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
            if self._collection is not None:
                self._collection.close()

    def _built(self) -> _collection.Collection:
        if self._collection is not None:
            return self._collection
        with self._build_lock:
            if self._closed:
                raise MemoryUnavailableError("The flow index is closed", remedy="Make a new one.")
            if self._collection is None:
                name = _collection.PREFIX + self._content()[:16]
                self._collection = _collection.Collection(
                    self._path, name, self.points, size=self._embedder.size, vectors=self._vectors
                )
            return self._collection

    def _vectors(self, texts: list[str]) -> tuple[NDArray[np.float32], list[Words]]:
        return self._embedder.embed(texts), _sparse.documents(texts)

    def _content(self) -> str:
        """SHA-256 over what is stored, as against how it is asked."""
        return sha256([_VERSION, self._embedder.fingerprint, self._texts_hash])

    @functools.cached_property
    def _texts_hash(self) -> str:
        return sha256([sorted(ENGLISH), _sparse.AVERAGE_LENGTH, [[*point] for point in self.points]])

    def _searches(self, query: str, summaries: Sequence[str]) -> list[Search]:
        queries = [(query, 1.0)]
        summary = "\n".join(text for text in summaries if text.strip())
        if summary and self._summary_weight:
            queries.append((summary, self._summary_weight))
        dense, sparse = self._weights
        vectors = self._embedder.embed([text for text, _ in queries]) if dense else None
        searches = []
        for number, (text, factor) in enumerate(queries):
            if vectors is not None:
                searches.append(Search("dense", vectors[number].tolist(), dense * factor))
            words = _sparse.query(text)
            if sparse and words[0]:  # a text may hold nothing but stop words
                searches.append(Search("bm25", words, sparse * factor))
        return searches

    def _grouped(self, points: Iterable[tuple[int, float]]) -> list[Recalled]:
        scores: dict[str, list[float]] = {}
        for number, score in points:
            best = scores.setdefault(self.points[number].flow, [])
            if len(best) < self._top:
                best.append(score)
        # Rounded, since the same sum in another order may differ in its last digit.
        sums = [Recalled(flow, round(sum(best), 12)) for flow, best in scores.items()]
        return sorted(sums, key=lambda each: (-each.score, self._rank[each.name]))


def _points(registry: FlowRegistry, examples: Iterable[tuple[str, str, str]]) -> Iterable[Point]:
    further: dict[str, list[Point]] = {name: [] for name in registry}
    for number, (text, flow, conversation) in enumerate(examples, start=1):
        if flow not in further:
            raise FlowError(
                f"Example {number} names the unknown flow {flow!r}",
                where=f"conversation {conversation!r}",
                remedy="Correct the label, or add the flow to the registry.",
            )
        further[flow].append(Point(text, flow, "turn", conversation))
    for name, known in registry.items():
        yield Point(f"{known.description} {known.condition}".strip(), name, "description", "")
        if known.keywords:
            yield Point(", ".join(known.keywords), name, "keywords", "")
        for text in known.examples:
            yield Point(text, name, "example", "")
        yield from dict.fromkeys(further[name])
