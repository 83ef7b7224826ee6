"""What the tests of the program share: a shop's flows, recall by shared words, and scripted answers by prompt."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import dspy
import numpy as np
import pytest
from dspy.lm15 import Request

from jazzmine_dspy.lm.engines import response_schema, scripted_lm, system_text, user_text
from jazzmine_dspy.models import FlowRegistry
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import HeadInput, Recalled, SelectionOutput
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures import CONTRACTS

ORDER = {"name": "order_id", "type": "text", "pattern": r"\d{4}", "description": "Four digits"}
FLOWS: list[dict[str, Any]] = [
    {
        "name": "track_order", "description": "Tell where an order is.", "condition": "An order is under way.",
        "desired_effects": ["The customer knows the day."], "category": "orders", "keywords": ["where", "parcel"],
        "examples": ["where is my order", "where is the delivery"], "slots": [ORDER],
    },
    {
        "name": "cancel_order", "description": "Call off an order.", "condition": "An order is not wanted.",
        "desired_effects": ["Nothing is charged."], "category": "orders", "keywords": ["cancel"],
        "examples": ["cancel my order"], "slots": [ORDER], "confirm": "Cancel {order_id}?",
    },
    {
        "name": "change_shipping", "description": "Ship an order in another way.", "category": "shipping",
        "examples": ["make it express"],
        "slots": [ORDER, {"name": "speed", "type": "choice", "options": ["standard", "express"]}],
    },
    {
        "name": "gift_card", "description": "Sell a gift card.", "examples": ["buy a gift card"],
        "slots": [{"name": "amount", "type": "money"}, {"name": "wrapped", "type": "boolean", "required": False}],
    },
    {"name": "opening_hours", "description": "Tell when the shop is open.", "examples": ["when are you open"]},
]  # fmt: skip

ENHANCED: dict[str, Any] = {
    "enhanced_query": "Where is order 4471?",
    "sentiment_score": -0.3,
    "intent": "track_order",
    "entities": [{"name": "Order 4471", "attributes": ["late"]}],
    "is_cancellation": False,
    "is_continuation": True,
}


class Overlap:
    """Recall by shared words: the best example's Jaccard similarity is a flow's score."""

    def __init__(self, registry: FlowRegistry, *, down: str = "") -> None:
        self.registry = registry
        self.down = down
        self.asked: list[dict[str, Any]] = []

    @property
    def fingerprint(self) -> str:
        return f"overlap {self.registry.checksum}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Overlap:
        return self

    def recall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        self.asked.append(
            {"query": query, "summaries": tuple(summaries), "allowed": allowed, "exclude": exclude}
        )
        if self.down:
            raise MemoryUnavailableError(self.down)
        asked = _words(query)
        found = [
            Recalled(flow.name, max(len(asked & _words(e)) / len(asked | _words(e)) for e in flow.examples))
            for flow in self.registry.values()
            if allowed is None or flow.name in allowed
        ]
        return sorted(found, key=lambda one: -one.score)[:k]


class Letters:
    """An embedder of letters: a row counts those of a text. Never the same for two words of a test."""

    fingerprint = "letters 1"
    size = feature_size = 27

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Letters:
        return self

    def embed(self, texts: Sequence[str]) -> Any:
        rows = self._rows(texts)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def features(self, texts: Sequence[str]) -> Any:
        self.asked.append(tuple(texts))
        return self._rows(texts)

    def _rows(self, texts: Sequence[str]) -> Any:
        letters = "abcdefghijklmnopqrstuvwxyz"
        counts = [[1, *(text.lower().count(letter) for letter in letters)] for text in texts]
        return np.array(counts, dtype=np.float32)


class Judge:
    """A head that says what a test wants it to: a judgement, or a function of what it sees."""

    def __init__(self, says: Any, parts: Sequence[str] = (), name: str = "judge") -> None:
        self.says = says
        self.fingerprint = name
        self.labels: tuple[str, ...] = ("none",)
        self.seen: list[HeadInput] = []
        self._parts = tuple(parts)

    def __deepcopy__(self, memo: dict[int, Any]) -> Judge:
        return self

    def texts(self, message: str) -> tuple[str, ...]:
        return (message, *self._parts)

    def predict(self, given: HeadInput) -> SelectionOutput:
        self.seen.append(given)
        said: SelectionOutput = self.says(given) if callable(self.says) else self.says
        return said


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) or {""}


def predictor_of(request: Request) -> str:
    """Which of the four prompts a request is."""
    text = system_text(request)
    ends = "\nAnswer as JSON:"
    return next(name for name, c in CONTRACTS.items() if text.startswith(c.signature.instructions + ends))


def choose(request: Request) -> str:
    """An answer that the schema of the request allows, drawn by the hash of what is asked."""
    schema = response_schema(request)
    assert schema is not None
    seed = iter(range(10**6))

    def draw(count: int) -> int:
        text = f"{next(seed)} {predictor_of(request)} {user_text(request)}"
        return int(hashlib.sha256(text.encode()).hexdigest(), 16) % count

    def fill(part: dict[str, Any]) -> Any:
        if "anyOf" in part:
            return fill(part["anyOf"][draw(len(part["anyOf"]))])
        if "enum" in part:
            return part["enum"][draw(len(part["enum"]))]
        if isinstance(part["type"], list):
            return fill({"type": part["type"][draw(len(part["type"]))]})
        if part["type"] == "object":
            return {name: fill(inner) for name, inner in part["properties"].items()}
        if part["type"] == "array":
            return [
                fill(part["items"])
                for _ in range(draw(3) if part.get("items", {}) != {"type": "string"} else 0)
            ]
        if part["type"] == "boolean":
            return draw(2) == 0
        return draw(9) if part["type"] == "number" else f"said {draw(99)}"

    return json.dumps(fill(schema))


@pytest.fixture
def registry() -> FlowRegistry:
    return FlowRegistry(FLOWS, agent_id="shop")


@pytest.fixture
def overlap() -> type[Overlap]:
    return Overlap


@pytest.fixture
def judge() -> type[Judge]:
    return Judge


@pytest.fixture
def letters() -> type[Letters]:
    return Letters


@pytest.fixture
def asked_of() -> Callable[[Request], str]:
    return predictor_of


@pytest.fixture
def enhanced() -> dict[str, Any]:
    return dict(ENHANCED)


@pytest.fixture
def any_answer() -> Callable[[Request], str]:
    return choose


Speak = Callable[..., dspy.LM]


@pytest.fixture
def speak() -> Speak:
    """A model with an answer for each prompt: an object, a text, an exception, or a function of the request.

    With ``again`` it is asked once more for parts that are refused: most tests care little how true a rewrite is.
    """

    def make(schema: bool = True, again: bool = False, **answers: Any) -> dspy.LM:
        nothing: dict[str, Any] = {
            "enhance": ENHANCED,
            "select": {"flows": []},
            "understand": {"commands": []},
            "fused": {**ENHANCED, "flows": [], "commands": []},
        }
        known = nothing | answers

        def script(request: Request) -> Any:
            answer = known[predictor_of(request)]
            answer = answer(request) if callable(answer) else answer
            if isinstance(answer, dict) and "enhanced_query" in answer and answer.get("flows"):
                # One prompt for everything has the letters among the commands.
                answer = {**answer, "commands": [*answer["flows"], *answer["commands"]]}
            return answer if isinstance(answer, str | BaseException) else json.dumps(answer)

        lm = scripted_lm(script, schema=schema)
        lm.engine.asks_again = again
        return lm

    return make


@pytest.fixture
def make_program(registry: FlowRegistry) -> Callable[..., TurnProgram]:
    """A program that asks the language model alone, its recall by shared words bound."""

    def make(lm: Any, shape: Any = "staged", recall: Any = None, **policy: Any) -> TurnProgram:
        program = TurnProgram(registry, policy=Policy(shape=shape, **policy).named("lm"))
        return program.bind(recall=recall or Overlap(registry), lm=lm)

    return make
