"""Procedural memory in this process and on a server, in both layouts."""

from __future__ import annotations

import asyncio
import copy
import logging
import random
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

import qdrant_server
from jazzmine_dspy.memory.errors import DimensionError, NotStoredError
from jazzmine_dspy.memory.procedural import FlowIndex, QdrantProceduralMemory, RecallSettings
from jazzmine_dspy.models.errors import EmbeddingError, FlowError, InputError, MemoryUnavailableError
from jazzmine_dspy.models.registry import FlowRegistry
from word_embedder import AGENT, WordEmbedder, flow, shop, without

ALL = ["track_order", "cancel_order", "return_item", "move_house"]


class Harness(NamedTuple):
    """Where memories are made: in this process or on a server, and a layout."""

    where: str
    layout: Any

    def make(self, **settings: Any) -> QdrantProceduralMemory:
        settings = {"layout": self.layout, "timeout": 30.0, **settings}
        return QdrantProceduralMemory(self.where, **settings)


@pytest.fixture(params=["examples", "jazzmine", "server"])
def harness(request: pytest.FixtureRequest) -> Harness:
    if request.param == "server":
        return Harness(request.getfixturevalue("running").url, "examples")
    return Harness(":memory:", request.param)


@pytest.fixture(params=["examples", "jazzmine"])
def shared(request: pytest.FixtureRequest, running: qdrant_server.QdrantDouble) -> Harness:
    return Harness(running.url, request.param)


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
async def memory(harness: Harness, embedder: WordEmbedder) -> AsyncIterator[QdrantProceduralMemory]:
    async with harness.make(embedder=embedder) as memory:
        yield memory


async def names(memory: QdrantProceduralMemory, query: str, agent: str = AGENT, top_k: int = 3) -> list[str]:
    return [str(one["flow_name"]) for one in await memory.recall(query, agent, top_k=top_k)]


@pytest.mark.row("F3")
async def test_flows_are_created_and_then_skipped(
    memory: QdrantProceduralMemory, embedder: WordEmbedder
) -> None:
    first = await memory.sync(shop(), AGENT)
    assert (first.created, first.updated, first.deleted, first.skipped) == (ALL, [], [], [])
    embedder.batches.clear()
    again = await memory.sync(shop(), AGENT)
    assert (again.created, again.updated, again.deleted, again.skipped) == ([], [], [], ALL)
    assert embedder.batches == []


@pytest.mark.row("F3")
async def test_only_what_differs_is_embedded(memory: QdrantProceduralMemory, embedder: WordEmbedder) -> None:
    await memory.sync(shop(), AGENT)
    embedder.batches.clear()
    changed = shop(return_item={"examples": ["I want to return item", "this lamp is broken"]})
    report = await memory.sync(changed, AGENT)
    assert (report.updated, report.skipped) == (
        ["return_item"],
        ["track_order", "cancel_order", "move_house"],
    )
    assert "this lamp is broken" in embedder.texts
    assert "I want to return item" not in embedder.texts
    assert [text for text in embedder.texts if "order" in text] == []
    assert (await names(memory, "the lamp is broken"))[0] == "return_item"


@pytest.mark.row("F3")
async def test_every_part_of_a_flow_counts(memory: QdrantProceduralMemory) -> None:
    await memory.sync(shop(), AGENT)
    deeper = [flow("change_address"), flow("tell_bank", tools=["bank"])]
    for name, field, value in [
        ("move_house", "subflows", deeper),
        ("cancel_order", "desired_effects", ["The money is back."]),
        ("return_item", "priority", 3),
        ("track_order", "condition", "An order was placed."),
        ("track_order", "keywords", ["parcel"]),
    ]:
        report = await memory.sync(shop(**{name: {field: value}}), AGENT)
        assert name in report.updated, field
        await memory.sync(shop(), AGENT)


@pytest.mark.row("F3")
async def test_flows_that_are_gone_are_deleted(memory: QdrantProceduralMemory) -> None:
    await memory.sync(shop(), AGENT)
    report = await memory.sync(without(shop(), "track_order", "move_house"), AGENT)
    assert (report.deleted, report.skipped) == (
        ["move_house", "track_order"],
        ["cancel_order", "return_item"],
    )
    assert sorted(await names(memory, "track order", top_k=9)) == ["cancel_order", "return_item"]
    report = await memory.sync(FlowRegistry(), AGENT)
    assert report.deleted == ["cancel_order", "return_item"]
    assert await memory.list_flows(AGENT) == []
    assert await memory.recall("track order", AGENT) == []


@pytest.mark.row("F3")
async def test_ids_outlive_edits(memory: QdrantProceduralMemory) -> None:
    await memory.sync(shop(), AGENT)
    before = {each["flow_name"]: each for each in await memory.list_flows(AGENT)}
    await memory.sync(shop(return_item={"description": "Send it back."}), AGENT)
    after = {each["flow_name"]: each for each in await memory.list_flows(AGENT)}
    assert list(after) == sorted(ALL)
    assert {name: each["flow_id"] for name, each in after.items()} == {
        name: each["flow_id"] for name, each in before.items()
    }
    assert [name for name in ALL if before[name]["checksum"] != after[name]["checksum"]] == ["return_item"]


@pytest.mark.row("F3")
async def test_agents_do_not_touch_each_other(memory: QdrantProceduralMemory) -> None:
    bank = FlowRegistry([flow("block_card"), flow("find_branch")])
    await memory.sync(shop(), AGENT)
    await memory.sync(bank, "bank")
    assert sorted(await names(memory, "track order", "bank", top_k=9)) == ["block_card", "find_branch"]
    report = await memory.sync(FlowRegistry(), AGENT)
    assert report.deleted == sorted(ALL)
    assert [each["flow_name"] for each in await memory.list_flows("bank")] == [
        "block_card",
        "find_branch",
    ]
    assert await memory.list_flows(AGENT) == []


@pytest.mark.row("F3")
async def test_a_dry_run_tells_and_does_nothing(
    memory: QdrantProceduralMemory, embedder: WordEmbedder
) -> None:
    assert (await memory.sync(shop(), AGENT, dry_run=True)).created == ALL
    assert await memory.list_flows(AGENT) == []
    await memory.sync(shop(), AGENT)
    embedder.batches.clear()
    report = await memory.sync(
        without(shop(cancel_order={"priority": 1}), "return_item"), AGENT, dry_run=True
    )
    assert (report.updated, report.deleted) == (["cancel_order"], ["return_item"])
    assert (await memory.sync(shop(), AGENT)).skipped == ALL
    assert embedder.batches == []


@pytest.mark.row("F3")
@pytest.mark.parametrize("done", [0, 1, 2])
async def test_a_sync_that_was_cut_off_is_completed_by_the_next(
    memory: QdrantProceduralMemory, embedder: WordEmbedder, done: int
) -> None:
    many = FlowRegistry([flow(f"task_{number}") for number in range(40)], agent_id=AGENT)
    embedder.failing_after = done
    with pytest.raises(EmbeddingError):
        await memory.sync(many, AGENT)
    embedder.failing_after = None
    report = await memory.sync(many, AGENT)
    assert sorted(report.created + report.updated + report.skipped) == sorted(many)
    assert max(map(len, embedder.batches)) <= 64
    assert len(await memory.list_flows(AGENT)) == 40
    embedder.batches.clear()
    assert (await memory.sync(many, AGENT)).skipped == list(many)
    assert embedder.batches == []


@pytest.mark.row("F3")
async def test_another_model_makes_all_points_anew(
    memory: QdrantProceduralMemory, embedder: WordEmbedder
) -> None:
    await memory.sync(shop(), AGENT)
    embedder.batches.clear()
    embedder.fingerprint = "words:24:another"
    port = memory.port(shop(), AGENT)
    memory._stored.clear()
    with pytest.raises(MemoryUnavailableError, match=r"no flows of agent .shop.*words:24:another.*Sync"):
        port.recall("track order", k=1)
    assert (await memory.sync(shop(), AGENT)).updated == ALL
    assert "I want to track order" in embedder.texts
    again = memory.port(shop(), AGENT)
    assert again.recall("I want to track order", k=1)[0].name == "track_order"


@pytest.mark.row("F3")
async def test_vectors_of_another_length_are_refused(shared: Harness) -> None:
    memory, wider = shared.make(embedder=WordEmbedder()), shared.make(embedder=WordEmbedder(size=25))
    await memory.sync(shop(), AGENT)
    listed = await memory.list_flows(AGENT)
    with pytest.raises(DimensionError, match=r"2[45].*prefix"):
        await wider.sync(shop(), AGENT)
    assert await memory.list_flows(AGENT) == listed
    assert (await memory.sync(shop(), AGENT)).skipped == ALL
    await memory.close()
    await wider.close()


@pytest.mark.row("F3")
async def test_a_flow_is_deleted_by_its_id(memory: QdrantProceduralMemory) -> None:
    await memory.sync(shop(), AGENT)
    ids = {each["flow_name"]: each["flow_id"] for each in await memory.list_flows(AGENT)}
    await memory.delete_flow(ids["cancel_order"])
    assert "cancel_order" not in await names(memory, "cancel order please", top_k=9)
    with pytest.raises(NotStoredError):
        await memory.delete_flow(ids["cancel_order"])
    report = await memory.sync(shop(), AGENT)
    assert (report.created, report.updated) == (["cancel_order"], [])


@pytest.mark.row("F3")
async def test_further_examples_are_kept_with_their_conversations(memory: QdrantProceduralMemory) -> None:
    further = [("hand me my coat", "return_item", "c1"), ("hand me my coat", "return_item", "c2")]
    await memory.sync(shop(), AGENT, examples=further)
    assert (await memory.sync(shop(), AGENT, examples=further)).skipped == ALL
    port = memory.port(shop(), AGENT)
    assert port.recall("hand me my coat", k=1)[0].name == "return_item"
    assert port.recall("hand me my coat", k=1, exclude={"c1"})[0].similarity == pytest.approx(1.0, abs=1e-5)
    assert port.recall("hand me my coat", k=1, exclude={"c1", "c2"})[0].similarity < 0.95
    with pytest.raises(FlowError, match="unknown flow"):
        await memory.sync(shop(), AGENT, examples=[("a", "b", "c")])


WORDS = (
"order", "track", "cancel", "return", "item", "house", "move", "parcel", "address", "bank", "please", "the", "lamp",
)  # fmt: skip


@pytest.mark.row("F4", "F14")
async def test_it_answers_in_jazzmines_shape(memory: QdrantProceduralMemory) -> None:
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


@pytest.mark.row("F4", "F14")
async def test_rrf_k_is_really_applied(memory: QdrantProceduralMemory) -> None:
    one = FlowRegistry([{"name": "greet", "description": "Say hello."}], agent_id=AGENT)
    await memory.sync(one, AGENT)
    for rrf_k in (1, 10, 60):
        [found] = await memory.recall("say hello", AGENT, rrf_k=rrf_k)
        assert found["score"] == pytest.approx(2 / rrf_k)
    with pytest.raises(InputError):
        await memory.recall("say hello", AGENT, rrf_k=0)
    with pytest.raises(InputError):
        await memory.recall("say hello", AGENT, top_k=0)


@pytest.mark.row("F4", "F14")
async def test_weights_are_really_applied(memory: QdrantProceduralMemory) -> None:
    await memory.sync(FlowRegistry([{"name": "greet", "description": "Say hello."}]), AGENT)
    registry = FlowRegistry([{"name": "greet", "description": "Say hello."}])
    for dense, sparse in ((1.0, 0.0), (0.0, 1.0), (2.0, 0.5)):
        port = memory.port(registry, AGENT, settings=RecallSettings(dense=dense, sparse=sparse))
        [found] = port.recall("say hello", k=1)
        wanted = sum(1 / (1 / weight + 9) for weight in (dense, sparse) if weight)
        assert found.score == pytest.approx(wanted)


@pytest.mark.row("F4", "F14")
async def test_the_agent_is_a_filter_inside_of_each_list(memory: QdrantProceduralMemory) -> None:
    crowd = FlowRegistry([flow(f"track_order_{number}") for number in range(40)])
    await memory.sync(crowd, "crowd")
    await memory.sync(shop(), AGENT)
    # All 160 texts of the other agent are nearer than the fourth flow of this one.
    assert (await names(memory, "track order", top_k=4))[0] == "track_order"
    assert sorted(await names(memory, "track order", top_k=4)) == sorted(shop())
    assert await memory.recall("track order", "nobody") == []


@pytest.mark.row("F4", "F14")
async def test_it_ranks_as_the_embedded_index_does(
    memory: QdrantProceduralMemory, embedder: WordEmbedder
) -> None:
    await memory.sync(shop(), AGENT)
    port = memory.port(shop(), AGENT)
    draw = random.Random(4)
    with FlowIndex(shop(), embedder) as index:
        for _ in range(40):
            query = " ".join(draw.choices(WORDS, k=draw.randint(1, 5)))
            asked: dict[str, Any] = {
                "k": draw.randint(1, 5),
                "summaries": draw.choices(WORDS, k=2) if draw.random() < 0.3 else (),
                "allowed": draw.sample(list(shop()), 2) if draw.random() < 0.3 else None,
            }
            ours, wanted = port.recall(query, **asked), index.recall(query, **asked)
            assert [one.name for one in ours] == [one.name for one in wanted], query
            for one, other in zip(ours, wanted, strict=True):
                assert one[1:4] == pytest.approx(other[1:4], abs=1e-5)
                assert one.near == other.near


@pytest.mark.row("F4", "F14")
async def test_the_port_keeps_to_the_registry(
    memory: QdrantProceduralMemory, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.sync(shop(), AGENT)
    fewer = without(shop(cancel_order={"priority": 9}), "track_order")
    more = FlowRegistry([*fewer.values(), flow("new_one")], agent_id=AGENT)
    port = memory.port(more, AGENT)
    with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
        for _ in range(3):
            assert "track_order" not in [one.name for one in port.recall("track order", k=9)]
    assert port.stale == frozenset({"track_order"})
    told = [text for text in (record.getMessage() for record in caplog.records) if text.startswith("memory ")]
    assert [text for text in told if "registry does not have" in text] == [
        "memory has flows that the registry does not have: track_order"
    ]
    assert told[1:] == ["memory differs from the registry or its examples, run a sync: cancel_order, new_one"]


@pytest.mark.row("F4", "F14")
async def test_the_port_takes_k_and_allowed(memory: QdrantProceduralMemory) -> None:
    await memory.sync(shop(), AGENT)
    port = memory.port(shop())
    assert port.agent_id == AGENT
    assert len(port.recall("order", k=99)) == 4
    assert port.recall("order", k=0) == port.recall("order", k=3, allowed=[]) == []
    assert [one.name for one in port.recall("track order", k=3, allowed={"return_item", "x"})] == [
        "return_item"
    ]
    assert copy.deepcopy(port) is port


@pytest.mark.row("F4", "F14")
async def test_the_port_says_where_nothing_was_synced(memory: QdrantProceduralMemory) -> None:
    with pytest.raises(MemoryUnavailableError, match=r"has no flows of agent 'shop'.*[Ss]ync"):
        memory.port(shop()).recall("track order", k=1)
    await memory.sync(shop(), AGENT)
    assert memory.port(shop()).recall("track order", k=1)[0].name == "track_order"


@pytest.mark.row("F4", "F14")
async def test_the_fingerprint_follows_what_is_stored(memory: QdrantProceduralMemory) -> None:
    await memory.sync(shop(), AGENT)
    port = memory.port(shop())
    port.recall("track order", k=1)
    before = port.fingerprint
    port.recall("cancel order", k=2)
    assert port.fingerprint == before
    await memory.sync(shop(return_item={"examples": ["send it back"]}), AGENT)
    port.recall("track order", k=1)
    assert port.fingerprint != before
    other = memory.port(shop(), settings=RecallSettings(rrf_k=11))
    other.recall("track order", k=1)
    assert other.fingerprint != port.fingerprint


@pytest.mark.row("F4", "F14")
async def test_many_ask_at_once(memory: QdrantProceduralMemory) -> None:
    await memory.sync(shop(), AGENT)
    port = memory.port(shop())
    queries = ["track order", "cancel order", "return item", "move house"] * 6
    found = await asyncio.gather(*(asyncio.to_thread(port.recall, query, k=1) for query in queries))
    assert [one[0].name.replace("_", " ") for one in found] == queries


@pytest.mark.row("F4", "F14")
async def test_a_closed_memory_says_so(memory: QdrantProceduralMemory) -> None:
    await memory.sync(shop(), AGENT)
    port = memory.port(shop())
    await memory.close()
    await memory.close()
    with pytest.raises(MemoryUnavailableError, match="closed"):
        port.recall("track order", k=1)
    with pytest.raises(MemoryUnavailableError, match="closed"):
        await memory.sync(shop(), AGENT)


@pytest.mark.parametrize("where", ["flows", "./flows", "localhost:6333", "", "edge"])
def test_a_folder_is_refused_with_what_to_do_instead(where: str) -> None:
    with pytest.raises(
        InputError, match=r"neither the URL .*http://HOST:6333.*sync them to ':memory:'"
    ) as caught:
        QdrantProceduralMemory(where)
    assert caught.value.where == where
