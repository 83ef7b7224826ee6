"""Flows are recalled: of one agent, in one ranking, as jazzmine asks and as programs do."""

from __future__ import annotations

import asyncio
import copy
import logging
import random
from typing import Any

import pytest

from jazzmine_dspy.memory.procedural.qdrant import QdrantProceduralMemory
from jazzmine_dspy.memory.procedural.ranking import Settings
from jazzmine_dspy.memory.procedural.recall import FlowIndex
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.testing.procedural_memory.harness import (
    AGENT,
    Suite,
    WordEmbedder,
    flow,
    names,
    shop,
    without,
)

_WORDS = (
    "order", "track", "cancel", "return", "item", "house", "move", "parcel", "address", "bank", "please", "the", "lamp",
)  # fmt: skip


class RecallSuite(Suite):
    """Recall."""

    async def test_it_answers_in_jazzmines_shape(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(shop(), AGENT)
        found = await memory.recall("please track my order", AGENT)
        assert len(found) == 3
        assert found[0]["flow_name"] == "track_order"
        assert set(found[0]) == {
            "flow_id", "flow_name", "flow_type", "description", "condition", "agent_id", "score",
        }  # fmt: skip
        assert (found[0]["condition"], found[0]["agent_id"]) == ("There is an order.", AGENT)
        assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)
        [house] = await memory.recall("move house", AGENT, top_k=1)
        assert house["flow_type"] == "sequentialflow"
        assert len(await memory.recall("order", AGENT, top_k=100)) == 4

    async def test_rrf_k_is_really_applied(self, memory: QdrantProceduralMemory) -> None:
        one = FlowRegistry([{"name": "greet", "description": "Say hello."}], agent_id=AGENT)
        await memory.sync(one, AGENT)
        for rrf_k in (1, 10, 60):
            [found] = await memory.recall("say hello", AGENT, rrf_k=rrf_k)
            assert found["score"] == pytest.approx(2 / rrf_k)
        with pytest.raises(InputError):
            await memory.recall("say hello", AGENT, rrf_k=0)
        with pytest.raises(InputError):
            await memory.recall("say hello", AGENT, top_k=0)

    async def test_weights_are_really_applied(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(FlowRegistry([{"name": "greet", "description": "Say hello."}]), AGENT)
        registry = FlowRegistry([{"name": "greet", "description": "Say hello."}])
        for dense, sparse in ((1.0, 0.0), (0.0, 1.0), (2.0, 0.5)):
            port = memory.port(registry, AGENT, settings=Settings(dense=dense, sparse=sparse))
            [found] = port.recall("say hello", k=1)
            wanted = sum(1 / (1 / weight + 9) for weight in (dense, sparse) if weight)
            assert found.score == pytest.approx(wanted)

    async def test_the_agent_is_a_filter_inside_of_each_list(self, memory: QdrantProceduralMemory) -> None:
        crowd = FlowRegistry([flow(f"track_order_{number}") for number in range(40)])
        await memory.sync(crowd, "crowd")
        await memory.sync(shop(), AGENT)
        # All 160 texts of the other agent are nearer than the fourth flow of this one.
        assert (await names(memory, "track order", top_k=4))[0] == "track_order"
        assert sorted(await names(memory, "track order", top_k=4)) == sorted(shop())
        assert await memory.recall("track order", "nobody") == []

    async def test_it_ranks_as_the_embedded_index_does(
        self, memory: QdrantProceduralMemory, embedder: WordEmbedder
    ) -> None:
        await memory.sync(shop(), AGENT)
        port = memory.port(shop(), AGENT)
        draw = random.Random(4)
        with FlowIndex(shop(), embedder, engine="local") as index:
            for _ in range(40):
                query = " ".join(draw.choices(_WORDS, k=draw.randint(1, 5)))
                asked: dict[str, Any] = {
                    "k": draw.randint(1, 5),
                    "summaries": draw.choices(_WORDS, k=2) if draw.random() < 0.3 else (),
                    "allowed": draw.sample(list(shop()), 2) if draw.random() < 0.3 else None,
                }
                ours, wanted = port.recall(query, **asked), index.recall(query, **asked)
                assert [one.name for one in ours] == [one.name for one in wanted], query
                for one, other in zip(ours, wanted, strict=True):
                    assert one[1:4] == pytest.approx(other[1:4], abs=1e-5)
                    assert one.near == other.near

    async def test_the_port_keeps_to_the_registry(
        self, memory: QdrantProceduralMemory, caplog: pytest.LogCaptureFixture
    ) -> None:
        await memory.sync(shop(), AGENT)
        fewer = without(shop(cancel_order={"priority": 9}), "track_order")
        more = FlowRegistry([*fewer.values(), flow("new_one")], agent_id=AGENT)
        port = memory.port(more, AGENT)
        with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
            for _ in range(3):
                assert "track_order" not in [one.name for one in port.recall("track order", k=9)]
        assert port.stale == frozenset({"track_order"})
        assert port.missing == frozenset({"new_one"})
        assert port.outdated == frozenset({"cancel_order"})
        told = [
            text for text in (record.getMessage() for record in caplog.records) if text.startswith("memory ")
        ]
        assert [text for text in told if "registry has not" in text] == [
            "memory holds flows that the registry has not: track_order"
        ]
        assert len(told) == 3

    async def test_the_port_takes_k_and_allowed(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(shop(), AGENT)
        port = memory.port(shop())
        assert port.agent_id == AGENT
        assert len(port.recall("order", k=99)) == 4
        assert port.recall("order", k=0) == port.recall("order", k=3, allowed=[]) == []
        assert [one.name for one in port.recall("track order", k=3, allowed={"return_item", "x"})] == [
            "return_item"
        ]
        assert await port.arecall("track order", k=2) == port.recall("track order", k=2)
        assert copy.deepcopy(port) is port

    async def test_the_port_says_where_nothing_was_synced(self, memory: QdrantProceduralMemory) -> None:
        with pytest.raises(MemoryUnavailableError, match=r"holds no flows of agent 'shop'.*[Ss]ync"):
            memory.port(shop()).recall("track order", k=1)
        await memory.sync(shop(), AGENT)
        assert memory.port(shop()).recall("track order", k=1)[0].name == "track_order"

    async def test_the_fingerprint_follows_what_is_stored(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(shop(), AGENT)
        port = memory.port(shop())
        port.recall("track order", k=1)
        before = port.fingerprint
        port.recall("cancel order", k=2)
        assert port.fingerprint == before
        await memory.sync(shop(return_item={"examples": ["send it back"]}), AGENT)
        port.recall("track order", k=1)
        assert port.fingerprint != before
        other = memory.port(shop(), settings=Settings(rrf_k=11))
        other.recall("track order", k=1)
        assert other.fingerprint != port.fingerprint

    async def test_a_collection_that_is_removed_is_noticed(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(shop(), AGENT)
        port = memory.port(shop())
        port.recall("track order", k=1)
        reader = memory._reader()
        for name in reader.engine.collections():
            reader.engine.drop(name)
        with pytest.raises(MemoryUnavailableError, match=r"[Ss]ync"):
            port.recall("track order", k=1)
        assert (await memory.sync(shop(), AGENT)).created == list(shop())
        assert port.recall("track order", k=1)[0].name == "track_order"

    async def test_many_ask_at_once(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(shop(), AGENT)
        port = memory.port(shop())
        queries = ["track order", "cancel order", "return item", "move house"] * 6
        found = await asyncio.gather(*(port.arecall(query, k=1) for query in queries))
        assert [one[0].name.replace("_", " ") for one in found] == queries

    async def test_a_closed_memory_says_so(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(shop(), AGENT)
        port = memory.port(shop())
        await memory.close()
        await memory.close()
        with pytest.raises(MemoryUnavailableError, match="closed"):
            port.recall("track order", k=1)
        with pytest.raises(MemoryUnavailableError, match="closed"):
            await memory.sync(shop(), AGENT)
