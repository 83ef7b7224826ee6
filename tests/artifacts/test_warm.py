"""When the index of the flows is built: by `load` and `bind`, or by the first turn, which is answered in time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, TurnProgram, load, save
from jazzmine_dspy.memory.procedural import FastembedEmbedder
from jazzmine_dspy.memory.procedural.index import FlowIndex
from jazzmine_dspy.models.errors import EmbeddingError

FLOWS = [
    {"name": "track_order", "description": "Tell where an order is.", "examples": ["where is my order"]},
    {"name": "pay_bill", "description": "Pay a bill that is due.", "examples": ["pay my bill"]},
]
TEXT = "has my parcel been sent off"


class Slow(FastembedEmbedder):
    """Takes two seconds for the texts of an index."""

    calls = 0
    fails = False

    def embed(self, texts: Sequence[str]) -> Any:
        self.calls += 1
        if self.fails:
            raise EmbeddingError("no room")
        if len(texts) > 1:
            time.sleep(2.0)
        return super().embed(texts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(
        TurnProgram(FlowRegistry(FLOWS, agent_id="shop")).with_policy("fallback"), tmp_path / "orders"
    )


@pytest.fixture
def slow() -> Slow:
    embedder = Slow()
    embedder.load()
    return embedder


@pytest.mark.row("A1", "P4")
def test_load_builds_the_index(folder: Path, slow: Slow) -> None:
    program = load(folder, embedder=slow)
    assert slow.calls == 1
    assert not program.decide(text=TEXT, deadline=1.0).degraded


@pytest.mark.row("P4")
def test_bind_builds_the_index_and_warm_defers_it(slow: Slow) -> None:
    registry = FlowRegistry(FLOWS, agent_id="shop")
    program = TurnProgram(registry).with_policy("fallback")
    program.bind(embedder=slow, recall=FlowIndex(registry, slow), warm=False)
    assert slow.calls == 0
    program.bind(embedder=slow, recall=FlowIndex(registry, slow))
    assert slow.calls == 1
    assert not program.decide(text=TEXT, deadline=1.0).degraded


@pytest.mark.row("A1", "P4")
@pytest.mark.parametrize("style", ["sync", "async"])
def test_a_turn_before_the_index_is_built_is_answered_in_time(folder: Path, slow: Slow, style: str) -> None:
    program = load(folder, embedder=slow, warm=False)
    assert slow.calls == 0

    async def decide() -> tuple[Any, float]:
        began = time.monotonic()
        if style == "sync":
            decision = await asyncio.to_thread(program.decide, text=TEXT, deadline=0.5)
        else:
            decision = await program.adecide(text=TEXT, deadline=0.5)
        return decision, time.monotonic() - began

    decision, seconds = asyncio.run(decide())
    assert seconds < 1.5
    assert decision.degraded
    program.bindings.recall.build()  # waits for the thread that builds it
    assert not program.decide(text=TEXT, deadline=1.0).degraded


@pytest.mark.row("A1")
def test_an_index_that_cannot_be_built_is_reported_and_loading_goes_on(
    folder: Path, slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    slow.fails = True
    with caplog.at_level(logging.WARNING, "jazzmine_dspy"):
        program = load(folder, embedder=slow)
    assert "the index of the flows is not built yet: EmbeddingError: no room" in caplog.text
    assert program.decide(text=TEXT, deadline=5.0).degraded
