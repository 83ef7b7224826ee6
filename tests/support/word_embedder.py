"""An embedder that needs no model, and flows of a shop, for tests of procedural memory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jazzmine_dspy.models.errors import EmbeddingError
from jazzmine_dspy.models.registry import FlowRegistry

if TYPE_CHECKING:
    from numpy.typing import NDArray

AGENT = "shop"


class WordEmbedder:
    """Unit vectors that add up from the words of a text: texts of common words are near. No model is needed.

    Args:
        size: Length of a vector.
        salt: Another one stands for another model.

    Attributes:
        batches: The texts of every call.
        failing_after: So many further calls succeed; None for all.
    """

    def __init__(self, size: int = 24, salt: str = "") -> None:
        self.size = size
        self.fingerprint = f"words:{size}:{salt}"
        self.batches: list[list[str]] = []
        self.failing_after: int | None = None
        self._words: dict[str, NDArray[np.float64]] = {}

    @property
    def texts(self) -> list[str]:
        """All texts that were embedded."""
        return [text for batch in self.batches for text in batch]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (number of texts, size)."""
        if self.failing_after is not None:
            if self.failing_after < 1:
                raise EmbeddingError("The embedding model was made to fail")
            self.failing_after -= 1
        self.batches.append(list(texts))
        rows = np.zeros((len(texts), self.size))
        for number, text in enumerate(texts):
            for word in (text, *re.findall(r"\w+", text.lower())):
                weight = 0.1 if word == text else 1.0
                rows[number] += weight * self._of(word)
        made: NDArray[np.float32] = np.asarray(
            rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), dtype=np.float32
        )
        return made

    def _of(self, word: str) -> NDArray[np.float64]:
        key = f"{self.fingerprint} {word}"
        if key not in self._words:
            seed = list(hashlib.sha256(key.encode()).digest())
            self._words[key] = np.random.default_rng(seed).normal(size=self.size)
        return self._words[key]


def flow(name: str, **fields: Any) -> dict[str, Any]:
    """A flow of three examples."""
    words = name.replace("_", " ")
    return {
        "name": name,
        "description": f"Do {words} for the user.",
        "examples": [f"I want to {words}", f"{words} please", f"can you {words} now"],
        **fields,
    }


def shop(**changes: dict[str, Any]) -> FlowRegistry:
    """Four flows, one of them composite; ``changes`` are further fields of a flow, by its name."""
    flows = [
        flow("track_order", keywords=["parcel", "delivery"], condition="There is an order."),
        flow("cancel_order", desired_effects=["The order is stopped."]),
        flow("return_item", tools=["returns"]),
        flow("move_house", kind="sequential", subflows=[flow("change_address"), flow("tell_bank")]),
    ]
    return FlowRegistry([{**one, **changes.get(str(one["name"]), {})} for one in flows], agent_id=AGENT)


def without(registry: FlowRegistry, *names: str) -> FlowRegistry:
    """The registry less some flows."""
    kept = [each for name, each in registry.items() if name not in names]
    return FlowRegistry(kept, agent_id=registry.agent_id)
