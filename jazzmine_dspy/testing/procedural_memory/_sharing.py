"""Several workers on one memory."""

from __future__ import annotations

import asyncio

import pytest

from jazzmine_dspy.memory.procedural.qdrant import QdrantProceduralMemory
from jazzmine_dspy.models.errors import EmbeddingError, MemoryUnavailableError
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.testing.procedural_memory.harness import (
    AGENT,
    Harness,
    Suite,
    WordEmbedder,
    flow,
    names,
    shop,
)


class SharingSuite(Suite):
    """Sharing; for memories whose harness makes a second one on the same data."""

    async def test_one_writes_and_the_other_reads(
        self, harness: Harness, memory: QdrantProceduralMemory
    ) -> None:
        other = harness.another(embedder=WordEmbedder(), layout=harness.layout)
        await memory.sync(shop(), AGENT)
        assert await names(other, "track order", top_k=1) == ["track_order"]
        assert (await other.sync(shop(), AGENT)).skipped == list(shop())
        assert await other.list_flows(AGENT) == await memory.list_flows(AGENT)
        await other.close()

    async def test_a_flow_that_another_brings_is_left_out_until_it_is_known(
        self, harness: Harness, memory: QdrantProceduralMemory
    ) -> None:
        other = harness.another(embedder=WordEmbedder(), layout=harness.layout)
        await memory.sync(shop(), AGENT)
        port = memory.port(shop())
        assert len(port.recall("greet me", k=9)) == len(shop())
        # More texts than a list is long, and all of them nearer than the known flows.
        brought = [flow(f"greet_me_{number}", description="Greet me.") for number in range(50)]
        await other.sync(FlowRegistry([*shop().values(), *brought]), AGENT)
        assert sorted(await names(memory, "greet me", top_k=9)) == sorted(shop())
        assert sorted(one.name for one in port.recall("greet me", k=9)) == sorted(shop())
        memory._reader().forget()
        assert (await names(memory, "greet me", top_k=1))[0].startswith("greet_me")
        await other.close()

    async def test_another_model_of_the_same_length_is_not_met_half_way(
        self, harness: Harness, memory: QdrantProceduralMemory
    ) -> None:
        model = WordEmbedder(salt="new")
        other = harness.another(embedder=model, layout=harness.layout)
        await memory.sync(shop(), AGENT)
        port, old = memory.port(shop()), memory.embedder.fingerprint
        queries = [f"can you {name.replace('_', ' ')} now" for name in shop()]

        def asked() -> list[list[tuple[str, float, tuple[str, ...]]]]:
            found = [port.recall(query, k=2) for query in queries]
            return [[(one.name, one.similarity, one.near) for one in each] for each in found]

        before = asked()
        assert [each[0][1] for each in before] == pytest.approx([1.0] * 4, abs=1e-5)
        model.failing_after = 1  # the texts are written, the manifests are not
        with pytest.raises(EmbeddingError):
            await other.sync(shop(), AGENT)
        assert asked() == before
        model.failing_after = None
        await other.sync(shop(), AGENT)
        with pytest.raises(MemoryUnavailableError, match=rf"another embedding model.*not {old}"):
            port.recall(queries[0], k=2)
        assert other.port(shop()).recall(queries[0], k=1)[0].similarity == pytest.approx(1.0, abs=1e-5)
        await other.close()

    async def test_the_same_flows_at_once_are_stored_once(
        self, harness: Harness, memory: QdrantProceduralMemory
    ) -> None:
        other = harness.another(embedder=WordEmbedder(), layout=harness.layout)
        await asyncio.gather(memory.sync(shop(), AGENT), other.sync(shop(), AGENT))
        assert [each["flow_name"] for each in await memory.list_flows(AGENT)] == sorted(shop())
        assert (await memory.sync(shop(), AGENT)).skipped == list(shop())
        await other.close()
