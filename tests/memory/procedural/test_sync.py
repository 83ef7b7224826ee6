"""Syncs that run at the same time, that are killed, and that are cancelled leave whole flows."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import qdrant_server
from jazzmine_dspy import FlowRegistry
from jazzmine_dspy.memory.procedural import QdrantProceduralMemory, SyncReport, sync_registry
from jazzmine_dspy.memory.procedural._wanted import wanted_points
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.testing.procedural_memory import WordEmbedder
from jazzmine_dspy.testing.procedural_memory.harness import flow, shop

COLLECTION = "jazzmine_flow_examples"
UPSERT = "PUT /collections/{c}/points"
DELETE = "POST /collections/{c}/points/delete"
SCROLL = "POST /collections/{c}/points/scroll"


@pytest.fixture
def running() -> Iterator[qdrant_server.QdrantDouble]:
    with qdrant_server.server() as running:
        yield running


def _memory(running: qdrant_server.QdrantDouble) -> QdrantProceduralMemory:
    return QdrantProceduralMemory(running.url, embedder=WordEmbedder(), timeout=30.0, sleep=lambda _: None)


def _version(letter: str, flows: int = 3) -> FlowRegistry:
    """The same flows with some texts of their own, and one that the first version has too."""
    made = []
    for number in range(flows):
        texts = [f"version {letter} text {each} of task {number}" for each in range(3)]
        if letter != "A":
            texts.append(f"a text of task {number} that stays")
        made.append(flow(f"task_{number}", examples=texts, description=f"Task {number} in {letter}."))
    return FlowRegistry(made, agent_id="shop")


def _whole(running: qdrant_server.QdrantDouble, *letters: str, flows: int = 3) -> set[str]:
    """The versions that the stored flows are of, each of them wholly."""
    with running.lock:
        records, _ = running.client.scroll(COLLECTION, limit=10_000)
    stored: dict[str, set[str]] = {}
    for record in records:
        assert record.payload is not None
        stored.setdefault(record.payload["flow_name"], set()).add(str(record.id))
    found = set()
    wanted = {letter: _by_flow(_version(letter, flows)) for letter in letters}
    contents = {
        (name, _version(letter, flows)[name].checksum()): letter for letter in letters for name in stored
    }
    for record in records:
        if record.payload and record.payload["kind"] == "description":
            name = record.payload["flow_name"]
            letter = contents[name, record.payload["content"]]
            assert stored[name] == wanted[letter][name], (name, letter)
            found.add(letter)
    assert stored.keys() == wanted[letters[0]].keys()
    told = {
        record.payload["flow_name"] for record in records if (record.payload or {})["kind"] == "description"
    }
    assert told == stored.keys(), "every flow has its manifest"
    return found


def _by_flow(registry: FlowRegistry) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for point in wanted_points(registry, "shop", WordEmbedder().fingerprint).values():
        found.setdefault(point.flow, set()).add(point.id)
    return found


@pytest.mark.row("F3")
@pytest.mark.parametrize("when", range(5))
async def test_a_sync_in_the_middle_of_another_leaves_whole_flows(
    running: qdrant_server.QdrantDouble, when: int
) -> None:
    first, second = _memory(running), _memory(running)
    await first.sync(_version("C"), "shop")
    seen = 0

    def interrupt(name: str, body: Any) -> None:
        nonlocal seen
        if name not in (UPSERT, DELETE, SCROLL):
            return
        seen += 1
        if seen == when + 1:
            running.on_request = lambda name, body: None
            thread = threading.Thread(target=lambda: asyncio.run(second.sync(_version("B"), "shop")))
            thread.start()
            thread.join()

    running.on_request = interrupt
    await first.sync(_version("A"), "shop")
    assert seen > when
    assert len(_whole(running, "A", "B")) == 1


@pytest.mark.row("F3")
async def test_what_another_sync_brings_meanwhile_goes_with_the_one_that_ends_last(
    running: qdrant_server.QdrantDouble,
) -> None:
    first, second = _memory(running), _memory(running)
    await first.sync(_version("C"), "shop")

    def interrupt(name: str, body: Any) -> None:
        if name == UPSERT:
            running.on_request = lambda name, body: None
            more = FlowRegistry([*_version("C").values(), flow("new_one")], agent_id="shop")
            thread = threading.Thread(target=lambda: asyncio.run(second.sync(more, "shop")))
            thread.start()
            thread.join()

    running.on_request = interrupt
    await first.sync(_version("A"), "shop")
    names = [each["flow_name"] for each in await first.list_flows("shop")]
    assert names == ["task_0", "task_1", "task_2"]
    assert (await first.sync(_version("A"), "shop")).changes == 0
    assert _whole(running, "A") == {"A"}


async def test_manifests_are_removed_before_what_they_tell_of(running: qdrant_server.QdrantDouble) -> None:
    await _memory(running).sync(_version("A", 40), "shop")
    await _memory(running).sync(FlowRegistry(), "shop")
    removed = [each for name, _, body in running.queries if name == DELETE for each in body["points"]]
    wanted = wanted_points(_version("A", 40), "shop", WordEmbedder().fingerprint)
    assert [wanted[each].payload["kind"] for each in removed] == ["description"] * 40 + ["example"] * 120


# --- processes ---------------------------------------------------------------------------------------------

WORKER = """
import asyncio, sys
from jazzmine_dspy import FlowRegistry
from jazzmine_dspy.memory.procedural import QdrantProceduralMemory
from jazzmine_dspy.testing.procedural_memory import WordEmbedder
import json

async def main():
    url, agent = sys.argv[1:3]
    flows = FlowRegistry(json.load(sys.stdin), agent_id=agent)
    async with QdrantProceduralMemory(url, embedder=WordEmbedder(), timeout=30.0) as memory:
        report = await memory.sync(flows, agent)
        print(len(report.created), len(report.updated), len(report.skipped))

asyncio.run(main())
"""


def _worker(running: qdrant_server.QdrantDouble, registry: FlowRegistry) -> subprocess.Popen[str]:
    import json

    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, running.url, "shop"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(registry.to_json()))
    process.stdin.close()
    return process


@pytest.mark.row("F3")
def test_two_processes_may_sync_at_once(running: qdrant_server.QdrantDouble) -> None:
    # Both have seen what is stored before either writes.
    gate, waiting = threading.Barrier(2), threading.Semaphore(2)

    def hold(name: str, body: Any) -> None:
        if name == SCROLL and waiting.acquire(blocking=False):
            gate.wait(timeout=60)

    running.on_request = hold
    workers = [_worker(running, _version("A")), _worker(running, _version("B"))]
    told = [worker.stdout.read() for worker in workers if worker.stdout is not None]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert told == ["3 0 0\n"] * 2
    assert len(_whole(running, "A", "B")) == 1


@pytest.mark.row("F3")
@pytest.mark.chaos
def test_a_killed_sync_is_completed_by_the_next(running: qdrant_server.QdrantDouble) -> None:
    running.on_request = lambda name, body: killed.send_signal(signal.SIGKILL) if writes(name) else None
    left = iter([False, True])

    def writes(name: str) -> bool:
        return name == UPSERT and next(left, False)

    killed = _worker(running, _version("A", 30))
    assert killed.wait() == -signal.SIGKILL
    running.on_request = lambda name, body: None
    stored = running.count(COLLECTION)
    assert 0 < stored < sum(map(len, _by_flow(_version("A", 30)).values()))
    report = asyncio.run(_memory(running).sync(_version("A", 30), "shop"))
    assert len(report.created) == 30
    assert _whole(running, "A", flows=30) == {"A"}


# --- the rest ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("patience", [-1.0, float("nan"), float("inf")])
async def test_a_patience_that_makes_no_sense(patience: float) -> None:
    async with QdrantProceduralMemory(":memory:", embedder=WordEmbedder()) as memory:
        with pytest.raises(InputError, match="patience"):
            await memory.sync(shop(), patience=patience)


async def test_a_second_sync_asks_and_writes_nothing(running: qdrant_server.QdrantDouble) -> None:
    memory = _memory(running)
    await memory.sync(shop())
    running.requests.clear()
    assert (await memory.sync(shop())).changes == 0
    assert running.writes == 0
    assert running.requests == {"GET /collections/{c}": 1, SCROLL: 1}


async def test_writes_come_in_batches(running: qdrant_server.QdrantDouble) -> None:
    await _memory(running).sync(_version("A", 40), "shop")
    sizes = [len(body["points"]) for name, _, body in running.queries if name == UPSERT]
    assert sizes == [64, 56, 40]
    manifests = [body["points"][0]["payload"]["kind"] for name, _, body in running.queries if name == UPSERT]
    assert manifests == ["example", "example", "description"]


async def test_a_cancelled_sync_ends_between_two_batches(running: qdrant_server.QdrantDouble) -> None:
    memory = _memory(running)
    loop = asyncio.get_running_loop()
    go, done = threading.Event(), asyncio.Event()

    def cancel(name: str, body: Any) -> None:
        if name == UPSERT:
            loop.call_soon_threadsafe(task.cancel)
            loop.call_soon_threadsafe(done.set)
            go.wait(timeout=60)

    running.on_request = cancel
    task = asyncio.create_task(memory.sync(_version("A", 40), "shop"))
    await done.wait()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await memory.close()
    assert running.requests[UPSERT] == 1
    running.on_request = lambda name, body: None
    assert len((await _memory(running).sync(_version("A", 40), "shop")).created) == 40


async def test_a_server_that_fails_in_the_middle_leaves_it_to_the_next_sync(
    running: qdrant_server.QdrantDouble,
) -> None:
    memory = _memory(running)
    running.on_request = lambda name, body: setattr(running, "always", 507 if name == UPSERT else "")
    with pytest.raises(MemoryUnavailableError, match=r"507.*disk is full"):
        await memory.sync(shop())
    running.on_request = lambda name, body: None
    running.always = ""
    assert (await memory.sync(shop())).created == list(shop())


async def test_the_function_under_jazzmines_name(
    running: qdrant_server.QdrantDouble, caplog: pytest.LogCaptureFixture
) -> None:
    memory = _memory(running)
    with caplog.at_level("INFO", logger="jazzmine_dspy"):
        report = await sync_registry(memory, "shop", registry=shop())
    assert report.created == list(shop())
    assert any("CREATE (4)" in record.getMessage() for record in caplog.records)
    assert str(SyncReport()) == "0 changes, 0 unchanged"


async def test_registries_are_apart(running: qdrant_server.QdrantDouble) -> None:
    memory = _memory(running)
    assert (await memory.sync(shop())).created == list(shop())
    assert [each["flow_name"] for each in await memory.list_flows("shop")] == sorted(shop())
    other = FlowRegistry(shop().values(), agent_id="another")
    assert (await memory.sync(other)).created == list(shop())
    assert running.count(COLLECTION) == 2 * len(wanted_points(shop(), "shop", ""))


async def test_an_agent_whose_name_is_no_text_is_refused_at_every_door() -> None:
    registry = FlowRegistry([flow("track_order")])
    async with QdrantProceduralMemory(":memory:", embedder=WordEmbedder()) as memory:
        for refused in (
            memory.sync(registry, "shop\ud800"),
            memory.recall("where", "shop\ud800"),
            memory.list_flows("shop\ud800"),
        ):
            with pytest.raises(InputError, match=r"surrogate pair, U\+D800, as its character 5"):
                await refused
        with pytest.raises(InputError, match="half of a surrogate pair"):
            memory.port(registry, "shop\ud800")
        assert await memory.list_flows("shop") == []
    with pytest.raises(InputError, match="half of a surrogate pair"):
        FlowRegistry([], agent_id="\udfff")
    with pytest.raises(InputError, match="no text but int"):
        FlowRegistry([], agent_id=7)  # type: ignore[arg-type]
