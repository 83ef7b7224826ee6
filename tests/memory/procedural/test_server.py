"""The engine over Qdrant's REST interface: what it sends, what it takes, and what it does where the server fails."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

import qdrant_server
import reference_ranking
from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.memory.procedural import _server
from jazzmine_dspy.memory.procedural._server import ServerEngine
from jazzmine_dspy.memory.procedural.engine import Branch, Engine, Layout, StoredPoint
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from slept_time import Time

KEY = "a-very-secret-key"
LAYOUT = Layout("texts", 3)
QUERY = "POST /collections/{c}/points/query/batch"
UPSERT = "PUT /collections/{c}/points"


def _points(count: int = 5) -> list[StoredPoint]:
    return [
        StoredPoint(
            str(uuid.UUID(int=number + 1)),
            np.array([1.0, number, 0.5], dtype=np.float32),
            ([number % 2], [1.0 / (number + 1)]),
            {"agent_id": "a" if number < 4 else "b", "flow_name": f"flow_{number}", "kind": "example"},
        )
        for number in range(count)
    ]


BRANCHES = [
    Branch(dense=np.array([1, 0, 0], dtype=np.float32)),
    Branch(words=([1], [1.0])),
    Branch(words=([], [])),
]


def _search(engine: ServerEngine) -> list[list[str]]:
    found = engine.search(LAYOUT, BRANCHES, depth=3, where={"agent_id": ["a"]}, payload=("flow_name",))
    return [[hit.payload["flow_name"] for hit in hits] for hits in found]


@pytest.fixture
def running() -> Iterator[qdrant_server.QdrantDouble]:
    with qdrant_server.server() as running:
        yield running


@pytest.fixture
def time() -> Time:
    return Time(now=0.0)


@pytest.fixture
def engine(running: qdrant_server.QdrantDouble, time: Time) -> Iterator[ServerEngine]:
    """An engine whose clock stands still while it waits for answers, on a server with five points."""
    engine = ServerEngine(running.url, clock=time.clock, sleep=time.sleep, chance=lambda: 0.5)
    engine.ensure(LAYOUT)
    engine.upsert(LAYOUT, _points())
    _search(engine)
    running.requests.clear()
    yield engine
    engine.close()


@pytest.mark.row("F4")
def test_all_lists_are_asked_for_in_one_round_trip_each_with_the_filter(
    running: qdrant_server.QdrantDouble, engine: ServerEngine
) -> None:
    assert isinstance(engine, Engine)
    assert _search(engine) == [["flow_0", "flow_1", "flow_2"], ["flow_1", "flow_3"], []]
    assert running.requests == {QUERY: 1}
    _, _, body = running.queries[-1]
    assert [one["using"] for one in body["searches"]] == ["flow", "bm25"]
    assert all(one["filter"]["must"][0]["key"] == "agent_id" for one in body["searches"])
    assert body["searches"][0]["params"] == {"exact": True}
    assert engine.search(LAYOUT, BRANCHES[:1], depth=3, where={"agent_id": []}) == [[]]
    assert running.requests == {QUERY: 1}


def test_a_large_collection_may_be_searched_approximately(
    running: qdrant_server.QdrantDouble, engine: ServerEngine, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_server, "EXACT_UP_TO", 4)
    time.now += 1000.0
    _search(engine)
    assert "params" not in running.queries[-1][2]["searches"][0]


def test_writes_wait_and_syncs_read_from_a_majority(
    running: qdrant_server.QdrantDouble, engine: ServerEngine
) -> None:
    engine.upsert(LAYOUT, _points(1))
    assert running.queries[-1][1] == {"wait": ["true"], "ordering": ["medium"]}
    engine.delete(LAYOUT, [_points(1)[0].id])
    assert running.queries[-1][1] == {"wait": ["true"], "ordering": ["medium"]}
    assert [payload for _, payload in engine.scroll(LAYOUT, {"agent_id": ["b"]}, ("kind",))] == [
        {"kind": "example"}
    ]
    assert running.queries[-1][1] == {"consistency": ["majority"]}
    engine.upsert(LAYOUT, [])
    engine.delete(LAYOUT, [])
    assert engine.collections() == ["texts"]
    engine.drop("texts")
    engine.drop("texts")
    assert engine.collections() == []


def test_long_lists_come_in_pages(
    running: qdrant_server.QdrantDouble, engine: ServerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_server, "_PAGE", 2)
    assert len(dict(engine.scroll(LAYOUT, {}))) == 5
    assert running.requests == {"POST /collections/{c}/points/scroll": 3}


# --- failures that pass ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults", [[500], [503, 502], [429], ["cut"], ["cut_reply"], ["cut", 500, "cut_reply"]]
)
def test_what_passes_is_tried_again(
    running: qdrant_server.QdrantDouble, engine: ServerEngine, time: Time, faults: list[Any]
) -> None:
    running.planned.extend(faults)
    assert _search(engine)[1] == ["flow_1", "flow_3"]
    running.planned.extend(faults)
    engine.upsert(LAYOUT, _points(6))
    assert running.count("texts") == 6
    assert running.requests[UPSERT] == running.requests[QUERY] == len(faults) + 1
    assert time.slept == pytest.approx([0.05, 0.1, 0.2][: len(faults)] * 2)


def test_tries_are_counted(running: qdrant_server.QdrantDouble, engine: ServerEngine) -> None:
    running.always = 503
    with pytest.raises(MemoryUnavailableError, match=r"fails: 503"):
        _search(engine)
    assert running.requests[QUERY] == 4


def test_all_tries_share_one_deadline(running: qdrant_server.QdrantDouble, time: Time) -> None:
    engine = ServerEngine(
        running.url, timeout=1.0, retries=100, clock=time.clock, sleep=time.sleep, chance=lambda: 0.5
    )
    running.always = 500
    with pytest.raises(MemoryUnavailableError):
        engine.collections()
    assert 0.5 < time.now < 1.0
    assert len(time.slept) == 4


def test_a_server_may_say_when_to_come_back(
    running: qdrant_server.QdrantDouble, engine: ServerEngine, time: Time
) -> None:
    running.retry_after = "1"
    running.planned.append(429)
    _search(engine)
    assert time.slept == [1.0]
    running.retry_after = "60"
    running.always = 429
    with pytest.raises(MemoryUnavailableError, match="overloaded"):
        _search(engine)
    assert time.slept == [1.0]


@pytest.mark.chaos
@pytest.mark.parametrize("fault", ["hang", "drip", "drip_headers"])
def test_a_slow_server_does_not_keep_anybody_beyond_the_deadline(
    running: qdrant_server.QdrantDouble, fault: str
) -> None:
    engine = ServerEngine(running.url, timeout=0.15)
    running.always = fault
    with pytest.raises(MemoryUnavailableError, match=r"did not answer within 0\.15 s"):
        engine.collections()
    assert running.waited_out == 0
    engine.close()


@pytest.mark.chaos
def test_a_server_that_comes_back_is_found(running: qdrant_server.QdrantDouble, time: Time) -> None:
    engine = ServerEngine(running.url, clock=time.clock, sleep=time.sleep)
    assert engine.collections() == []
    running.stop()
    with pytest.raises(MemoryUnavailableError, match=rf"can't be reached.*127\.0\.0\.1:{running.port}"):
        engine.collections()
    with qdrant_server.server(port=running.port):
        assert engine.collections() == []


# --- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
def test_a_refusal_is_not_repeated(
    running: qdrant_server.QdrantDouble, engine: ServerEngine, status: int
) -> None:
    running.planned.append(status)
    with pytest.raises(MemoryUnavailableError):
        _search(engine)
    assert running.requests[QUERY] == 1


def test_the_key_is_sent_and_never_shown(time: Time) -> None:
    with qdrant_server.server(api_key=KEY) as running:
        engine = ServerEngine(running.url, api_key=KEY, clock=time.clock, sleep=time.sleep)
        assert engine.collections() == []
        running.always = 500  # the double repeats the key in its answer
        with pytest.raises(MemoryUnavailableError) as caught:
            engine.collections()
        assert "fails: 500" in str(caught.value)
        running.always = ""
        wrong = ServerEngine(running.url, api_key="another-secret", sleep=time.sleep)
        running.requests.clear()
        with pytest.raises(MemoryUnavailableError, match="refuses the API key") as refused:
            wrong.collections()
        with pytest.raises(MemoryUnavailableError, match="wants an API key"):
            ServerEngine(running.url).collections()
        assert running.requests == {"GET /collections": 2}
    for shown in (caught.value, refused.value, engine, wrong, engine._calls):
        assert KEY not in repr(shown) + str(shown)
        assert "another-secret" not in repr(shown) + str(shown)


def test_a_key_over_plain_http_is_warned_of_once(caplog: pytest.LogCaptureFixture, recwarn: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
        for url in ("http://qdrant.example:6333", "http://qdrant.example:6333/", "http://127.0.0.1:1"):
            ServerEngine(url, api_key=KEY).close()
        ServerEngine("https://qdrant.example", api_key=KEY).close()
        ServerEngine("http://other.example:6333").close()
    [told] = [record.getMessage() for record in caplog.records]
    assert "http://qdrant.example:6333" in told
    assert KEY not in told
    assert not recwarn.list


def test_another_kind_of_server_is_told_from_one_that_is_down(
    running: qdrant_server.QdrantDouble, engine: ServerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.always = "prose"
    with pytest.raises(MemoryUnavailableError, match="answers what no Qdrant server does"):
        engine.collections()
    assert running.requests == {"GET /collections": 1}
    monkeypatch.setattr(engine._calls.client, "query_batch_points", lambda *_, **__: [])
    with pytest.raises(MemoryUnavailableError, match="answers 0 of 2 questions"):
        _search(engine)


def test_certificates_are_checked(tmp_path: Path, time: Time) -> None:
    authority, context = qdrant_server.certificates(tmp_path)
    with qdrant_server.server(context=context, api_key=KEY) as running:
        engine = ServerEngine(running.url, api_key=KEY, verify=str(authority))
        engine.ensure(LAYOUT)
        engine.upsert(LAYOUT, _points())
        assert _search(engine)[1] == ["flow_1", "flow_3"]
        engine.close()
        with pytest.raises(MemoryUnavailableError, match=r"no certificate that is trusted.*verify="):
            ServerEngine(running.url, api_key=KEY, sleep=time.sleep).collections()
    assert time.slept == []
    with pytest.raises(InputError, match="certificates"):
        ServerEngine("https://127.0.0.1", verify=str(tmp_path / "absent.pem"))


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6333",
        "ftp://x",
        "http://",
        "http://bot:hush@x:6333",
        "http://x?api_key=hush",
        "http://x:port",
    ],
)
def test_what_is_no_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError) as caught:
        ServerEngine(url)
    assert "hush" not in str(caught.value)


def test_numbers_are_checked() -> None:
    inf, nan = float("inf"), float("nan")
    for settings in ({"timeout": 0}, {"timeout": inf}, {"timeout": nan}, {"retries": -1}):
        with pytest.raises(InputError):
            ServerEngine("http://127.0.0.1:1", **settings)  # type: ignore[arg-type]


# --- collections -------------------------------------------------------------------------------------------


def test_a_collection_is_made_once_with_its_indexes(running: qdrant_server.QdrantDouble) -> None:
    engine = ServerEngine(running.url)
    engine.ensure(LAYOUT)
    assert set(running.indexes["texts"]) == {"agent_id", "flow_name", "kind"}
    params = running.client.get_collection("texts").config.params
    assert params.sparse_vectors is not None
    assert params.sparse_vectors["bm25"].modifier is models.Modifier.IDF
    written = running.writes
    engine.ensure(LAYOUT)
    assert running.writes == written


def test_another_process_may_make_the_collection_first(running: qdrant_server.QdrantDouble) -> None:
    engine, faster = ServerEngine(running.url), ServerEngine(running.url)

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
    engine = ServerEngine(running.url)
    with pytest.raises(DimensionError, match=r"'texts'.*prefix or collection"):
        engine.ensure(LAYOUT)
    assert running.writes == 0


def test_a_search_of_another_length_is_told_apart(engine: ServerEngine) -> None:
    with pytest.raises(DimensionError, match="expected dim: 3, got 4"):
        engine.search(LAYOUT, [Branch(dense=np.ones(4, dtype=np.float32))], depth=1, where={})


def test_a_collection_without_words_is_refused(running: qdrant_server.QdrantDouble) -> None:
    params = models.VectorParams(size=3, distance=models.Distance.COSINE)
    running.client.create_collection("texts", vectors_config={"flow": params})
    with pytest.raises(DimensionError, match="no sparse vector 'bm25'"):
        ServerEngine(running.url).ensure(LAYOUT)


def test_a_collection_that_is_gone_names_the_remedy(
    running: qdrant_server.QdrantDouble, engine: ServerEngine
) -> None:
    running.client.delete_collection("texts")
    with pytest.raises(MemoryUnavailableError, match=r"no collection 'texts'.*flows sync"):
        _search(engine)


def test_a_closed_engine_says_so(engine: ServerEngine) -> None:
    engine.close()
    engine.close()
    with pytest.raises(MemoryUnavailableError, match="closed"):
        engine.collections()


@pytest.mark.row("F4")
def test_it_ranks_as_the_plain_reference_does(running: qdrant_server.QdrantDouble) -> None:
    engine = ServerEngine(running.url, timeout=30.0)
    layout = Layout("random", reference_ranking.SIZE)
    points = reference_ranking.random_points(150)
    engine.ensure(layout)
    engine.upsert(layout, points)
    compared = reference_ranking.compare(engine, layout, reference_ranking.Reference(points), questions=60)
    assert compared.doubtful < 6
