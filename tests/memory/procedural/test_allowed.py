"""Some flows are allowed: whether the engine filters or the rest is left out afterwards, the ranking is the same."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from jazzmine_dspy.memory.procedural import FlowIndex, QdrantProceduralMemory, ranking
from jazzmine_dspy.memory.procedural.engine import Branch, Hit
from jazzmine_dspy.models.ports import Embedder
from jazzmine_dspy.models.registry import FlowRegistry

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


@pytest.mark.row("F4")
async def test_a_long_list_of_flows_ranks_as_a_filter_does(
    hashed: Embedder, many: FlowRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [(f"{one} {other}", f"flow_{n}", f"c{n % 3}") for n, (one, other) in enumerate(pairwise(WORDS))]
    found: dict[float, list[Any]] = {}
    async with QdrantProceduralMemory(":memory:", embedder=hashed) as memory:
        await memory.sync(many, examples=turns)
        port = memory.port(many)
        with FlowIndex(many, hashed, examples=turns) as index:
            for most in (ranking.MOST, 2.0, 0.0):  # by its size; always by a filter; never
                monkeypatch.setattr(ranking, "MOST", most)
                index.forget()
                found[most] = [
                    [each.recall(text, **asked) for text, asked in _asked(many)] for each in (index, port)
                ]
    assert found[2.0] == found[ranking.MOST] == found[0.0]
    for (_, asked), best in zip(_asked(many), found[0.0][0], strict=True):
        assert {each.name for each in best} <= set(asked["allowed"])
        assert len(best) == min(asked["k"], len(asked["allowed"]))


def test_nearly_all_flows_are_no_filter(
    hashed: Embedder, many: FlowRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter of 999 names takes an embedded engine several times as long as the search itself."""
    with FlowIndex(many, hashed) as index:
        engine, _ = index._built()
        filters: list[Any] = []
        search = engine.search

        def spied(*args: Any, **named: Any) -> list[list[Hit]]:
            filters.append(named["where"])
            return search(*args, **named)

        monkeypatch.setattr(engine, "search", spied)
        index.recall("order", k=5, allowed=list(many)[1:])
        index.recall("order", k=5, allowed=["flow_1", "flow_2"])
    assert filters[0] == {}
    assert filters[-1] == {"flow_name": ("flow_1", "flow_2")}
    assert all(each in (filters[0], filters[-1]) for each in filters)


def test_more_is_asked_for_until_enough_pass() -> None:
    hits = [Hit(str(uuid.UUID(int=number)), 1.0 - number / 1000, {}) for number in range(500)]
    asked: list[int] = []

    def ask(branches: Sequence[Branch], limit: int) -> list[list[Hit]]:
        asked.append(limit)
        return [hits[:limit], hits[:3]]

    last = {hit.id for hit in hits[-40:]}
    late, short = ranking.passing(ask, lambda hit: hit.id in last, failing=460)([Branch(), Branch()], 10)
    assert late == hits[460:480]
    assert short == []
    assert asked == [30, 120, 480]


def test_what_may_not_be_named_and_stands_in_front_is_filtered_out_in_the_end() -> None:
    """Two in five points are barred, and all of them are nearest: asked for ever more of them, it would be slow."""
    hits = [Hit(str(number), 1.0 - number / 10_000, {}) for number in range(10_000)]
    plain: list[int] = []

    def ask(branches: Sequence[Branch], limit: int) -> list[list[Hit]]:
        plain.append(limit)
        return [hits[:limit] for _ in branches]

    def narrowed(branches: Sequence[Branch], limit: int) -> list[list[Hit]]:
        return [hits[4_000 : 4_000 + limit] for _ in branches]

    def passes(hit: Hit) -> bool:
        return int(hit.id) >= 4_000

    words = Branch()
    [found] = ranking.passing(ask, passes, failing=4_000, narrowed=narrowed)([words], 100)
    assert found == hits[4_000:4_100]
    assert plain == [300, 1200]
    [without] = ranking.passing(ask, passes, failing=4_000)([words], 100)
    assert without[:100] == found
    assert max(plain) == 4_800
