"""What the decision cache saves: calls for the first turns of 1,000 conversations, and the time of a hit."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.program.decision_cache import DecisionCache
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

pytestmark = pytest.mark.bench
ROOT = Path(__file__).resolve().parents[2]
CONVERSATIONS = 1_000
ANSWER = {
    "enhanced_query": "Hello.", "sentiment_score": 0.0, "intent": "greeting", "entities": [], "flows": [],
    "is_cancellation": False, "is_continuation": True, "commands": [{"type": "chitchat"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def first_turns() -> list[Turn]:
    """The first turns of 1,000 conversations: those of the shipped dataset, again and again."""
    examples = load_dataset(ROOT / "datasets" / "support").examples("train")
    first = list({example.conversation_id: example.turn for example in reversed(examples)}.values())
    return list(itertools.islice(itertools.cycle(first), CONVERSATIONS))


@pytest.fixture
def asked() -> tuple[TurnProgram, Any, DecisionCache]:
    """A program whose every turn asks a (scripted) language model once, its model and its cache."""
    lm, cache = scripted_lm(lambda _: json.dumps(ANSWER)), DecisionCache()
    flows = FlowRegistry.from_yaml(ROOT / "datasets" / "support" / "flows.yaml")
    program = TurnProgram(flows, policy=Policy(shape="fused").named("lm"))
    return program.bind(lm=lm, cache=cache, recall=FlowIndex(flows, FastembedEmbedder())), lm.engine, cache


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "at once"])
def test_first_turns_of_a_thousand_conversations(
    benchmark: Any, first_turns: list[Turn], asked: tuple[TurnProgram, Any, DecisionCache], together: bool
) -> None:
    """All of them: one decision for each distinct turn; a few of these call twice, for a refused part."""
    program, engine, cache = asked

    async def all_at_once() -> None:
        await asyncio.gather(*(program.adecide(turn, deadline=None) for turn in first_turns))

    def run() -> None:
        if together:
            asyncio.run(all_at_once())
            return
        for turn in first_turns:
            program.decide(turn, deadline=None)

    benchmark.pedantic(run, rounds=1)
    distinct, stats = len({turn.digest for turn in first_turns}), cache.stats()
    benchmark.extra_info |= {
        "calls": len(engine.requests),
        "distinct turns": distinct,
        "hit rate": stats.hit_rate,
    }
    assert stats.misses == distinct
    assert distinct <= len(engine.requests) <= 1.1 * distinct
    assert stats.hits + stats.shared == CONVERSATIONS - distinct


def test_hit(benchmark: Any, first_turns: list[Turn], asked: tuple[TurnProgram, Any, DecisionCache]) -> None:
    """One turn that is in the cache; next to it the same within an event loop, as a runtime asks."""
    program, _, cache = asked
    turns = itertools.cycle(first_turns)
    for turn in first_turns:
        program.decide(turn, deadline=None)
    missed, times = cache.stats().misses, []

    async def hits() -> None:
        for turn in itertools.islice(turns, 500):
            begun = time.perf_counter()
            await program.adecide(turn, deadline=None)
            times.append((time.perf_counter() - begun) * 1000)

    benchmark.pedantic(lambda: program.decide(next(turns), deadline=None), rounds=500, warmup_rounds=10)
    # Not by the benchmark itself, which would time the entering of a loop as well.
    asyncio.run(hits())
    p50 = statistics.median(times)
    benchmark.extra_info |= {"in a loop, p50 ms": f"{p50:.2f}"}
    assert cache.stats().misses == missed
