"""The engines: what a collection promises, whichever of them stores it, a server included."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdrant_server
from jazzmine_dspy.memory.errors import DimensionError, MissingExtraError
from jazzmine_dspy.memory.procedural import edge, index
from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Engine, Filter, Point, Query
from jazzmine_dspy.memory.procedural.index import open_engine
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from reference_ranking import SIZE, vector

LAYOUT = CollectionSpec("flows", SIZE)
NAMES = ["edge", "local"]


@pytest.fixture(params=[*NAMES, "server"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with contextlib.ExitStack() as stack:
        if request.param == "server":
            made = open_engine(stack.enter_context(qdrant_server.server()).url, timeout=30.0)
        else:
            made = open_engine(":memory:", request.param)
        yield made
        made.close()


def point(number: int, text: str = "my order", **payload: Any) -> Point:
    return Point(str(uuid.UUID(int=number)), vector(text), ([7], [1.0]), payload or {"n": number})


def held(engine: Engine) -> dict[str, Any]:
    return {each: dict(payload) for each, payload in engine.scroll(LAYOUT)}


def test_a_collection(engine: Engine) -> None:
    assert isinstance(engine, Engine)
    assert held(engine) == {}
    assert engine.search(LAYOUT, [Query(dense=vector("a"))], limit=1) == [[]]
    engine.delete(LAYOUT, [str(uuid.UUID(int=1))])
    engine.ensure(LAYOUT)
    engine.ensure(LAYOUT)
    kept = {"note": "wie geht's, 你好 🙂", "parts": [1, {"a": None}], "agent_id": "a"}
    engine.upsert(LAYOUT, [point(1, **kept), point(2, agent_id="b")])
    assert held(engine) == {str(uuid.UUID(int=1)): kept, str(uuid.UUID(int=2)): {"agent_id": "b"}}
    assert dict(engine.scroll(LAYOUT, Filter({"agent_id": ["a"]}), ("agent_id",))) == {
        str(uuid.UUID(int=1)): {"agent_id": "a"}
    }
    engine.delete(LAYOUT, [str(uuid.UUID(int=1)), str(uuid.UUID(int=77))])
    assert [*held(engine)] == [str(uuid.UUID(int=2))]


def test_a_search(engine: Engine) -> None:
    engine.ensure(LAYOUT)
    points = [point(n, f"text {n}", agent_id=f"agent_{n % 2}") for n in range(6)]
    engine.upsert(LAYOUT, [*points, point(6)._replace(sparse=([], []), payload={"agent_id": "agent_0"})])
    dense, words, nothing, unknown = engine.search(
        LAYOUT,
        [
            Query(dense=vector("text 3")),
            Query(sparse=([7], [1.0])),
            Query(sparse=([], [])),
            Query(sparse=([8], [1.0])),
        ],
        limit=4,
    )
    assert (dense[0].id, dense[0].score, dense[0].payload) == (points[3].id, pytest.approx(1, abs=1e-6), {})
    assert [hit.score for hit in dense] == sorted((hit.score for hit in dense), reverse=True)
    assert (len(dense), len(words), nothing, unknown) == (4, 4, [], [])
    found = engine.search(
        LAYOUT,
        [Query(dense=vector("text 3"))],
        limit=9,
        where=Filter({"agent_id": ["agent_0", "x"]}),
        fields=("agent_id",),
    )[0]
    assert [hit.payload for hit in found] == [{"agent_id": "agent_0"}] * 4
    assert len(found) == 4, "the filter comes before the limit"
    barred = Filter({"agent_id": ["agent_0"]}, {"agent_id": ["agent_0"]})
    assert engine.search(LAYOUT, [Query(dense=vector("a"))], limit=9, where=barred) == [[]]
    others = engine.search(
        LAYOUT, [Query(dense=vector("a"))], limit=9, where=Filter({}, {"agent_id": ["agent_0"]})
    )
    assert len(others[0]) == 3


def test_an_id_that_is_written_again_is_replaced(engine: Engine) -> None:
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, [point(1, "newer", n="newer"), point(2, "other")])
    engine.upsert(LAYOUT, [point(2, "newest", n="newest")])
    assert [each["n"] for each in held(engine).values()] == ["newer", "newest"]
    hits = engine.search(LAYOUT, [Query(dense=vector("newest"))], limit=9)[0]
    assert hits[0].score == pytest.approx(1, abs=1e-6)
    assert len(hits) == 2


def test_other_vectors_are_refused_and_left_as_they_are(engine: Engine) -> None:
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, [point(1)])
    others = {LAYOUT._replace(size=SIZE + 1): rf"\b{SIZE}\b", LAYOUT._replace(sparse="words"): "'words'"}
    for other, named in others.items():
        with pytest.raises(DimensionError, match=named) as caught:
            engine.ensure(other)
        assert caught.value.remedy
    assert len(held(engine)) == 1


def test_threads(engine: Engine) -> None:
    """Four threads write and search at once: no error, and nothing is lost."""
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, [point(n, f"text {n}") for n in range(20)])

    def work(thread: int) -> None:
        for number in range(25):
            place = 1000 * (thread + 1) + number
            engine.upsert(LAYOUT, [point(place, f"text {place}")])
            hits = engine.search(LAYOUT, [Query(dense=vector(f"text {place}"))], limit=1)[0]
            assert hits[0].id == str(uuid.UUID(int=place))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(held(engine)) == 120


def test_above_the_exact_size_candidates_are_found_by_few_bits_and_ranked_by_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edge, "EXACT_UP_TO", 100)
    rng = np.random.default_rng(0)
    layout, count = CollectionSpec("flows", 128, indexed=()), 3000
    vectors = rng.normal(size=(60, 128))[rng.integers(0, 60, size=count)] + rng.normal(size=(count, 128))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    share = []
    with contextlib.closing(open_engine(":memory:", "edge")) as engine:
        engine.ensure(layout)
        engine.upsert(
            layout,
            [Point(str(uuid.UUID(int=n)), vectors[n], ([7], [1.0]), {}) for n in range(count)],
        )
        for number in range(40):
            asked = vectors[number] + 0.02 * rng.normal(size=128).astype(np.float32)
            hits = engine.search(layout, [Query(dense=asked)], limit=100)[0]
            exact = vectors @ (asked / np.linalg.norm(asked))
            for hit in hits:
                assert hit.score == pytest.approx(exact[uuid.UUID(hit.id).int], abs=1e-6)
            best = {str(uuid.UUID(int=n)) for n in np.argsort(-exact)[:100].tolist()}
            share.append(len(best & {hit.id for hit in hits}) / 100)
    assert np.mean(share) > 0.99


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_found_again_and_has_one_owner(name: str, tmp_path: Path) -> None:
    first = open_engine(tmp_path, name)
    first.ensure(LAYOUT)
    first.upsert(LAYOUT, [point(1), point(2)])
    first.delete(LAYOUT, [str(uuid.UUID(int=1))])
    with pytest.raises(MemoryUnavailableError, match="already open") as caught:
        open_engine(tmp_path, name).ensure(LAYOUT)
    assert str(tmp_path) in caught.value.where
    assert "Close" in caught.value.remedy
    first.close()
    again = open_engine(tmp_path)
    assert again.where == first.where, "what created the folder opens it"
    assert [*held(again)] == [str(uuid.UUID(int=2))]
    with pytest.raises(DimensionError):
        again.ensure(LAYOUT._replace(size=3))
    again.close()
    with pytest.raises(DimensionError):
        open_engine(tmp_path).ensure(LAYOUT._replace(size=3))


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_cannot_be_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MemoryUnavailableError, match="does not answer"):
        open_engine(tmp_path / "file", name)


@pytest.mark.parametrize("name", NAMES)
def test_a_closed_engine(name: str) -> None:
    engine = open_engine(":memory:", name)
    engine.ensure(LAYOUT)
    engine.close()
    engine.close()
    with pytest.raises(MemoryUnavailableError):
        engine.upsert(LAYOUT, [point(1)])


def test_a_temporary_folder_is_removed_with_its_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with contextlib.closing(open_engine(":memory:", "edge")) as engine:
        engine.ensure(LAYOUT)
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_which_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no embedded engine 'qdrant'"):
        open_engine(":memory:", "qdrant")
    with contextlib.closing(open_engine(":memory:")) as engine:
        assert isinstance(engine, edge.EdgeEngine)
    made = open_engine(tmp_path, "edge")
    made.ensure(LAYOUT)
    made.close()
    monkeypatch.setattr(index, "find_spec", lambda name: None)
    with contextlib.closing(open_engine(":memory:")) as engine:
        assert engine.where == "Qdrant embedded, :memory:"
    for path in (tmp_path, ":memory:"):
        with pytest.raises(MissingExtraError, match="qdrant-edge-py") as caught:
            open_engine(path, "edge" if path == ":memory:" else "auto")
        assert "jazzmine-dspy[local]" in caught.value.remedy


@pytest.mark.chaos
def test_a_shard_that_panics_is_an_error_of_ours(tmp_path: Path) -> None:
    """Over a damaged file it raises what is no ``Exception``."""
    engine = open_engine(tmp_path, "edge")
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, [point(n) for n in range(20)])
    engine.close()
    damaged = list(tmp_path.glob("**/vectors/status.dat"))
    assert damaged
    for file in damaged:
        file.write_bytes(b"")
    with pytest.raises(MemoryUnavailableError, match=r"does not answer.*sync again"):
        open_engine(tmp_path, "edge").ensure(LAYOUT)


@pytest.mark.chaos
@pytest.mark.parametrize(("name", "size"), [("edge", 1000), ("local", 40)])
def test_a_killed_process_leaves_whole_points(name: str, size: int, tmp_path: Path) -> None:
    """Killed twice in the middle of writing: finished batches are there, each point with all its parts.

    The log of edge keeps a batch together too; local mode commits each point.
    """
    code = """
import sys, uuid
import numpy as np
from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Point
from jazzmine_dspy.memory.procedural.index import open_engine
path, name, size, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
engine, layout = open_engine(path, name), CollectionSpec("flows", 4, indexed=())
engine.ensure(layout)
while True:
    points = [Point(str(uuid.UUID(int=batch * size + n)), np.ones(4, dtype=np.float32), ([7], [1.0]),
                          {"batch": batch}) for n in range(size)]
    print("begin", batch, flush=True)
    engine.upsert(layout, points)
    print("end", batch, flush=True)
    batch += 1
"""
    layout = CollectionSpec("flows", 4, indexed=())
    ended: set[int] = set()
    batch = 0
    for kill in range(2):
        command = [sys.executable, "-P", "-c", code, str(tmp_path), name, str(size), str(batch)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                word, number = line.split()
                if word == "end":
                    ended.add(int(number))
                elif int(number) == batch + 1 + kill:
                    os.kill(child.pid, signal.SIGKILL)
                    break
            ended |= {int(line.split()[1]) for line in child.stdout if line.startswith("end")}
        engine = open_engine(tmp_path)
        found = Counter(payload["batch"] for _, payload in engine.scroll(layout))
        assert all(found[each] == size for each in ended)
        assert name == "local" or set(found.values()) == {size}
        dense, words = engine.search(
            layout,
            [Query(dense=np.ones(4, dtype=np.float32)), Query(sparse=([7], [1.0]))],
            limit=10**5,
        )
        assert len(dense) == len(words) == found.total()
        engine.close()
        batch += 3 + kill
    assert len(ended) >= 3
