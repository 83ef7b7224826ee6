"""The engine over Qdrant's REST interface: what it sends, what it takes, and what it does where the server fails."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

import qdrant_server
import reference_ranking
from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.memory.procedural import qdrant_engine
from jazzmine_dspy.memory.procedural.engine import CollectionSpec, Engine, Filter, Point, Query
from jazzmine_dspy.memory.procedural.qdrant_engine import open_server
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from slept_time import Time

KEY = "a-very-secret-key"
LAYOUT = CollectionSpec("texts", 3)
QUERY = "POST /collections/{c}/points/query/batch"
UPSERT = "PUT /collections/{c}/points"


def _points(count: int = 5) -> list[Point]:
    return [
        Point(
            str(uuid.UUID(int=number + 1)),
            np.array([1.0, number, 0.5], dtype=np.float32),
            ([number % 2], [1.0 / (number + 1)]),
            {"agent_id": "a" if number < 4 else "b", "flow_name": f"flow_{number}", "kind": "example"},
        )
        for number in range(count)
    ]


BRANCHES = [
    Query(dense=np.array([1, 0, 0], dtype=np.float32)),
    Query(sparse=([1], [1.0])),
    Query(sparse=([], [])),
]


def _search(engine: Engine) -> list[list[str]]:
    found = engine.search(LAYOUT, BRANCHES, limit=3, where=Filter({"agent_id": ["a"]}), fields=("flow_name",))
    return [[hit.payload["flow_name"] for hit in hits] for hits in found]


@pytest.fixture
def running() -> Iterator[qdrant_server.QdrantDouble]:
    with qdrant_server.server() as running:
        yield running


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    """Pauses between attempts are counted, not slept."""
    time = Time(now=0.0)
    monkeypatch.setattr(qdrant_engine, "_pause", time.sleep)
    return time


@pytest.fixture
def engine(running: qdrant_server.QdrantDouble, time: Time) -> Iterator[Engine]:
    """An engine that does not sleep, on a server with five points."""
    engine = open_server(running.url)
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, _points())
    _search(engine)
    running.requests.clear()
    yield engine
    engine.close()


@pytest.mark.row("F4")
def test_all_lists_are_asked_for_in_one_round_trip_each_with_the_filter(
    running: qdrant_server.QdrantDouble, engine: Engine
) -> None:
    assert isinstance(engine, Engine)
    assert _search(engine) == [["flow_0", "flow_1", "flow_2"], ["flow_1", "flow_3"], []]
    assert running.requests == {QUERY: 1}
    _, _, body = running.queries[-1]
    assert [one["using"] for one in body["searches"]] == ["flow", "bm25"]
    assert all(one["filter"]["must"][0]["key"] == "agent_id" for one in body["searches"])


def test_writes_wait_and_syncs_read_from_a_majority(
    running: qdrant_server.QdrantDouble, engine: Engine
) -> None:
    engine.upsert(LAYOUT, _points(1))
    assert running.queries[-1][1] == {"wait": ["true"], "ordering": ["medium"]}
    engine.delete(LAYOUT, [_points(1)[0].id])
    assert running.queries[-1][1] == {"wait": ["true"], "ordering": ["medium"]}
    assert [payload for _, payload in engine.scroll(LAYOUT, Filter({"agent_id": ["b"]}), ("kind",))] == [
        {"kind": "example"}
    ]
    assert running.queries[-1][1] == {"consistency": ["majority"]}
    engine.upsert(LAYOUT, [])
    engine.delete(LAYOUT, [])


def test_long_lists_come_in_pages(
    running: qdrant_server.QdrantDouble, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jazzmine_dspy.memory.procedural.qdrant_engine._PAGE", 2)
    assert len(dict(engine.scroll(LAYOUT))) == 5
    assert running.requests == {"POST /collections/{c}/points/scroll": 3}


# --- failures that pass ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults", [[500], [503, 502], [429], ["cut"], ["cut_reply"], ["cut", 500, "cut_reply"]]
)
def test_what_passes_is_tried_again(
    running: qdrant_server.QdrantDouble, engine: Engine, time: Time, faults: list[Any]
) -> None:
    running.planned.extend(faults)
    assert _search(engine)[1] == ["flow_1", "flow_3"]
    running.planned.extend(faults)
    engine.upsert(LAYOUT, _points(6))
    assert running.count("texts") == 6
    assert running.requests[UPSERT] == running.requests[QUERY] == len(faults) + 1
    assert len(time.slept) == 2 * len(faults)


def test_tries_are_counted(running: qdrant_server.QdrantDouble, engine: Engine) -> None:
    running.always = 503
    with pytest.raises(MemoryUnavailableError, match=r"fails: 503"):
        _search(engine)
    assert running.requests[QUERY] == 4


@pytest.mark.chaos
def test_a_server_that_comes_back_is_found(running: qdrant_server.QdrantDouble, time: Time) -> None:
    engine = open_server(running.url)
    assert list(engine.scroll(LAYOUT)) == []
    running.stop()
    with pytest.raises(MemoryUnavailableError, match=rf"can't be reached.*127\.0\.0\.1:{running.port}"):
        list(engine.scroll(LAYOUT))
    with qdrant_server.server(port=running.port):
        assert list(engine.scroll(LAYOUT)) == []


@pytest.mark.chaos
@pytest.mark.row("F15", "U15")
def test_a_server_that_hangs_is_given_up(running: qdrant_server.QdrantDouble, time: Time) -> None:
    engine = open_server(running.url, timeout=0.1, retries=0)
    running.always = "hang"
    with pytest.raises(MemoryUnavailableError, match=r"did not answer within 0\.1 s"):
        engine.search(LAYOUT, BRANCHES, limit=1)
    engine.close()


def test_another_kind_of_server_is_distinguished_from_one_that_is_down(
    running: qdrant_server.QdrantDouble, engine: Engine
) -> None:
    running.always = "prose"
    with pytest.raises(MemoryUnavailableError, match="does not answer as a Qdrant server does"):
        _search(engine)
    assert running.requests == {QUERY: 1}


@pytest.mark.row("G4")
@pytest.mark.parametrize("status", [403, 422, 500, 507])
def test_the_words_of_a_server_are_not_repeated(
    running: qdrant_server.QdrantDouble, time: Time, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """They may quote the request."""
    engine = open_server(running.url, retries=0)

    def refuse(*_: Any, **__: Any) -> Any:
        raise UnexpectedResponse(status, "", b"No space left for: my pin 9876", httpx.Headers())

    monkeypatch.setattr(engine._reader, "query_batch_points", refuse)
    with pytest.raises(MemoryUnavailableError) as caught:
        _search(engine)
    assert "9876" not in str(caught.value)
    assert status == 403 or str(status) in str(caught.value)


# --- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 403, 409, 422])
def test_a_refusal_is_not_repeated(running: qdrant_server.QdrantDouble, engine: Engine, status: int) -> None:
    running.planned.append(status)
    with pytest.raises(MemoryUnavailableError):
        _search(engine)
    assert running.requests[QUERY] == 1


@pytest.mark.row("G4")
def test_the_key_is_sent_and_never_shown(time: Time) -> None:
    with qdrant_server.server(api_key=KEY) as running:
        engine = open_server(running.url, api_key=KEY)
        assert list(engine.scroll(LAYOUT)) == []
        running.always = 500  # the double repeats the key in its answer
        with pytest.raises(MemoryUnavailableError) as caught:
            list(engine.scroll(LAYOUT))
        assert "fails: 500" in str(caught.value)
        running.always = ""
        wrong = open_server(running.url, api_key="another-secret")
        running.requests.clear()
        with pytest.raises(MemoryUnavailableError, match="refuses the API key") as refused:
            list(wrong.scroll(LAYOUT))
        with pytest.raises(MemoryUnavailableError, match="needs an API key"):
            list(open_server(running.url).scroll(LAYOUT))
        assert running.requests == {"POST /collections/{c}/points/scroll": 2}
    for shown in (caught.value, refused.value, engine, wrong):
        assert KEY not in repr(shown) + str(shown)
        assert "another-secret" not in repr(shown) + str(shown)


def test_certificates_are_checked(tmp_path: Path, time: Time) -> None:
    authority, context = qdrant_server.certificates(tmp_path)
    with qdrant_server.server(context=context, api_key=KEY) as running:
        engine = open_server(running.url, api_key=KEY, verify=str(authority))
        engine.ensure(LAYOUT)
        engine.upsert(LAYOUT, _points())
        assert _search(engine)[1] == ["flow_1", "flow_3"]
        engine.close()
        with pytest.raises(MemoryUnavailableError, match=r"can't be reached.*verify="):
            list(open_server(running.url, api_key=KEY).scroll(LAYOUT))
    with pytest.raises(InputError, match="certificates"):
        open_server("https://127.0.0.1", verify=str(tmp_path / "absent.pem"))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "http://",
        "http://bot:hush@x:6333",
        "http://x?api_key=hush",
        "http://x:port",
    ],
)
def test_what_is_no_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError) as caught:
        open_server(url)
    assert "hush" not in str(caught.value)


def test_numbers_are_checked() -> None:
    inf, nan = float("inf"), float("nan")
    for settings in ({"timeout": 0}, {"timeout": inf}, {"timeout": nan}, {"retries": -1}):
        with pytest.raises(InputError):
            open_server("http://127.0.0.1:1", **settings)  # type: ignore[arg-type]


# --- collections -------------------------------------------------------------------------------------------


def test_a_collection_is_made_once_with_its_indexes(running: qdrant_server.QdrantDouble) -> None:
    engine = open_server(running.url)
    engine.ensure(LAYOUT)
    assert set(running.indexes["texts"]) == {"agent_id", "flow_name", "kind", "embedder"}
    params = running.client.get_collection("texts").config.params
    assert params.sparse_vectors is not None
    assert params.sparse_vectors["bm25"].modifier is models.Modifier.IDF
    written = running.writes
    engine.ensure(LAYOUT)
    assert running.writes == written


def test_another_process_may_make_the_collection_first(running: qdrant_server.QdrantDouble) -> None:
    engine, faster = open_server(running.url), open_server(running.url)

    def race(name: str, body: Any) -> None:
        if name == "PUT /collections/{c}":
            running.on_request = lambda name, body: None
            faster.ensure(LAYOUT)

    running.on_request = race
    engine.ensure(LAYOUT)
    assert running.requests["PUT /collections/{c}"] == 2
    engine.upsert(LAYOUT, _points())


@pytest.mark.parametrize(
    "vectors",
    [
        {"flow": models.VectorParams(size=4, distance=models.Distance.COSINE)},
        {"flow": models.VectorParams(size=3, distance=models.Distance.DOT)},
        {"other": models.VectorParams(size=3, distance=models.Distance.COSINE)},
        models.VectorParams(size=3, distance=models.Distance.COSINE),
    ],
)
def test_a_collection_of_other_vectors_is_left_as_it_is(
    running: qdrant_server.QdrantDouble, vectors: Any
) -> None:
    sparse = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
    running.client.create_collection("texts", vectors_config=vectors, sparse_vectors_config=sparse)
    engine = open_server(running.url)
    with pytest.raises(DimensionError, match=r"'texts'.*prefix or collection"):
        engine.ensure(LAYOUT)
    assert running.writes == 0


def test_a_collection_without_words_is_refused(running: qdrant_server.QdrantDouble) -> None:
    params = models.VectorParams(size=3, distance=models.Distance.COSINE)
    running.client.create_collection("texts", vectors_config={"flow": params})
    with pytest.raises(DimensionError, match=r"none of these names.*'bm25'"):
        open_server(running.url).ensure(LAYOUT)


def test_a_collection_that_is_gone_names_the_remedy(
    running: qdrant_server.QdrantDouble, engine: Engine
) -> None:
    running.client.delete_collection("texts")
    assert _search(engine) == [[], [], []]
    with pytest.raises(MemoryUnavailableError, match=r"no such collection.*flows sync"):
        engine.upsert(LAYOUT, _points())


@pytest.mark.row("F4")
def test_it_ranks_as_the_plain_reference_does(running: qdrant_server.QdrantDouble) -> None:
    engine = open_server(running.url, timeout=30.0)
    layout = CollectionSpec("random", reference_ranking.SIZE)
    points = reference_ranking.random_points(150)
    engine.ensure(layout)
    engine.upsert(layout, points)
    compared = reference_ranking.compare(engine, layout, reference_ranking.Reference(points), questions=60)
    assert compared.doubtful < 6
