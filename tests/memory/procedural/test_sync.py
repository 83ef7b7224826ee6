"""Syncs that are repeated, killed, cancelled, or run at the same time."""

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
from jazzmine_dspy.memory.procedural.points import points_for
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from word_embedder import WordEmbedder, flow, shop

COLLECTION = "jazzmine_flow_examples"
UPSERT = "PUT /collections/{c}/points"
DELETE = "POST /collections/{c}/points/delete"
SCROLL = "POST /collections/{c}/points/scroll"


@pytest.fixture
def running() -> Iterator[qdrant_server.QdrantDouble]:
    with qdrant_server.server() as running:
        yield running


def _memory(running: qdrant_server.QdrantDouble) -> QdrantProceduralMemory:
    return QdrantProceduralMemory(running.url, embedder=WordEmbedder(), timeout=30.0)


def _version(letter: str, flows: int = 3) -> FlowRegistry:
    """The same flows with some texts of their own, and one that the first version has too."""
    made = []
    for number in range(flows):
        texts = [f"version {letter} text {each} of task {number}" for each in range(3)]
        if letter != "A":
            texts.append(f"a text of task {number} that stays")
        made.append(flow(f"task_{number}", examples=texts, description=f"Task {number} in {letter}."))
    return FlowRegistry(made, agent_id="shop")


def _points(registry: FlowRegistry) -> set[str]:
    return set(points_for(registry, "shop", WordEmbedder().fingerprint))


def _stored(running: qdrant_server.QdrantDouble) -> set[str]:
    records, _ = running.client.scroll(COLLECTION, limit=10_000)
    return {str(record.id) for record in records}


@pytest.mark.row("F3")
@pytest.mark.parametrize("when", [1, 3])
async def test_after_syncs_at_once_the_next_one_leaves_whole_flows(
    running: qdrant_server.QdrantDouble, when: int
) -> None:
    first, second = _memory(running), _memory(running)
    await first.sync(_version("C"), "shop")
    steps = iter(range(when))

    def interrupt(name: str, body: Any) -> None:
        if name in (UPSERT, DELETE, SCROLL) and next(steps, None) is None:
            running.on_request = lambda name, body: None
            thread = threading.Thread(target=lambda: asyncio.run(second.sync(_version("B"), "shop")))
            thread.start()
            thread.join()

    running.on_request = interrupt
    await first.sync(_version("A"), "shop")
    assert next(steps, None) is None
    await second.sync(_version("B"), "shop")
    assert _stored(running) == _points(_version("B"))
    assert (await second.sync(_version("B"), "shop")).changes == 0


# --- processes ---------------------------------------------------------------------------------------------

WORKER = """
import asyncio, sys
from jazzmine_dspy import FlowRegistry
from jazzmine_dspy.memory.procedural import QdrantProceduralMemory
from word_embedder import WordEmbedder
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
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(registry.to_json()))
    process.stdin.close()
    return process


@pytest.mark.row("F3")
@pytest.mark.chaos
def test_a_killed_sync_is_completed_by_the_next(running: qdrant_server.QdrantDouble) -> None:
    running.on_request = lambda name, body: killed.send_signal(signal.SIGKILL) if writes(name) else None
    left = iter([False, True])

    def writes(name: str) -> bool:
        return name == UPSERT and next(left, False)

    killed = _worker(running, _version("A", 60))
    assert killed.wait() == -signal.SIGKILL
    running.on_request = lambda name, body: None
    stored = running.count(COLLECTION)
    assert 0 < stored < len(_points(_version("A", 60)))
    report = asyncio.run(_memory(running).sync(_version("A", 60), "shop"))
    assert report.changes > 0
    assert _stored(running) == _points(_version("A", 60))


# --- the rest ----------------------------------------------------------------------------------------------


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
    assert sizes == [64, 64, 32]


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
    assert len((await _memory(running).sync(_version("A", 40), "shop")).created) == 24
    assert _stored(running) == _points(_version("A", 40))


async def test_a_server_that_fails_in_the_middle_leaves_it_to_the_next_sync(
    running: qdrant_server.QdrantDouble,
) -> None:
    memory = _memory(running)
    running.on_request = lambda name, body: name == SCROLL and setattr(running, "always", 507)
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
    assert running.count(COLLECTION) == 2 * len(points_for(shop(), "shop", ""))


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
    with pytest.raises(InputError, match="must be a string, not int"):
        FlowRegistry([], agent_id=7)  # type: ignore[arg-type]
