from __future__ import annotations

import copy
import math
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex, _sparse
from jazzmine_dspy.memory.procedural._collection import BM25_STEP, DENSE_STEP, Point
from jazzmine_dspy.memory.procedural.recall import Embedder, Recalled
from jazzmine_dspy.models.errors import EmbeddingError, FlowError, InputError, MemoryUnavailableError
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.ports import RecallPort

WORDS = [
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
]


class _Reference:
    """The ranking in plain Python: nothing of Qdrant's."""

    def __init__(self, points: Sequence[Point], embedder: Embedder) -> None:
        texts = [point.text for point in points]
        self.points = points
        self.embedder = embedder
        self.vectors = embedder.embed(texts).astype(np.float64)
        self.again = [texts[:number].count(text) for number, text in enumerate(texts)]
        self.words = [dict(zip(*each, strict=True)) for each in _sparse.documents(texts)]
        frequency = Counter(word for words in self.words for word in words)
        self.idf = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in frequency.items()}

    def lists(self, query: str, passes: Sequence[int]) -> tuple[list[int], list[int]]:
        """Numbers of points, best first: by vector, and by words."""
        vector = self.embedder.embed([query])[0].astype(np.float64)
        asked = _sparse.query(query)[0]
        dense = {number: self.vectors[number] @ vector - DENSE_STEP * self.again[number] for number in passes}
        bm25 = {}
        for number in passes:
            held = self.words[number]
            matched = [held[word] * self.idf[word] for word in asked if word in held]
            if matched:
                bm25[number] = sum(matched) * (1 - BM25_STEP * number)
        return sorted(dense, key=lambda each: -dense[each]), sorted(bm25, key=lambda each: -bm25[each])

    def scores(
        self,
        queries: Sequence[tuple[str, float]],
        passes: Sequence[int],
        *,
        rrf_k: int,
        weights: tuple[float, float],
        depth: int,
        top: int,
    ) -> dict[str, float]:
        fused: dict[int, float] = defaultdict(float)
        for query, factor in queries:
            for ranked, weight in zip(self.lists(query, passes), weights, strict=True):
                for rank, number in enumerate(ranked[:depth]):
                    fused[number] += 1 / ((rank + 1) / (weight * factor) + rrf_k - 1)
        by_flow: dict[str, list[float]] = defaultdict(list)
        for number, score in fused.items():
            by_flow[self.points[number].flow].append(score)
        return {flow: sum(sorted(scores)[-top:]) for flow, scores in by_flow.items()}


def _random_registry(rng: np.random.Generator) -> tuple[FlowRegistry, list[tuple[str, str, str]]]:
    def text() -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(1, 5)))

    flows = [
        {
            "name": f"flow_{n}",
            "description": text(),
            "examples": [text() for _ in range(5)],
            "keywords": [text()],
        }
        for n in range(12)
    ]
    turns = [(text(), f"flow_{rng.integers(12)}", f"conversation_{rng.integers(6)}") for _ in range(40)]
    return FlowRegistry(flows), turns


@pytest.mark.parametrize(
    ("rrf_k", "weights", "depth", "top"),
    [(10, (1.0, 1.0), 100, 3), (2, (3.0, 1.0), 7, 1), (60, (1.0, 0.5), 30, 99)],
)
def test_the_ranking_is_that_of_a_plain_reference(
    hashed: Embedder, rrf_k: int, weights: tuple[float, float], depth: int, top: int
) -> None:
    """200 random queries over texts of few words, so that equal scores abound."""
    rng = np.random.default_rng(rrf_k)
    registry, turns = _random_registry(rng)
    index = FlowIndex(
        registry, hashed, rrf_k=rrf_k, weights=weights, depth=depth, points_per_flow=top, examples=turns
    )
    reference = _Reference(index.points, hashed)
    order = list(registry)
    k = 3
    with index:
        for number in range(200):
            query = " ".join(rng.choice([*WORDS, "the", "my"], size=rng.integers(1, 6)))
            allowed = (
                set(map(str, rng.choice(order, size=5, replace=False))) if number % 3 == 0 else set(order)
            )
            exclude = {f"conversation_{number % 6}"} if number % 2 else set()
            summaries = [str(rng.choice(WORDS)), "  "] if number % 5 == 0 else []
            found = index.recall(query, k=k, summaries=summaries, allowed=allowed, exclude=exclude)

            queries = [(query, 1.0), *((text, 0.3) for text in summaries[:1])]
            passes = [
                place
                for place, point in enumerate(index.points)
                if point.flow in allowed and point.conversation not in exclude
            ]
            expected: dict[str, float] = {}
            used = depth
            while len(expected) < k:
                used = min(used, len(index.points))
                expected = reference.scores(
                    queries, passes, rrf_k=rrf_k, weights=weights, depth=used, top=top
                )
                used *= 4
            best = sorted(expected, key=lambda flow: (-round(expected[flow], 12), order.index(flow)))[:k]
            assert [each.name for each in found] == best
            # With summaries a flow is found twice; its score stays on the scale of one query.
            scale = 1.3 if summaries else 1.0
            assert [each.score for each in found] == pytest.approx(
                [expected[flow] / scale for flow in best], abs=1e-6
            )


@pytest.mark.parametrize("rrf_k", [1, 10, 60])
def test_k_of_the_fusion_is_applied(hashed: Embedder, rrf_k: int) -> None:
    registry = FlowRegistry([{"name": name, "description": f"{name} word"} for name in ("red", "green")])
    with FlowIndex(registry, hashed, rrf_k=rrf_k) as index:
        # The point of just this text is first in both lists, the other one second.
        found = index.recall("red word", k=2)
        assert found[0] == Recalled("red", pytest.approx(2 / rrf_k, abs=1e-9))
        assert found[1] == Recalled("green", pytest.approx(2 / (1 + rrf_k), abs=1e-9))


def test_weights(hashed: Embedder, shop: FlowRegistry) -> None:
    query = "return the rug"
    words = FlowIndex(shop, hashed, weights=(0, 1))
    vectors = FlowIndex(shop, hashed, weights=(1, 0), points_per_flow=1)
    with words, vectors:
        assert [each.name for each in words.recall("cancel it", k=4)] == ["cancel_order"]
        assert words.recall("of the", k=4) == []
        assert vectors.recall(query, k=1)[0].name == "return_item"


def test_it_finds_flows(minilm: FastembedEmbedder, shop: FlowRegistry) -> None:
    with FlowIndex(shop, minilm) as index:
        assert isinstance(index, RecallPort)
        for text, flow in [
            ("any news on when my stuff gets here?", "track_order"),
            ("call it off, I changed my mind about buying", "cancel_order"),
            ("this vase has a crack, take it back", "return_item"),
            ("please ship to my new flat", "change_address"),
        ]:
            found = index.recall(text, k=3)
            assert (found[0].name, len(found)) == (flow, 3)
            assert found == sorted(found, key=lambda each: -each.score)
            assert found == index.recall(text, k=3)


@pytest.mark.parametrize("text", ["", "  ", "of the", "🙂", "order " * 1600])
def test_any_text_gets_an_answer(minilm: FastembedEmbedder, shop: FlowRegistry, text: str) -> None:
    with FlowIndex(shop, minilm) as index:
        assert len(index.recall(text, k=10)) == len(shop)


def test_only_allowed_flows(hashed: Embedder, shop: FlowRegistry) -> None:
    with FlowIndex(shop, hashed) as index:
        found = index.recall("where is my order", k=5, allowed=["return_item", "change_address", "unknown"])
        assert {each.name for each in found} == {"return_item", "change_address"}
        assert index.recall("where is my order", k=5, allowed=[]) == []
        assert index.recall("where is my order", k=0) == []


def test_filters_come_before_the_depth(hashed: Embedder) -> None:
    """Were the filter applied to the fused points, 60 better ones would leave nothing of the allowed flow."""
    registry = FlowRegistry(
        [
            {"name": "many", "description": "order", "examples": [f"order {n}" for n in range(60)]},
            {"name": "few", "description": "something else"},
        ]
    )
    with FlowIndex(registry, hashed, depth=5) as index:
        found = index.recall("order", k=1, allowed=["few"])
        assert found == [Recalled("few", pytest.approx(0.1))]


def test_each_flow_is_found_however_many_points_others_have(hashed: Embedder) -> None:
    flows = [{"name": f"flow_{n}", "description": f"nothing {n}"} for n in range(9)]
    many = {"name": "many", "description": "order", "examples": [f"order {n}" for n in range(200)]}
    with FlowIndex(FlowRegistry([many, *flows]), hashed, depth=10) as index:
        assert len(index.recall("order", k=10)) == 10


def test_examples_of_excluded_conversations_do_not_count(hashed: Embedder, shop: FlowRegistry) -> None:
    turns = [("my thing has a crack", "return_item", "c1"), ("my thing has a crack", "return_item", "c2")]
    with FlowIndex(shop, hashed, examples=turns) as index:
        known = index.recall(turns[0][0], k=1)[0]
        assert known.name == "return_item"
        half = {each.name: each.score for each in index.recall(turns[0][0], k=4, exclude=["c1"])}
        assert half["return_item"] < known.score
        left_out = index.recall(turns[0][0], k=4, exclude=["c1", "c2"])
    with FlowIndex(shop, hashed) as index:
        assert [each.name for each in left_out] == [each.name for each in index.recall(turns[0][0], k=4)]


def test_summaries_weigh_less_than_the_query(minilm: FastembedEmbedder, shop: FlowRegistry) -> None:
    summary = "The customer wanted to send the rug back, since it arrived broken."
    with FlowIndex(shop, minilm) as index:
        plain = index.recall("cancel my order", k=4)
        helped = index.recall("cancel my order", k=4, summaries=[summary])
        assert helped[0].name == plain[0].name == "cancel_order"
        gain = {each.name: each.score - dict(plain)[each.name] for each in helped}
        assert max(gain, key=lambda name: gain[name]) == "return_item"
        assert index.recall("and that one?", k=1, summaries=[summary])[0].name == "return_item"


def test_equal_flows_stand_in_the_registrys_order(hashed: Embedder) -> None:
    for names in (["b", "a", "c"], ["c", "b", "a"]):
        registry = FlowRegistry(
            [{"name": name, "description": "the same order", "examples": ["order"] * 3} for name in names]
        )
        with FlowIndex(registry, hashed) as index:
            assert [each.name for each in index.recall("order", k=3)] == names


def test_an_empty_registry_has_no_candidates(hashed: Embedder) -> None:
    with FlowIndex(FlowRegistry(), hashed) as index:
        index.build()
        assert index.recall("where is my order", k=5) == []
        assert hashed.texts == []  # type: ignore[attr-defined]


async def test_async_is_the_same(hashed: Embedder, shop: FlowRegistry) -> None:
    with FlowIndex(shop, hashed) as index:
        found = await index.arecall(
            "my order", k=2, summaries=["rug"], allowed=["return_item"], exclude=["c"]
        )
        assert found == index.recall(
            "my order", k=2, summaries=["rug"], allowed=["return_item"], exclude=["c"]
        )


def test_threads(minilm: FastembedEmbedder, shop: FlowRegistry) -> None:
    """8 threads, 50 queries each, on an index that nobody has built yet."""
    queries = [f"{word} {other}" for word in WORDS for other in WORDS][:50]
    with FlowIndex(shop, minilm) as alone:
        expected = [alone.recall(query, k=4) for query in queries]
    with FlowIndex(shop, minilm) as index, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: [index.recall(query, k=4) for query in queries], range(8)))
    assert all(answer == expected for answer in answers)


def test_identity(hashed: Embedder, shop: FlowRegistry) -> None:
    index = FlowIndex(shop, hashed)
    assert copy.deepcopy(index) is index
    assert index.fingerprint == FlowIndex(shop, hashed).fingerprint
    assert index._collection is None, "a fingerprint needs no built index"
    others = [
        FlowIndex(shop, hashed, rrf_k=9),
        FlowIndex(shop, hashed, weights=(1, 2)),
        FlowIndex(shop, hashed, points_per_flow=1),
        FlowIndex(shop, hashed, examples=[("hello", "track_order", "c1")]),
        FlowIndex(shop, hashed, examples=[("hello", "track_order", "c2")]),
        FlowIndex(FlowRegistry(reversed([*shop.values()])), hashed),
    ]
    assert len({index.fingerprint, *(other.fingerprint for other in others)}) == 1 + len(others)


# --- when something is wrong --------------------------------------------------------------------------------


def test_an_embedder_that_is_down_is_no_empty_answer(
    hashed: Embedder, shop: FlowRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(texts: Sequence[str]) -> None:
        raise EmbeddingError("the model is gone")

    with FlowIndex(shop, hashed) as index:
        with monkeypatch.context() as patch:
            patch.setattr(hashed, "embed", down)
            with pytest.raises(EmbeddingError, match="gone"):
                index.recall("my order", k=3)
        assert len(index.recall("my order", k=3)) == 3, "the next call builds it"
        monkeypatch.setattr(hashed, "embed", down)
        with pytest.raises(EmbeddingError, match="gone"):
            index.recall("another order", k=3)


def test_a_closed_index(hashed: Embedder, shop: FlowRegistry) -> None:
    index = FlowIndex(shop, hashed)
    index.recall("my order", k=1)
    index.close()
    index.close()
    with pytest.raises(MemoryUnavailableError, match="closed"):
        index.recall("my order", k=1)


def test_a_broken_qdrant(hashed: Embedder, shop: FlowRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    with FlowIndex(shop, hashed) as index:
        index.build()
        client = index._collection._client  # type: ignore[union-attr]
        monkeypatch.setattr(client, "query_points", lambda *_, **__: 1 / 0)
        with pytest.raises(MemoryUnavailableError, match="ZeroDivisionError"):
            index.recall("my order", k=1)


def test_bad_arguments(hashed: Embedder, shop: FlowRegistry) -> None:
    with pytest.raises(FlowError, match="Example 2 names the unknown flow 'nope'") as caught:
        FlowIndex(shop, hashed, examples=[("a", "track_order", "c1"), ("b", "nope", "c7")])
    assert "c7" in caught.value.where
    for arguments in (
        {"rrf_k": 0},
        {"depth": 0},
        {"points_per_flow": 0},
        {"weights": (0, 0)},
        {"weights": (1, -1)},
    ):
        with pytest.raises(InputError, match="flow index"):
            FlowIndex(shop, hashed, **arguments)  # type: ignore[arg-type]


# --- kept in a folder ---------------------------------------------------------------------------------------


def test_an_index_in_a_folder_is_found_again(hashed: Embedder, shop: FlowRegistry, tmp_path: Path) -> None:
    with FlowIndex(shop, hashed, path=str(tmp_path / "index")) as index:
        found = index.recall("my order", k=4)
    hashed.texts.clear()  # type: ignore[attr-defined]
    with FlowIndex(shop, hashed, path=str(tmp_path / "index")) as index:
        assert index.recall("my order", k=4) == found
        assert hashed.texts == ["my order"]  # type: ignore[attr-defined]
        with pytest.raises(MemoryUnavailableError, match="already accessed"):
            FlowIndex(shop, hashed, path=str(tmp_path / "index")).build()
    fewer = FlowRegistry([shop["track_order"]])
    with FlowIndex(fewer, hashed, path=str(tmp_path / "index")) as index:
        assert [each.name for each in index.recall("my order", k=4)] == ["track_order"]
        assert index._collection is not None
        names = index._collection._client.get_collections().collections
        assert len(names) == 1, "what is not asked for any more is dropped"


def test_nothing_is_printed_when_the_interpreter_ends(tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
from jazzmine_dspy.memory.procedural import FlowIndex
from jazzmine_dspy.models.registry import FlowRegistry
class Ones:
    fingerprint, size = "ones", 4
    def embed(self, texts): return np.full((len(texts), 4), 0.5, dtype=np.float32)
registry = FlowRegistry([{"name": "a", "description": "b"}])
indexes = [FlowIndex(registry, Ones(), path=path) for path in (":memory:", sys.argv[1])]
print([index.recall("b", k=1)[0].name for index in indexes])
"""
    command = [sys.executable, "-P", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("['a', 'a']\n", "", 0)
