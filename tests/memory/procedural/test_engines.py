"""The embedded engines: what a collection promises, whichever of the two keeps it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy.memory.errors import DimensionError, MissingExtraError
from jazzmine_dspy.memory.procedural import _edge
from jazzmine_dspy.memory.procedural import embedded as engines
from jazzmine_dspy.memory.procedural.embedded import open_embedded
from jazzmine_dspy.memory.procedural.engine import Branch, Engine, Layout, StoredPoint
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from reference_ranking import SIZE, vector

LAYOUT = Layout("flows of a", SIZE)
NAMES = ["edge", "local"]


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    made = open_embedded(":memory:", request.param)
    yield made
    made.close()


def point(number: int, text: str = "my order", **payload: Any) -> StoredPoint:
    return StoredPoint(str(uuid.UUID(int=number)), vector(text), ([7], [1.0]), payload or {"n": number})


def held(engine: Engine) -> dict[str, Any]:
    return {each: dict(payload) for each, payload in engine.scroll(LAYOUT, {})}


def test_a_collection(engine: Engine) -> None:
    assert isinstance(engine, Engine)
    assert engine.collections() == []
    engine.ensure(LAYOUT)
    engine.ensure(LAYOUT)
    assert engine.collections() == [LAYOUT.collection]
    kept = {"note": "wie geht's, 你好 🙂", "parts": [1, {"a": None}], "agent_id": "a"}
    engine.upsert(LAYOUT, [point(1, **kept), point(2, agent_id="b")])
    assert held(engine) == {str(uuid.UUID(int=1)): kept, str(uuid.UUID(int=2)): {"agent_id": "b"}}
    assert dict(engine.scroll(LAYOUT, {"agent_id": ["a"]}, keys=("agent_id",))) == {
        str(uuid.UUID(int=1)): {"agent_id": "a"}
    }
    engine.delete(LAYOUT, [str(uuid.UUID(int=1)), str(uuid.UUID(int=77))])
    assert [*held(engine)] == [str(uuid.UUID(int=2))]
    engine.drop(LAYOUT.collection)
    engine.drop(LAYOUT.collection)
    assert engine.collections() == []
    engine.upsert(LAYOUT, [point(3)])
    assert [*held(engine)] == [str(uuid.UUID(int=3))], "nothing of the dropped one is left"


def test_any_name_makes_a_collection_of_its_own() -> None:
    names = ["flows", "Flows", "../flows", "a/b", "a\\b: c", "..", "größe"]
    with open_embedded_closing("edge") as engine:
        for number, name in enumerate(names):
            engine.upsert(Layout(name, SIZE), [point(number)])
        assert engine.collections() == sorted(names)
        engine.drop("../flows")
        assert len(engine.collections()) == len(names) - 1


def test_a_search(engine: Engine) -> None:
    engine.ensure(LAYOUT)
    points = [point(n, f"text {n}", agent_id=f"agent_{n % 2}") for n in range(6)]
    engine.upsert(LAYOUT, [*points, point(6)._replace(sparse=([], []), payload={"agent_id": "agent_0"})])
    dense, words, nothing, unknown = engine.search(
        LAYOUT,
        [
            Branch(dense=vector("text 3")),
            Branch(words=([7], [1.0])),
            Branch(words=([], [])),
            Branch(words=([8], [1.0])),
        ],
        depth=4,
        where={},
    )
    assert (dense[0].id, dense[0].score, dense[0].payload) == (points[3].id, pytest.approx(1, abs=1e-6), {})
    assert [hit.score for hit in dense] == sorted((hit.score for hit in dense), reverse=True)
    assert (len(dense), len(words), nothing, unknown) == (4, 4, [], [])
    found = engine.search(
        LAYOUT,
        [Branch(dense=vector("text 3"))],
        depth=9,
        where={"agent_id": ["agent_0", "x"]},
        payload=("agent_id",),
    )[0]
    assert [hit.payload for hit in found] == [{"agent_id": "agent_0"}] * 4
    assert len(found) == 4, "the filter comes before the limit"
    assert engine.search(LAYOUT, [Branch(dense=vector("a"))], depth=9, where={"agent_id": []}) == [[]]
    assert engine.search(LAYOUT, [], depth=9, where={}) == []


def test_an_id_that_is_written_again_is_replaced(engine: Engine) -> None:
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, [point(1, "old"), point(1, "newer", n="newer"), point(2, "other")])
    engine.upsert(LAYOUT, [point(2, "newest", n="newest")])
    assert [each["n"] for each in held(engine).values()] == ["newer", "newest"]
    hits = engine.search(LAYOUT, [Branch(dense=vector("newest"))], depth=9, where={})[0]
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


def test_a_closed_engine(engine: Engine) -> None:
    engine.ensure(LAYOUT)
    engine.close()
    engine.close()
    for call in (
        lambda: engine.ensure(LAYOUT),
        lambda: engine.search(LAYOUT, [Branch(dense=vector("a"))], depth=1, where={}),
        lambda: engine.upsert(LAYOUT, [point(1)]),
        lambda: list(engine.scroll(LAYOUT, {})),
        engine.collections,
    ):
        with pytest.raises(MemoryUnavailableError, match="closed"):
            call()


def test_threads(engine: Engine) -> None:
    """Four threads write and search at once: no error, and nothing is lost."""
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, [point(n, f"text {n}") for n in range(20)])

    def work(thread: int) -> None:
        for number in range(25):
            place = 1000 * (thread + 1) + number
            engine.upsert(LAYOUT, [point(place, f"text {place}")])
            hits = engine.search(LAYOUT, [Branch(dense=vector(f"text {place}"))], depth=1, where={})[0]
            assert hits[0].id == str(uuid.UUID(int=place))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(held(engine)) == 120


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_found_again_and_has_one_owner(name: str, tmp_path: Path) -> None:
    first = open_embedded(tmp_path, name)
    first.ensure(LAYOUT)
    first.upsert(LAYOUT, [point(1), point(2)])
    first.delete(LAYOUT, [str(uuid.UUID(int=1))])
    for other in NAMES:
        with pytest.raises(MemoryUnavailableError, match="already open") as caught:
            open_embedded(tmp_path, other)
        assert str(tmp_path) in caught.value.where
    first.close()
    again = open_embedded(tmp_path)
    assert again.name == name, "what made the folder opens it"
    assert [*held(again)] == [str(uuid.UUID(int=2))]
    with pytest.raises(DimensionError):
        again.ensure(LAYOUT._replace(size=3))
    again.close()


@pytest.mark.parametrize("name", NAMES)
def test_another_process_is_told_who_has_the_folder(name: str, tmp_path: Path) -> None:
    engine = open_embedded(tmp_path, name)
    code = (
        "import sys\n"
        "from jazzmine_dspy.memory.procedural.embedded import open_embedded\n"
        "from jazzmine_dspy.models.errors import MemoryUnavailableError\n"
        "try:\n    open_embedded(sys.argv[1], sys.argv[2])\n"
        "except MemoryUnavailableError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path), name], capture_output=True, text=True, check=True
    )
    engine.close()
    assert "already open" in done.stdout
    assert "Close" in done.stdout
    if name == "edge":
        assert f"process {os.getpid()}" in done.stdout


def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for name in NAMES:
        with pytest.raises(MemoryUnavailableError, match="does not answer"):
            open_embedded(tmp_path / "file", name)


def test_a_temporary_folder_goes_with_its_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned = tmp_path / "jazzmine-flows-killed"
    abandoned.mkdir()
    (abandoned / ".lock").write_text("1\n")
    os.utime(abandoned / ".lock", (0, 0))
    with open_embedded_closing("edge") as one, open_embedded_closing("edge") as two:
        for engine in (one, two):
            engine.upsert(LAYOUT, [point(1)])
        assert len(list(tmp_path.iterdir())) == 2, "that of a killed process is gone"
    assert list(tmp_path.iterdir()) == []


class open_embedded_closing:  # noqa: N801
    def __init__(self, name: str) -> None:
        self.engine = open_embedded(":memory:", name)

    def __enter__(self) -> Engine:
        return self.engine

    def __exit__(self, *error: object) -> None:
        self.engine.close()


def test_which_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no embedded engine 'qdrant'"):
        open_embedded(":memory:", "qdrant")
    with open_embedded_closing("auto") as engine:
        assert engine.name == "edge"
    made = open_embedded(tmp_path, "edge")
    made.ensure(LAYOUT)
    made.close()
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with open_embedded_closing("auto") as engine:
        assert engine.name == "local"
    for path in (tmp_path, ":memory:"):
        with pytest.raises(MissingExtraError, match="qdrant-edge-py") as caught:
            open_embedded(path, "edge" if path == ":memory:" else "auto")
        assert "jazzmine-dspy[local]" in caught.value.remedy


def test_a_shard_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_embedded_closing("edge") as engine:
        engine.ensure(LAYOUT)
        with pytest.raises(MemoryUnavailableError, match="The flow index does not answer: Exception"):
            engine.search(LAYOUT, [Branch(dense=np.ones(3, dtype=np.float32))], depth=1, where={})


def test_above_the_exact_size_candidates_are_found_by_few_bits_and_ranked_by_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_edge, "EXACT_UP_TO", 100)
    rng = np.random.default_rng(0)
    layout, count = Layout("flows", 128, indexed=()), 3000
    vectors = rng.normal(size=(60, 128))[rng.integers(0, 60, size=count)] + rng.normal(size=(count, 128))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    share = []
    with open_embedded_closing("edge") as engine:
        engine.upsert(
            layout,
            [StoredPoint(str(uuid.UUID(int=n)), vectors[n], ([7], [1.0]), {}) for n in range(count)],
        )
        for number in range(40):
            asked = vectors[number] + 0.02 * rng.normal(size=128).astype(np.float32)
            hits = engine.search(layout, [Branch(dense=asked)], depth=100, where={})[0]
            exact = vectors @ (asked / np.linalg.norm(asked))
            for hit in hits:
                assert hit.score == pytest.approx(exact[uuid.UUID(hit.id).int], abs=1e-6)
            best = {str(uuid.UUID(int=n)) for n in np.argsort(-exact)[:100].tolist()}
            share.append(len(best & {hit.id for hit in hits}) / 100)
    assert np.mean(share) > 0.99


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_leaves_its_parents_engine_alone() -> None:
    """A child that ends must not remove the folder, and one that asks would wait for threads that it has not."""
    with open_embedded_closing("edge") as engine:
        engine.upsert(LAYOUT, [point(1)])
        child = os.fork()
        if child == 0:
            try:
                held(engine)
            except MemoryUnavailableError as error:
                engine.close()
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert len(held(engine)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_does_not_keep_the_folder(tmp_path: Path) -> None:
    engine = open_embedded(tmp_path, "edge")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        engine.close()
        open_embedded(tmp_path, "edge").close()
    finally:
        os.close(writing)
        os.waitpid(child, 0)
        os.close(reading)


@pytest.mark.chaos
@pytest.mark.parametrize(("name", "size"), [("edge", 1000), ("local", 40)])
def test_a_killed_process_leaves_whole_points(name: str, size: int, tmp_path: Path) -> None:
    """Killed twice in the middle of writing: finished batches are there, each point with all its parts.

    The log of edge keeps a batch together too; local mode commits each point.
    """
    code = """
import sys, uuid
import numpy as np
from jazzmine_dspy.memory.procedural.embedded import open_embedded
from jazzmine_dspy.memory.procedural.engine import Layout, StoredPoint
path, name, size, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
engine, layout = open_embedded(path, name), Layout("flows", 4, indexed=())
while True:
    points = [StoredPoint(str(uuid.UUID(int=batch * size + n)), np.ones(4, dtype=np.float32), ([7], [1.0]),
                          {"batch": batch}) for n in range(size)]
    print("begin", batch, flush=True)
    engine.upsert(layout, points)
    print("end", batch, flush=True)
    batch += 1
"""
    layout = Layout("flows", 4, indexed=())
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
        engine = open_embedded(tmp_path)
        found = Counter(payload["batch"] for _, payload in engine.scroll(layout, {}))
        assert all(found[each] == size for each in ended)
        assert name == "local" or set(found.values()) == {size}
        dense, words = engine.search(
            layout,
            [Branch(dense=np.ones(4, dtype=np.float32)), Branch(words=([7], [1.0]))],
            depth=10**5,
            where={},
        )
        assert len(dense) == len(words) == found.total()
        engine.close()
        batch += 3 + kill
    assert len(ended) >= 3
