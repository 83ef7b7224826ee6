from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
from jazzmine_dspy.memory.procedural.ranking import RecallSettings
from jazzmine_dspy.models.errors import EmbeddingError, FlowError, InputError, MemoryUnavailableError
from jazzmine_dspy.models.ports import Embedder, RecallPort
from jazzmine_dspy.models.registry import FlowRegistry

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


@pytest.mark.row("F4")
@pytest.mark.parametrize("rrf_k", [1, 10, 60])
def test_k_of_the_fusion_is_applied(hashed: Embedder, rrf_k: int) -> None:
    registry = FlowRegistry([{"name": name, "description": f"{name} word"} for name in ("red", "green")])
    with FlowIndex(registry, hashed, settings=RecallSettings(rrf_k=rrf_k)) as index:
        # The point of just this text is first in both lists, the other one second.
        found = index.recall("red word", k=2)
        assert [each.name for each in found] == ["red", "green"]
        assert [each.score for each in found] == pytest.approx([2 / rrf_k, 2 / (1 + rrf_k)], abs=1e-9)


@pytest.mark.row("F4")
def test_weights(hashed: Embedder, shop: FlowRegistry) -> None:
    query = "return the rug"
    words = FlowIndex(shop, hashed, settings=RecallSettings(dense=0))
    vectors = FlowIndex(shop, hashed, settings=RecallSettings(sparse=0, points_per_flow=1))
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


@pytest.mark.row("F4")
def test_filters_come_before_the_depth(hashed: Embedder) -> None:
    """Were the filter applied to the fused points, 60 better ones would leave nothing of the allowed flow."""
    registry = FlowRegistry(
        [
            {"name": "many", "description": "order", "examples": [f"order {n}" for n in range(60)]},
            {"name": "few", "description": "something else"},
        ]
    )
    with FlowIndex(registry, hashed, settings=RecallSettings(depth=5)) as index:
        found = index.recall("order", k=1, allowed=["few"])
        assert [(each.name, each.score) for each in found] == [("few", pytest.approx(0.1))]


def test_each_flow_is_found_however_many_points_others_have(hashed: Embedder) -> None:
    flows = [{"name": f"flow_{n}", "description": f"nothing {n}"} for n in range(9)]
    many = {"name": "many", "description": "order", "examples": [f"order {n}" for n in range(200)]}
    with FlowIndex(FlowRegistry([many, *flows]), hashed, settings=RecallSettings(depth=10)) as index:
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


@pytest.mark.row("F7")
def test_summaries_weigh_less_than_the_query(minilm: FastembedEmbedder, shop: FlowRegistry) -> None:
    summary = "The customer wanted to send the rug back, since it arrived broken."
    with FlowIndex(shop, minilm) as index:
        plain = index.recall("cancel my order", k=4)
        helped = index.recall("cancel my order", k=4, summaries=[summary])
        assert helped[0].name == plain[0].name == "cancel_order"
        before = {each.name: each.score for each in plain}
        gain = {each.name: each.score - before[each.name] for each in helped}
        assert max(gain, key=lambda name: gain[name]) == "return_item"
        assert index.recall("and that one?", k=1, summaries=[summary])[0].name == "return_item"


def test_lists_are_ranked_anew_without_a_search(hashed: Embedder, shop: FlowRegistry) -> None:
    """A run tries settings on the lists of one search; each answer is that of an index with those settings."""
    turns = [
        (f"{word} {other}", name, word) for word in WORDS for other, name in zip(WORDS, shop, strict=False)
    ]
    with FlowIndex(shop, hashed, examples=turns) as index:
        lists = index.lists("send the lamp back", summaries=["rug", " "], exclude=["send"], depth=999)
        assert "send order" not in {index._info(hit).text for hit in lists.dense}
        for settings in (
            RecallSettings(),
            RecallSettings(rrf_k=2, dense=3, summary=1),
            RecallSettings(depth=3, points_per_flow=1),
            RecallSettings(sparse=0, summary=0),
        ):
            with FlowIndex(shop, hashed, examples=turns, settings=settings) as other:
                asked = other.recall("send the lamp back", k=4, summaries=["rug", " "], exclude=["send"])
            assert index.ranked(lists, k=4, settings=settings) == asked
        assert index.ranked(index.lists("my rug"), k=4) == index.recall("my rug", k=4)
    with FlowIndex(FlowRegistry(), hashed) as nothing:
        assert nothing.ranked(nothing.lists("my rug"), k=4) == []


def test_what_stands_near_comes_from_the_message_alone(minilm: FastembedEmbedder, shop: FlowRegistry) -> None:
    with FlowIndex(shop, minilm) as index:
        plain = {each.name: each for each in index.recall("cancel my order", k=4)}
        told = {
            each.name: each for each in index.recall("cancel my order", k=4, summaries=["The rug broke."])
        }
    best = plain["cancel_order"]
    assert best.similarity == pytest.approx(1, abs=1e-5)
    assert best.near[0] == "cancel my order"
    assert len(best.near) == 2
    assert best.support > 1
    assert all(each._replace(score=0.0) == plain[name]._replace(score=0.0) for name, each in told.items())


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
    assert index._opened is None, "a fingerprint needs no built index"
    others = [
        FlowIndex(shop, hashed, settings=RecallSettings(rrf_k=9)),
        FlowIndex(shop, hashed, settings=RecallSettings(sparse=2)),
        FlowIndex(shop, hashed, settings=RecallSettings(points_per_flow=1)),
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


def test_bad_arguments(hashed: Embedder, shop: FlowRegistry) -> None:
    with pytest.raises(FlowError, match="Example 2 names the unknown flow 'nope'") as caught:
        FlowIndex(shop, hashed, examples=[("a", "track_order", "c1"), ("b", "nope", "c7")])
    assert "c7" in caught.value.where
    for arguments in (
        {"rrf_k": 0},
        {"depth": 0},
        {"points_per_flow": 0},
        {"dense": 0, "sparse": 0},
        {"sparse": -1},
        {"summary": -0.1},
    ):
        with pytest.raises(InputError, match="flow index"):
            FlowIndex(shop, hashed, settings=RecallSettings(**arguments))


def test_nothing_is_printed_when_the_interpreter_ends() -> None:
    code = """
import sys
import numpy as np
from jazzmine_dspy.memory.procedural import FlowIndex
from jazzmine_dspy.models.registry import FlowRegistry
class Ones:
    fingerprint, size = "ones", 4
    def embed(self, texts): return np.full((len(texts), 4), 0.5, dtype=np.float32)
registry = FlowRegistry([{"name": "a", "description": "b"}])
print(FlowIndex(registry, Ones()).recall("b", k=1)[0].name)
"""
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("a\n", "", 0)


def test_an_example_that_is_repeated_counts_once(shop: FlowRegistry, hashed: Embedder) -> None:
    twice = FlowRegistry(
        [
            {
                "name": one.name,
                "description": one.description,
                "condition": one.condition,
                "keywords": one.keywords,
                "examples": [*one.examples, *one.examples],
            }
            for one in shop.values()
        ]
    )
    with FlowIndex(shop, hashed) as plain, FlowIndex(twice, hashed) as index:
        assert [point[:4] for point in index.points] == [point[:4] for point in plain.points]
        for text in ("where is my order", "please stop the order", "deliver the lamp"):
            assert index.recall(text, k=4) == plain.recall(text, k=4)
