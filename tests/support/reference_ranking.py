"""The ranking of procedural memory in plain numpy, and its comparison with an engine's. Nothing of Qdrant's is used.

Scores of neighbours nearer than 1e-6 (of the score, from 1 up) are equal and stand in the points' order. The two sides
may see a gap of just that size differently, since one counts in 32 bits: a question whose lists have a gap between 0.5
and 1.5 times 1e-6 is doubtful, and only counted.
"""

from __future__ import annotations

import functools
import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jazzmine_dspy.memory.procedural import ranking
from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Engine, Filter, Hit, Point, Query
from jazzmine_dspy.memory.procedural.points import bm25_documents, bm25_query
from jazzmine_dspy.memory.procedural.ranking import PointInfo, RankedLists, RecallSettings

SIZE = 16
AGENTS = 3
FLOWS = 12
WORDS = [
    *(
        "order",
        "parcel",
        "lamp",
        "rug",
        "send",
        "back",
        "cancel",
        "address",
        "house",
        "broken",
        "arrive",
        "stop",
    ),
    *("track", "card", "pin", "bank", "money", "late", "refund", "price", "coupon", "gift", "wrap", "return"),
    *("label", "box", "door", "key", "alarm", "light", "music", "play", "song", "pause", "volume", "loud"),
]
GRAIN = 1e-6
NAMES = ("dense", "sparse", "summary_dense", "summary_sparse")


class Compared(NamedTuple):
    """How many questions were compared, how many were left out as doubtful, and the largest difference of a score."""

    questions: int
    doubtful: int
    worst: float


@functools.cache
def vector(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A unit vector drawn at random, the same for the same text."""
    drawn = np.random.default_rng(list(hashlib.sha256(text.encode()).digest())).normal(size=SIZE)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


def random_points(number: int, seed: int = 0, *, start: int = 0) -> list[Point]:
    """Points of few words, so that equal scores abound; their ids begin at ``start``, which is their order too."""
    rng = np.random.default_rng([seed, start])
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 6))) for _ in range(number)]
    texts[::50] = ["of the"] * len(texts[::50])  # stop words alone
    words = bm25_documents(texts)
    made = []
    for place, text in enumerate(texts):
        payload = {
            "agent_id": f"agent_{rng.integers(AGENTS)}",
            "flow_name": f"flow_{rng.integers(FLOWS)}",
            "kind": str(rng.choice(["description", "example", "turn"])),
            "text": text,
        }
        made.append(Point(str(uuid.UUID(int=start + place)), vector(text), words[place], payload))
    return made


class Reference:
    """Points ranked by the textbook: exact cosine, BM25 with IDF, weighted reciprocal ranks, grouping by flow."""

    def __init__(self, points: Iterable[Point]) -> None:
        self.points = {point.id: point for point in points}
        self.count()

    def upsert(self, points: Iterable[Point]) -> None:
        self.points.update({point.id: point for point in points})
        self.count()

    def delete(self, ids: Iterable[str]) -> None:
        for each in ids:
            del self.points[each]
        self.count()

    def count(self) -> None:
        """Lay the points out as matrices, in their order."""
        self.ids = sorted(self.points, key=lambda each: uuid.UUID(each).int)
        held = [self.points[each] for each in self.ids]
        self.payloads = [point.payload for point in held]
        self.held = {
            key: np.array([point.payload[key] for point in held]) for key in ("agent_id", "flow_name")
        }
        self.dense = np.array([point.dense for point in held], dtype=np.float64)
        stems = sorted({stem for point in held for stem in point.sparse[0]})
        self.column = {stem: n for n, stem in enumerate(stems)}
        self.weights = np.zeros((len(held), len(stems)))
        for row, point in enumerate(held):
            for stem, weight in zip(*point.sparse, strict=True):
                self.weights[row, self.column[stem]] = weight
        # What has no words is no document.
        documents = int((self.weights > 0).any(axis=1).sum())
        holding = (self.weights > 0).sum(axis=0)
        self.idf = np.log((documents - holding + 0.5) / (holding + 0.5) + 1)

    def ranked(self, branch: Query, where: Filter) -> tuple[list[int], np.ndarray[Any, Any]]:
        """Numbers of the points that pass and match, best first, equal ones in order; and the scores, best first."""
        if branch.dense is not None:
            asked = branch.dense.astype(np.float64)
            scores = self.dense @ (asked / np.linalg.norm(asked))
            matching = np.ones(len(self.ids), dtype=bool)
        else:
            query = np.zeros(len(self.column))
            for stem, weight in zip(*(branch.sparse), strict=True):
                if stem in self.column:
                    query[self.column[stem]] = weight
            scores = self.weights @ (query * self.idf)
            matching = (self.weights[:, query > 0] > 0).any(axis=1)
        for key, values in where.must.items():
            matching &= np.isin(self.held[key], values)
        found = np.flatnonzero(matching)
        found = found[np.argsort(-scores[found], kind="stable")]
        best_first = scores[found]
        gaps = -np.diff(best_first) > GRAIN * np.maximum(1.0, np.abs(best_first[:-1]))
        group = np.concatenate([[0], np.cumsum(gaps)])[: len(found)]
        return found[np.lexsort((found, group))].tolist(), best_first

    def recall(
        self, question: Mapping[str, Query], where: Filter, settings: RecallSettings, k: int
    ) -> tuple[list[tuple[str, float]], bool]:
        """The best flows with their scores; and whether a gap makes the question doubtful."""
        lists = {name: self.ranked(branch, where) for name, branch in question.items()}
        longest = max(len(numbers) for numbers, _ in lists.values())
        depth = settings.depth
        while True:
            cut = {name: numbers[:depth] for name, (numbers, _) in lists.items()}
            scores = self._flows([cut.get("dense", []), cut.get("sparse", [])], settings)
            told = self._flows([cut.get("summary_dense", []), cut.get("summary_sparse", [])], settings)
            if any(name in lists for name in NAMES[2:]):
                for flow, score in told.items():
                    scores[flow] = scores.get(flow, 0.0) + settings.summary * score
                scores = {flow: score / (1 + settings.summary) for flow, score in scores.items()}
            if len(scores) >= k or depth >= longest:
                break
            depth *= 4
        doubtful = any(_doubtful(ranked[: depth + 1]) for _, ranked in lists.values())
        best_first = sorted(scores, key=lambda flow: (-round(scores[flow], 12), int(flow.split("_")[1])))
        return [(flow, scores[flow]) for flow in best_first[:k]], doubtful

    def _flows(self, lists: Sequence[Sequence[int]], settings: RecallSettings) -> dict[str, float]:
        points: dict[int, float] = defaultdict(float)
        for numbers, weight in zip(lists, (settings.dense, settings.sparse), strict=True):
            for rank, number in enumerate(numbers):
                if weight:
                    points[number] += 1 / ((rank + 1) / weight + settings.rrf_k - 1)
        by_flow: dict[str, list[float]] = defaultdict(list)
        for number, score in points.items():
            by_flow[str(self.payloads[number]["flow_name"])].append(score)
        return {flow: sum(sorted(each)[-settings.points_per_flow :]) for flow, each in by_flow.items()}


def compare(
    engine: Engine, layout: CollectionSpec, reference: Reference, *, questions: int, seed: int = 0
) -> Compared:
    """Ask both the same random questions.

    Raises:
        AssertionError: other flows, another order, or a score that is not within 1e-6.
    """
    rng = np.random.default_rng([seed, questions])
    describing = {
        each: PointInfo(str(point.payload["flow_name"]), str(point.payload["kind"]), "", "", number)
        for number, each in enumerate(reference.ids)
        for point in [reference.points[each]]
    }
    doubtful, worst = 0, 0.0
    for number in range(questions):
        question, where, settings, k = _question(rng, number)
        expected, doubt = reference.recall(question, where, settings, k)
        found = recall(engine, layout, describing, question, where, settings, k)
        if doubt:
            doubtful += 1
            continue
        told = f"question {number}: {settings}, {where}, k={k}\n{found}\n{expected}"
        assert [name for name, _ in found] == [name for name, _ in expected], told
        differences = [abs(one - other) for (_, one), (_, other) in zip(found, expected, strict=True)]
        worst = max(worst, *differences, 0.0)
        assert worst <= GRAIN, told
    return Compared(questions - doubtful, doubtful, worst)


def recall(
    engine: Engine,
    layout: CollectionSpec,
    describing: Mapping[str, PointInfo],
    question: Mapping[str, Query],
    where: Filter,
    settings: RecallSettings,
    k: int,
) -> list[tuple[str, float]]:
    """Names and scores of the flows that an engine's lists come to."""

    def describe(hit: Hit) -> PointInfo:
        return describing[hit.id]

    depth = settings.depth
    while True:
        # As many as there are, since many texts of few words have equal scores.
        hits = engine.search(layout, list(question.values()), limit=len(describing) + 1, where=where)
        made = [ranking.ordered(each, describe, depth) for each in hits]
        lists = RankedLists(**{"dense": [], **dict(zip(question, made, strict=True))})
        found = ranking.recalled(lists, settings, describe, lambda flow: int(flow.split("_")[1]), k=k)
        if len(found) >= k or depth >= len(describing):
            return [(each.name, each.score) for each in found]
        depth *= 4


def scores_agree(
    engine: Engine, layout: CollectionSpec, reference: Reference, *, questions: int, seed: int = 1
) -> float:
    """Largest relative difference of a raw score, cosine or BM25, between an engine's lists and the reference's."""
    rng = np.random.default_rng([seed, questions])
    worst = 0.0
    for number in range(questions):
        question, where, settings, _ = _question(rng, number)
        branches = list(question.values())
        for branch, hits in zip(
            branches, engine.search(layout, branches, limit=settings.depth, where=where), strict=True
        ):
            _, expected = reference.ranked(branch, where)
            assert len(hits) == min(settings.depth, len(expected))
            for hit, score in zip(hits, expected.tolist(), strict=False):
                worst = max(worst, abs(hit.score - score) / max(1.0, abs(score)))
    return worst


def _question(rng: np.random.Generator, number: int) -> tuple[dict[str, Query], Filter, RecallSettings, int]:
    texts = [" ".join(rng.choice([*WORDS, "the", "my"], size=rng.integers(1, 6)))]
    if number % 5 == 0:
        texts.append(" ".join(rng.choice(WORDS, size=3)))
    question = {}
    for text, (dense, sparse) in zip(texts, (NAMES[:2], NAMES[2:]), strict=False):
        question[dense] = Query(dense=vector(text))
        words = bm25_query(text)
        if words[0]:
            question[sparse] = Query(sparse=words)
    must: dict[str, list[str]] = {}
    if number % 2:
        must["agent_id"] = [f"agent_{rng.integers(AGENTS)}"]
    if number % 3 == 0:
        must["flow_name"] = [f"flow_{each}" for each in rng.choice(FLOWS, size=5, replace=False)]
    settings = RecallSettings(
        rrf_k=int(rng.choice([1, 2, 10, 60])),
        dense=float(rng.choice([0.5, 1.0, 3.0])),
        sparse=float(rng.choice([0.0, 0.5, 1.0])),
        depth=int(rng.choice([10, 30, 60])),
        points_per_flow=int(rng.choice([1, 3, 99])),
    )
    return question, Filter(must), settings, int(rng.choice([1, 3, 5, FLOWS], p=[0.3, 0.3, 0.3, 0.1]))


def _doubtful(scores: np.ndarray[Any, Any]) -> bool:
    gaps = -np.diff(scores) / np.maximum(1.0, np.abs(scores[:-1]))
    return bool(((gaps > GRAIN / 2) & (gaps < GRAIN * 1.5)).any())
