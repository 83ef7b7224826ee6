"""Several workers on one memory."""

from __future__ import annotations

import asyncio

from jazzmine_dspy.memory.procedural.conformance.harness import (
    AGENT,
    Harness,
    Suite,
    WordEmbedder,
    names,
    shop,
)
from jazzmine_dspy.memory.procedural.qdrant import QdrantProceduralMemory


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

    async def test_the_same_flows_at_once_are_stored_once(
        self, harness: Harness, memory: QdrantProceduralMemory
    ) -> None:
        other = harness.another(embedder=WordEmbedder(), layout=harness.layout)
        await asyncio.gather(memory.sync(shop(), AGENT), other.sync(shop(), AGENT))
        assert [each["flow_name"] for each in await memory.list_flows(AGENT)] == sorted(shop())
        assert (await memory.sync(shop(), AGENT)).skipped == list(shop())
        await other.close()
