"""Several memories on one server: what one writes another reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

import qdrant_server
from jazzmine_dspy.memory.procedural import QdrantProceduralMemory
from jazzmine_dspy.models.errors import MemoryUnavailableError
from jazzmine_dspy.models.registry import FlowRegistry
from word_embedder import AGENT, WordEmbedder, flow, shop

ALL = ["track_order", "cancel_order", "return_item", "move_house"]

Shared = Callable[..., QdrantProceduralMemory]


@pytest.fixture(params=["examples", "jazzmine"])
def shared(request: pytest.FixtureRequest, running: qdrant_server.QdrantDouble) -> Shared:
    return partial(QdrantProceduralMemory, running.url, layout=request.param, timeout=30.0)


async def names(memory: QdrantProceduralMemory, query: str, agent: str = AGENT, top_k: int = 3) -> list[str]:
    return [str(one["flow_name"]) for one in await memory.recall(query, agent, top_k=top_k)]


@pytest.mark.row("F3")
async def test_one_writes_and_the_other_reads(shared: Shared) -> None:
    memory, other = (shared(embedder=WordEmbedder()) for _ in range(2))
    await memory.sync(shop(), AGENT)
    assert await names(other, "track order", top_k=1) == ["track_order"]
    assert (await other.sync(shop(), AGENT)).skipped == list(shop())
    assert await other.list_flows(AGENT) == await memory.list_flows(AGENT)
    await memory.close()
    await other.close()


@pytest.mark.row("F3")
async def test_a_flow_that_another_brings_is_left_out_until_it_is_known(shared: Shared) -> None:
    memory, other = (shared(embedder=WordEmbedder()) for _ in range(2))
    await memory.sync(shop(), AGENT)
    port = memory.port(shop())
    assert len(port.recall("greet me", k=9)) == len(shop())
    # More texts than a list is long, and all of them nearer than the known flows.
    brought = [flow(f"greet_me_{number}", description="Greet me.") for number in range(50)]
    await other.sync(FlowRegistry([*shop().values(), *brought]), AGENT)
    assert (await names(memory, "greet me", top_k=1))[0].startswith("greet_me")
    assert sorted(one.name for one in port.recall("greet me", k=9)) == sorted(shop())
    await memory.close()
    await other.close()


@pytest.mark.row("F3")
async def test_the_same_flows_at_once_are_stored_once(shared: Shared) -> None:
    memory, other = (shared(embedder=WordEmbedder()) for _ in range(2))
    await asyncio.gather(memory.sync(shop(), AGENT), other.sync(shop(), AGENT))
    assert [each["flow_name"] for each in await memory.list_flows(AGENT)] == sorted(shop())
    assert (await memory.sync(shop(), AGENT)).skipped == list(shop())
    await memory.close()
    await other.close()


@pytest.mark.row("F3", "F4")
async def test_another_model_is_never_mixed_in(shared: Shared) -> None:
    """A sync with another model that is cut off: what it wrote is not searched with the old one's vectors."""
    old, new = WordEmbedder(), WordEmbedder(salt="new")
    memory, other = shared(embedder=old), shared(embedder=new)
    await memory.sync(shop(), AGENT)
    queries = [f"can you {name.replace('_', ' ')} now" for name in shop()]
    before = [memory.port(shop()).recall(query, k=2) for query in queries]
    assert [each[0].similarity for each in before] == pytest.approx([1.0] * 4, abs=1e-5)
    await other.sync(shop(), AGENT)
    assert other.port(shop()).recall(queries[0], k=1)[0].similarity == pytest.approx(1.0, abs=1e-5)
    memory._stored.clear()
    with pytest.raises(MemoryUnavailableError, match=rf"no flows.*{old.fingerprint}"):
        memory.port(shop()).recall(queries[0], k=2)
    await memory.close()
    await other.close()


@pytest.mark.row("F4")
async def test_a_collection_that_is_removed_is_reported(running: qdrant_server.QdrantDouble) -> None:
    async with QdrantProceduralMemory(running.url, embedder=WordEmbedder(), timeout=30.0) as memory:
        await memory.sync(shop(), AGENT)
        running.client.delete_collection("jazzmine_flow_examples")
        with pytest.raises(MemoryUnavailableError, match=r"[Ss]ync"):
            memory.port(shop()).recall("track order", k=1)
        assert (await memory.sync(shop(), AGENT)).created == list(shop())
        assert memory.port(shop()).recall("track order", k=1)[0].name == "track_order"
