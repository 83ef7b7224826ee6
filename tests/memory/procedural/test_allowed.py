"""Some flows are allowed: the ranking is that of all flows with the others left out."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from jazzmine_dspy.memory.procedural import FlowIndex, QdrantProceduralMemory, RecallSettings
from jazzmine_dspy.memory.procedural.ranking import RankedLists
from jazzmine_dspy.models.ports import Embedder
from jazzmine_dspy.models.registry import FlowRegistry

DEEP = RecallSettings(depth=1000)
WORDS = ("order", "parcel", "lamp", "rug", "send", "back", "cancel", "address", "house", "broken", "arrive")


@pytest.fixture(scope="module")
def many() -> FlowRegistry:
    draw = random.Random(1)
    return FlowRegistry(
        [
            {
                "name": f"flow_{number}",
                "description": " ".join(draw.choices(WORDS, k=3)),
                # Some flows hold many of the points.
                "examples": [" ".join(draw.choices(WORDS, k=3)) for _ in range(1 + 4 * (number % 5))],
            }
            for number in range(30)
        ],
        agent_id="shop",
    )


def _asked(many: FlowRegistry) -> list[tuple[str, dict[str, Any]]]:
    draw = random.Random(2)
    return [
        (
            " ".join(draw.choices(WORDS, k=2)),
            {
                "k": draw.choice([1, 5, 30]),
                "allowed": draw.sample(list(many), draw.choice([1, 5, 15, 22, 29, 30])),
                "summaries": ["my rug"] if draw.random() < 0.3 else [],
                "exclude": ["c1"] if draw.random() < 0.3 else [],
            },
        )
        for _ in range(60)
    ]


def _hidden(index: FlowIndex, text: str, asked: dict[str, Any]) -> list[Any]:
    """The same answer without a filter in the engine: all points, of which some are dropped."""
    lists = index.lists(text, summaries=asked["summaries"], exclude=asked["exclude"], depth=10_000)
    kept = [[hit for hit in hits if index._info(hit).flow in asked["allowed"]] for hits in lists]
    return index.ranked(RankedLists(*kept), k=min(asked["k"], len(asked["allowed"])))


@pytest.mark.row("F4")
async def test_a_long_list_of_flows_ranks_as_a_filter_does(hashed: Embedder, many: FlowRegistry) -> None:
    turns = [(f"{one} {other}", f"flow_{n}", f"c{n % 3}") for n, (one, other) in enumerate(pairwise(WORDS))]
    async with QdrantProceduralMemory(":memory:", embedder=hashed) as memory:
        await memory.sync(many, examples=turns)
        port = memory.port(many, examples=turns, settings=DEEP)
        with FlowIndex(many, hashed, examples=turns, settings=DEEP) as index:
            for text, asked in _asked(many):
                found = index.recall(text, **asked)
                assert found == _hidden(index, text, asked)
                assert port.recall(text, **asked) == found
                assert {each.name for each in found} <= set(asked["allowed"])
                assert len(found) == min(asked["k"], len(asked["allowed"]))
