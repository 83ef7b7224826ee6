"""Every engine keeps the promises of procedural memory: embedded ones, and a server; in both layouts."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

import qdrant_server
from jazzmine_dspy.memory.procedural import QdrantProceduralMemory
from jazzmine_dspy.testing.procedural_memory import Harness, RecallSuite, SharingSuite, SyncSuite


class _Embedded(Harness):
    def __init__(self, engine: str, layout: Any = "examples") -> None:
        self.engine = engine
        self.layout = layout

    def make(self, **settings: Any) -> QdrantProceduralMemory:
        return QdrantProceduralMemory(":memory:", engine=self.engine, sleep=lambda _: None, **settings)


class _Server(Harness):
    def __init__(self, running: qdrant_server.QdrantDouble, layout: Any = "examples") -> None:
        self.running = running
        self.layout = layout

    def make(self, **settings: Any) -> QdrantProceduralMemory:
        return QdrantProceduralMemory(
            self.running.url, **{"timeout": 30.0, "sleep": lambda _: None, **settings}
        )

    def another(self, **settings: Any) -> QdrantProceduralMemory:
        return self.make(**settings)


@pytest.fixture
def running() -> Iterator[qdrant_server.QdrantDouble]:
    with qdrant_server.server() as running:
        yield running


class _Everywhere:
    @pytest.fixture(params=["edge", "local, jazzmine's layout", "server"])
    def harness(self, request: pytest.FixtureRequest) -> Harness:
        engine, _, layout = str(request.param).partition(", ")
        if engine == "server":
            return _Server(request.getfixturevalue("running"))
        if engine == "edge" and find_spec("qdrant_edge") is None:
            pytest.skip("qdrant-edge-py is not installed")
        return _Embedded(engine, "jazzmine" if layout else "examples")


@pytest.mark.row("F3")
class TestSync(_Everywhere, SyncSuite):
    pass


@pytest.mark.row("F4", "F14")
class TestRecall(_Everywhere, RecallSuite):
    pass


@pytest.mark.row("F3")
class TestSharing(SharingSuite):
    @pytest.fixture(params=["examples", "jazzmine"])
    def harness(self, request: pytest.FixtureRequest, running: qdrant_server.QdrantDouble) -> Harness:
        return _Server(running, request.param)
