"""Flows are brought in line with a registry: what differs, and nothing else."""

from __future__ import annotations

import pytest

from jazzmine_dspy.memory.errors import DimensionError, NotStoredError
from jazzmine_dspy.memory.procedural.qdrant import QdrantProceduralMemory
from jazzmine_dspy.models.errors import EmbeddingError, FlowError, MemoryUnavailableError
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

ALL = ["track_order", "cancel_order", "return_item", "move_house"]


class SyncSuite(Suite):
    """Sync."""

    async def test_flows_are_created_and_then_skipped(
        self, memory: QdrantProceduralMemory, embedder: WordEmbedder
    ) -> None:
        first = await memory.sync(shop(), AGENT)
        assert (first.created, first.updated, first.deleted, first.skipped) == (ALL, [], [], [])
        embedder.batches.clear()
        again = await memory.sync(shop(), AGENT)
        assert (again.created, again.updated, again.deleted, again.skipped) == ([], [], [], ALL)
        assert embedder.batches == []

    async def test_only_what_differs_is_embedded(
        self, memory: QdrantProceduralMemory, embedder: WordEmbedder
    ) -> None:
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

    async def test_every_part_of_a_flow_counts(self, memory: QdrantProceduralMemory) -> None:
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

    async def test_flows_that_are_gone_are_deleted(self, memory: QdrantProceduralMemory) -> None:
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

    async def test_ids_outlive_edits(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(shop(), AGENT)
        before = {each["flow_name"]: each for each in await memory.list_flows(AGENT)}
        await memory.sync(shop(return_item={"description": "Send it back."}), AGENT)
        after = {each["flow_name"]: each for each in await memory.list_flows(AGENT)}
        assert list(after) == sorted(ALL)
        assert {name: each["flow_id"] for name, each in after.items()} == {
            name: each["flow_id"] for name, each in before.items()
        }
        assert [name for name in ALL if before[name]["checksum"] != after[name]["checksum"]] == [
            "return_item"
        ]

    async def test_agents_do_not_touch_each_other(self, memory: QdrantProceduralMemory) -> None:
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

    async def test_a_dry_run_tells_and_does_nothing(
        self, memory: QdrantProceduralMemory, embedder: WordEmbedder
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

    @pytest.mark.parametrize("done", [0, 1, 2])
    async def test_a_sync_that_was_cut_off_is_completed_by_the_next(
        self, memory: QdrantProceduralMemory, embedder: WordEmbedder, done: int
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

    async def test_half_a_flow_is_not_recalled(
        self, memory: QdrantProceduralMemory, embedder: WordEmbedder
    ) -> None:
        await memory.sync(without(shop(), "track_order"), AGENT)
        embedder.failing_after = 1  # the texts are written, the manifest is not
        with pytest.raises(EmbeddingError):
            await memory.sync(shop(), AGENT)
        embedder.failing_after = None
        whole = sorted(set(ALL) - {"track_order"})
        assert sorted(await names(memory, "track order please", top_k=9)) == whole
        ported = memory.port(shop(), AGENT).recall("track order please", k=9)
        assert sorted(one.name for one in ported) == whole
        assert [each["flow_name"] for each in await memory.list_flows(AGENT)] == whole

    async def test_another_model_makes_all_points_anew(
        self, memory: QdrantProceduralMemory, embedder: WordEmbedder
    ) -> None:
        await memory.sync(shop(), AGENT)
        embedder.batches.clear()
        embedder.fingerprint = "words:24:another"
        port = memory.port(shop(), AGENT)
        with pytest.raises(MemoryUnavailableError, match=r"another embedding model.*words:24:another"):
            port.recall("track order", k=1)
        assert (await memory.sync(shop(), AGENT)).updated == ALL
        assert "I want to track order" in embedder.texts
        assert port.recall("I want to track order", k=1)[0].name == "track_order"

    async def test_vectors_of_another_length_are_refused(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(shop(), AGENT)
        listed = await memory.list_flows(AGENT)
        other, reader = WordEmbedder(size=25), memory._reader()
        assert memory._reader_made is not None
        wider = QdrantProceduralMemory(":memory:", embedder=other, layout=memory.layout, prefix=memory.prefix)
        wider._reader_made = type(reader)(
            reader.engine,
            reader.own._replace(size=25),
            reader.theirs and reader.theirs._replace(size=25),
            other,
            where="here",
        )
        with pytest.raises(DimensionError, match=r"2[45].*prefix|2[45].*folder"):
            await wider.sync(shop(), AGENT)
        assert await memory.list_flows(AGENT) == listed
        assert (await memory.sync(shop(), AGENT)).skipped == ALL

    async def test_a_flow_is_deleted_by_its_id(self, memory: QdrantProceduralMemory) -> None:
        await memory.sync(shop(), AGENT)
        ids = {each["flow_name"]: each["flow_id"] for each in await memory.list_flows(AGENT)}
        await memory.delete_flow(ids["cancel_order"])
        assert "cancel_order" not in await names(memory, "cancel order please", top_k=9)
        with pytest.raises(NotStoredError):
            await memory.delete_flow(ids["cancel_order"])
        report = await memory.sync(shop(), AGENT)
        assert (report.created, report.updated) == (["cancel_order"], [])

    async def test_further_examples_are_kept_with_their_conversations(
        self, memory: QdrantProceduralMemory
    ) -> None:
        further = [("hand me my coat", "return_item", "c1"), ("hand me my coat", "return_item", "c2")]
        await memory.sync(shop(), AGENT, examples=further)
        assert (await memory.sync(shop(), AGENT, examples=further)).skipped == ALL
        port = memory.port(shop(), AGENT)
        assert port.recall("hand me my coat", k=1)[0].name == "return_item"
        assert port.recall("hand me my coat", k=1, exclude={"c1"})[0].similarity == pytest.approx(
            1.0, abs=1e-5
        )
        assert port.recall("hand me my coat", k=1, exclude={"c1", "c2"})[0].similarity < 0.95
        with pytest.raises(FlowError, match="unknown flow"):
            await memory.sync(shop(), AGENT, examples=[("a", "b", "c")])
