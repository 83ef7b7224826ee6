"""The engines: what a collection promises, whichever of them stores it, a server included."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import qdrant_server
from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Engine, Filter, Point, Query
from jazzmine_dspy.memory.procedural.numpy_engine import NumpyEngine
from jazzmine_dspy.memory.procedural.qdrant_engine import open_server
from reference_ranking import SIZE, vector

LAYOUT = CollectionSpec("flows", SIZE)


@pytest.fixture(params=["numpy", "server"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with contextlib.ExitStack() as stack:
        if request.param == "server":
            made: Engine = open_server(stack.enter_context(qdrant_server.server()).url, timeout=30.0)
        else:
            made = NumpyEngine()
        yield made
        made.close()
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


def test_a_vector_of_another_length_is_refused_when_it_is_written() -> None:
    engine = NumpyEngine()
    engine.upsert(LAYOUT, [point(1)])
    wrong = point(2)._replace(dense=vector("my order")[:-1])
    with pytest.raises(DimensionError, match=rf"'flows' has other vectors: {SIZE - 1} in a new point"):
        engine.upsert(LAYOUT, [point(3), wrong])
    assert [*held(engine)] == [point(1).id]
    assert len(engine.search(LAYOUT, [Query(dense=vector("my order"))], limit=9)[0]) == 1
