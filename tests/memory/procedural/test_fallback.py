"""Recall goes on where procedural memory is down, and says so."""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pytest

import qdrant_server
from jazzmine_dspy import FlowRegistry, Runtime, TurnProgram
from jazzmine_dspy.memory.errors import DimensionError
from jazzmine_dspy.memory.procedural import (
    FallbackRecall,
    FlowIndex,
    FlowRecall,
    QdrantProceduralMemory,
    RecallSettings,
)
from jazzmine_dspy.models.decision import Degraded, Recalled
from jazzmine_dspy.models.errors import EmbeddingError, MemoryUnavailableError, format_error
from jazzmine_dspy.models.ports import RecallPort
from word_embedder import WordEmbedder


class Port:
    """Answers with its own name, or fails."""

    def __init__(self, name: str = "primary") -> None:
        self.name = name
        self.fingerprint = f"port:{name}"
        self.failing: Exception | None = None
        self.asked = 0
        self.closed = False

    def recall(
        self,
        query: str,
        *,
        k: int,
        summaries: Sequence[str] = (),
        allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:
        self.asked += 1
        if self.failing is not None:
            raise self.failing
        return [Recalled(self.name, 1.0)]

    def close(self) -> None:
        self.closed = True


class Clock:
    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time by which the memory is left alone."""
    clock = Clock()
    monkeypatch.setattr("circuitbreaker.monotonic", lambda: clock.now)
    return clock


DOWN = MemoryUnavailableError("Qdrant can't be reached", where="http://qdrant:6333")


@pytest.mark.row("F15")
async def test_a_stand_in_answers_and_the_answer_says_so(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    primary, made = Port(), []

    def stand_in() -> Port:
        made.append(Port("stand-in"))
        return made[-1]

    port = FallbackRecall(primary, stand_in)
    assert isinstance(port, RecallPort)
    found = port.recall("hello", k=3)
    assert (found, type(found), made) == ([Recalled("primary", 1.0)], list, [])

    primary.failing = DOWN
    with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
        for _ in range(5):
            found = port.recall("hello", k=3)
            assert isinstance(found, Degraded)
            assert found == [Recalled("stand-in", 1.0)]
            assert "can't be reached" in found.cause
    assert (primary.asked, len(made)) == (2, 1)
    assert "can't be reached" in port.down
    assert len(caplog.records) == 1

    clock.now = 131.0
    assert isinstance(port.recall("hello", k=3), Degraded)
    assert primary.asked == 3
    primary.failing = None
    assert isinstance(port.recall("hello", k=3), Degraded)
    clock.now = 162.0
    assert port.recall("hello", k=3) == [Recalled("primary", 1.0)]
    assert (port.down, type(port.recall("hello", k=3))) == ("", list)


@pytest.mark.row("F15")
def test_without_a_stand_in_the_answer_is_empty() -> None:
    primary = Port()
    primary.failing = DimensionError("The collection holds vectors of another length")
    found = FallbackRecall(primary, None).recall("hello", k=3)
    assert isinstance(found, Degraded)
    assert (list(found), "another length" in found.cause) == ([], True)
    broken = Port("stand-in")
    broken.failing = MemoryUnavailableError("No room for the index")
    found = FallbackRecall(primary, lambda: broken).recall("hello", k=3)
    assert isinstance(found, Degraded)
    assert found == []
    assert "another length" in found.cause
    assert "No room" in found.cause


def test_other_errors_are_not_hidden() -> None:
    primary = Port()
    port = FallbackRecall(primary, lambda: Port("stand-in"))
    for error in (EmbeddingError("The model is missing"), ValueError("a fault of ours")):
        primary.failing = error
        with pytest.raises(type(error)):
            port.recall("hello", k=3)


def test_one_tries_again_while_the_others_do_not_wait(clock: Clock) -> None:
    port: FallbackRecall | None = None
    seen: list[Any] = []

    class Trying(Port):
        def recall(self, query: str, **request: Any) -> list[Recalled]:
            if clock.now > 100.0 and not seen:
                assert port is not None
                seen.append(None)
                seen.append(port.recall("another", k=1))
            raise DOWN

    port = FallbackRecall(Trying(), lambda: Port("stand-in"))
    port.recall("hello", k=1)
    clock.now = 131.0
    port.recall("hello", k=1)
    assert isinstance(seen[1], Degraded)
    assert seen[1].cause == format_error(DOWN)


def test_clearing_the_cache_tries_again_at_once() -> None:
    primary = Port()
    primary.failing = DOWN
    port = FallbackRecall(primary, lambda: Port("stand-in"))
    port.recall("hello", k=1)
    primary.failing = None
    port.clear_cache()
    assert port.recall("hello", k=1) == [Recalled("primary", 1.0)]
    assert copy.deepcopy(port) is port
    assert port.fingerprint == primary.fingerprint
    assert not hasattr(port, "registry")


# --- with a server and a runtime ---------------------------------------------------------------------------

FLOWS = [
    {"name": "track_order", "description": "Tell where an order is.", "examples": ["where is my order"]},
    {"name": "buy_hat", "description": "Sell a hat.", "examples": ["I want a hat", "a hat please"]},
]


@pytest.fixture
def running() -> Iterator[qdrant_server.QdrantDouble]:
    with qdrant_server.server() as running:
        yield running


def _memory(running: qdrant_server.QdrantDouble) -> QdrantProceduralMemory:
    return QdrantProceduralMemory(running.url, embedder=WordEmbedder())


async def _decided(runtime: Runtime, text: str) -> tuple[list[str], bool, str]:
    outcome = await runtime.process(conversation_id=text, user_id="u", text=text)
    assert outcome.decision is not None
    found = [name for name, _ in outcome.decision.selection.candidates]
    record = outcome.decision.stages["select"]
    return found, record.degraded, record.cause or ""


@pytest.mark.row("F15")
@pytest.mark.chaos
async def test_a_runtime_goes_on_while_the_server_is_down(running: qdrant_server.QdrantDouble) -> None:
    registry = FlowRegistry(FLOWS, agent_id="shop")
    async with _memory(running) as memory:
        await memory.sync(registry, "shop")
        program = TurnProgram(registry).with_policy("fallback").bind(embedder=WordEmbedder())
        runtime = Runtime(program, procedural_memory=memory, agent_id="shop")
        found, degraded, _ = await _decided(runtime, "a hat please")
        assert (found[0], degraded) == ("buy_hat", False)
        running.always = 503
        found, degraded, cause = await _decided(runtime, "I want a hat")
        assert (found[0], degraded) == ("buy_hat", True)
        assert "503" in cause


@pytest.mark.row("F15")
async def test_a_runtime_without_a_stand_in_selects_nothing() -> None:
    registry = FlowRegistry(FLOWS, agent_id="shop")
    program = TurnProgram(registry).with_policy("fallback")
    primary = Port()
    primary.failing = DOWN
    runtime = Runtime(program, procedural_memory=primary, agent_id="shop")
    found, degraded, cause = await _decided(runtime, "I want a hat")
    assert (found, degraded) == ([], True)
    assert "can't be reached" in cause


@pytest.mark.row("F14")
async def test_a_stale_entry_reaches_no_decision(
    running: qdrant_server.QdrantDouble, caplog: pytest.LogCaptureFixture
) -> None:
    gone = {"name": "buy_shoes", "description": "Sell shoes.", "examples": ["I want shoes", "shoes please"]}
    async with _memory(running) as memory:
        await memory.sync(FlowRegistry([*FLOWS, gone]), "shop")
        program = TurnProgram(FlowRegistry(FLOWS)).with_policy("fallback")
        runtime = Runtime(program, procedural_memory=memory, agent_id="shop")
        with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
            found, degraded, _ = await _decided(runtime, "shoes please")
        assert "buy_shoes" not in found
        assert not degraded
        assert [r.getMessage() for r in caplog.records if "registry does not have" in r.getMessage()] == [
            "memory has flows that the registry does not have: buy_shoes"
        ]


async def test_the_stand_in_is_the_registrys_own_index(running: qdrant_server.QdrantDouble) -> None:
    registry = FlowRegistry(FLOWS, agent_id="shop")
    async with _memory(running) as memory:
        runtime = Runtime(TurnProgram(registry), procedural_memory=memory, agent_id="shop")
        bound = runtime.program.bindings.recall
        assert isinstance(bound, FallbackRecall)
        assert isinstance(bound.primary, FlowRecall)
        assert bound._make_fallback is not None
        stand_in = bound._make_fallback()
        assert isinstance(stand_in, FlowIndex)
        assert stand_in.registry is registry
        assert bound.registry is registry


async def test_the_programs_own_index_stands_in_with_its_examples_and_its_ranking(
    running: qdrant_server.QdrantDouble,
) -> None:
    registry, model = FlowRegistry(FLOWS, agent_id="shop"), WordEmbedder()
    with FlowIndex(registry, model, settings=RecallSettings(rrf_k=33)) as index:
        async with _memory(running) as memory:
            program = TurnProgram(registry).bind(recall=index, embedder=model)
            bound = Runtime(program, procedural_memory=memory, agent_id="shop").program.bindings.recall
            assert isinstance(bound, FallbackRecall)
            assert bound._make_fallback is not None
            assert bound._make_fallback() is index
            assert bound.primary.settings.rrf_k == 33
            again = Runtime(program, procedural_memory=bound)
            assert again.program.bindings.recall is bound
            assert program.bindings.recall is index
            assert index.recall("a hat please", k=1)[0].name == "buy_hat"


async def test_memory_without_the_programs_labelled_turns_is_told_of(
    running: qdrant_server.QdrantDouble, caplog: pytest.LogCaptureFixture
) -> None:
    registry, model = FlowRegistry(FLOWS, agent_id="shop"), WordEmbedder()
    turns = [("a bowler please", "buy_hat", "c1"), ("something for my head", "buy_hat", "c2")]
    with FlowIndex(registry, model, examples=turns) as index:
        for synced, told in (([], 1), (turns[:1], 1), (turns, 0)):
            async with _memory(running) as memory:
                await memory.sync(registry, "shop", examples=synced)
                program = TurnProgram(registry).bind(recall=index, embedder=model)
                bound = Runtime(program, procedural_memory=memory, agent_id="shop").program.bindings.recall
                assert isinstance(bound, FallbackRecall)
                caplog.clear()
                with caplog.at_level(logging.WARNING, logger="jazzmine_dspy"):
                    bound.recall("a hat please", k=1)
                assert [record.getMessage() for record in caplog.records] == [
                    "memory differs from the registry or its examples, run a sync: buy_hat"
                ] * told
