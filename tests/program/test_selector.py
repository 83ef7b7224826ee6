"""FlowSelector: its signature, its result, and what it can be made of (row F13)."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import dspy
import pytest

from jazzmine_dspy import FlowRegistry, TurnProgram
from jazzmine_dspy.lm.engines import scripted_lm, user_text
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from jazzmine_dspy.models.turn import MAX_TEXT
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled, SelectionOutput
from jazzmine_dspy.program.selector import FlowSelectionResult, FlowSelector
from openai_server import serving

FLOWS = [
    {
        "name": "track_order",
        "description": "Tell where an order is.",
        "condition": "The customer asks where a parcel is.",
        "desired_effects": ["The customer knows the day."],
        "examples": ["where is my order"],
    },
    {
        "name": "cancel_order",
        "description": "Call off an order.",
        "condition": "The customer wants an order not to be sent.",
        "desired_effects": ["Nothing is charged."],
    },
    {"name": "return_item", "description": "Send something back <today>.", "examples": ["take it back"]},
    {"name": "gift_card", "description": "Sell a gift card."},
]


@pytest.fixture
def registry() -> FlowRegistry:
    return FlowRegistry(FLOWS, agent_id="shop")


class Memory:
    """A procedural memory as jazzmine has it: mappings, by id."""

    def __init__(self, *found: tuple[str, float], flow_ids: bool = True) -> None:
        self.found = found
        self.flow_ids = flow_ids
        self.asked: list[dict[str, Any]] = []

    async def recall(self, query: str, agent_id: str, top_k: int, rrf_k: int) -> list[dict[str, Any]]:
        self.asked.append({"query": query, "agent_id": agent_id, "top_k": top_k, "rrf_k": rrf_k})
        registry = FlowRegistry(FLOWS)
        return [
            {
                "flow_id": registry[name].id_for(agent_id) if name in registry else f"id of {name}",
                "flow_name": name,
                "description": "from memory",
                "condition": "",
                "score": score,
            }
            for name, score in self.found
        ]


class Port:
    """A recall port."""

    fingerprint = "port"

    def __init__(self, *found: tuple[str, float], error: Exception | None = None) -> None:
        self.found = found
        self.error = error
        self.asked: list[dict[str, Any]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Port:
        return self

    def recall(
        self, query: str, *, k: int, summaries: Sequence[str] = (), allowed: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> list[Recalled]:  # fmt: skip
        self.asked.append({"query": query, "k": k, "summaries": tuple(summaries)})
        if self.error is not None:
            raise self.error
        return [Recalled(*one) for one in self.found][:k]


THREE = (("track_order", 0.16), ("cancel_order", 0.14), ("return_item", 0.09))
QUERY = "Where is order 4471?"


def lm(*letters: str, schema: bool = True) -> Any:
    answer = ",".join(f'"{letter}"' for letter in letters)
    return scripted_lm({QUERY: f'{{"flows":[{answer}]}}'}, schema=schema)


def down(error: Exception | None = None) -> Any:
    return scripted_lm(lambda _: error or dspy.LMTimeoutError("too slow"))


def names(result: FlowSelectionResult) -> list[str]:
    return [flow.name for flow in result.chosen_flows]


# --- signature and result ---------------------------------------------------------------------------------


@pytest.mark.row("F13")
def test_the_signatures_are_those_of_the_reference() -> None:
    made = inspect.signature(FlowSelector).parameters
    assert [(name, parameter.default) for name, parameter in made.items()] == [
        ("llm", inspect.Parameter.empty),
        ("flow_registry", inspect.Parameter.empty),
        ("proc_mem", None),
        ("agent_id", ""),
        ("top_k", 3),
        ("rrf_k", 10),
    ]
    asked = inspect.signature(FlowSelector.select).parameters
    assert list(asked) == ["self", "enhanced_query", "candidates", "episode_summaries"]
    assert asked["candidates"].default is asked["episode_summaries"].default is None
    assert inspect.iscoroutinefunction(FlowSelector.select)
    assert {"chosen_flows", "chosen_prompts", "combined_prompt", "unresolved_ids", "candidates"} <= set(
        FlowSelectionResult.__dataclass_fields__
    )


@pytest.mark.row("F13")
async def test_a_selection_in_full(registry: FlowRegistry) -> None:
    memory = Memory(*THREE)
    selector = FlowSelector(lm("B", "A"), registry, memory, agent_id="shop")
    result = await selector.select(QUERY)
    assert result.chosen_flows == [registry["cancel_order"], registry["track_order"]]
    assert result.chosen_prompts == [flow.build_prompt(verbose=False) for flow in result.chosen_flows]
    assert result.combined_prompt == "\n\n".join(result.chosen_prompts)
    assert "<example>" not in result.combined_prompt
    assert result.candidates == await memory.recall(QUERY, "shop", 3, 10)
    assert memory.asked[0] == {"query": QUERY, "agent_id": "shop", "top_k": 3, "rrf_k": 10}
    assert result.scores == dict(THREE)
    assert (result.source, result.mode, result.degraded, result.cause) == ("lm", "sequential", False, None)
    assert result.confidence == 0.5
    assert result.reason
    assert result.unresolved_ids == []


@pytest.mark.row("F13")
async def test_a_recall_port_serves_as_memory_and_gets_the_summaries(registry: FlowRegistry) -> None:
    port = Port(*THREE)
    result = await FlowSelector(lm("A"), registry, port, top_k=2).select(QUERY, episode_summaries=["a rug"])
    assert [(asked["query"], asked["k"]) for asked in port.asked] == [(QUERY, 2), ("a rug", 2)]
    assert names(result) == ["track_order"]
    assert [candidate["flow_name"] for candidate in result.candidates] == ["track_order", "cancel_order"]
    assert result.candidates[0] == {
        "flow_id": registry["track_order"].id_for("shop"),
        "flow_name": "track_order",
        "description": "Tell where an order is.",
        "condition": "The customer asks where a parcel is.",
        "score": 0.16,
    }


@pytest.mark.row("F13")
@pytest.mark.parametrize(
    "given",
    [
        [{"flow_name": "return_item", "score": 0.5}, {"flow_name": "gift_card", "score": 0.1}],
        [("return_item", 0.5), ("gift_card", 0.1)],
        [Recalled("return_item", 0.5), Recalled("gift_card", 0.1)],
    ],
)
async def test_candidates_that_are_given_take_the_place_of_recall(
    registry: FlowRegistry, given: list[Any]
) -> None:
    memory = Memory(*THREE)
    result = await FlowSelector(lm("B"), registry, memory).select(QUERY, candidates=given)
    assert memory.asked == []
    assert names(result) == ["gift_card"]
    assert result.scores == {"return_item": 0.5, "gift_card": 0.1}


@pytest.mark.row("F13")
async def test_nothing_to_choose_from_gives_an_empty_result(registry: FlowRegistry) -> None:
    model = lm("A")
    for selector, given in (
        (FlowSelector(model, registry), None),
        (FlowSelector(model, registry, Memory()), None),
        (FlowSelector(model, registry, Memory(*THREE)), []),
        (FlowSelector(model, {}), None),
    ):
        result = await selector.select(QUERY, candidates=given)
        assert (result.chosen_flows, result.combined_prompt, result.candidates) == ([], "", [])
        assert (result.degraded, result.source) == (False, "")
    assert model.engine.calls == 0


@pytest.mark.row("F13")
async def test_a_candidate_is_found_by_the_callers_own_id(registry: FlowRegistry) -> None:
    by_id = {f"uuid-{name}": flow for name, flow in registry.items()}
    found = [{"flow_id": "uuid-cancel_order", "flow_name": "renamed since", "score": 0.2}]
    result = await FlowSelector(lm("A"), by_id).select(QUERY, candidates=found)
    assert result.chosen_flows == [registry["cancel_order"]]


@pytest.mark.row("F13")
async def test_stale_entries_are_reported_and_not_offered(
    registry: FlowRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    model = lm("A")
    memory = Memory(("sold_out", 0.9), *THREE, ("sold_out", 0.1))
    with caplog.at_level(logging.WARNING, "jazzmine_dspy"):
        result = await FlowSelector(model, registry, memory, "shop", top_k=5).select(QUERY)
    assert result.unresolved_ids == ["id of sold_out"]
    assert caplog.messages == ["memory has flows that the registry does not have: id of sold_out"]
    assert names(result) == ["track_order"]
    assert "sold_out" not in user_text(model.engine.requests[0])
    assert len(result.candidates) == 5


async def test_only_stale_candidates_are_nothing_to_choose_from(registry: FlowRegistry) -> None:
    model = lm("A")
    result = await FlowSelector(model, registry, Memory(("sold_out", 0.9))).select(QUERY)
    assert (result.chosen_flows, result.unresolved_ids) == ([], ["id of sold_out"])
    assert model.engine.calls == 0


@pytest.mark.parametrize("text", ["", "  ", "x" * (MAX_TEXT + 1)])
async def test_a_query_that_cannot_be_a_turn_is_refused(registry: FlowRegistry, text: str) -> None:
    with pytest.raises(InputError, match="text"):
        await FlowSelector(lm(), registry, Memory(*THREE)).select(text)


@pytest.mark.parametrize(
    ("llm", "top_k", "match"),
    [("scripted", 0, "top_k"), ("scripted", 9, "top_k"), ("scripted", "3", "top_k"), ("scripted", 2.5, "top_k"),
     (object(), 3, "not a language model"), ("gpt", 3, "names no provider")],
)  # fmt: skip
def test_what_a_selector_cannot_be_made_of(registry: FlowRegistry, llm: Any, top_k: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        FlowSelector(lm() if llm == "scripted" else llm, registry, top_k=top_k)


async def test_a_name_that_dspy_takes_is_a_language_model(
    registry: FlowRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That model is asked, with the choice as the schema of its answer."""
    importlib.import_module("litellm")  # which takes seconds, and they are not the first turn's
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving('{"flows": ["B"]}') as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.address)
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        result = await FlowSelector("openai/gpt-4o-mini", registry, Memory(*THREE), "shop").select(QUERY)
    assert (names(result), result.degraded) == (["cancel_order"], False)
    [(_, body)] = server.asked
    assert (body["model"], body["temperature"]) == ("gpt-4o-mini", 0)
    assert '"enum": ["A", "B", "C"]' in json.dumps(body["response_format"])


async def test_an_object_with_agenerate_is_a_language_model(registry: FlowRegistry) -> None:
    class BaseLLM:
        async def agenerate(self, messages: Any, **_: Any) -> Any:
            self.asked = [part.role for part in messages]
            return SimpleNamespace(text='{"flows": ["B"]}')

    llm = BaseLLM()
    result = await FlowSelector(llm, registry, Memory(*THREE)).select(QUERY)
    assert (names(result), result.degraded) == (["cancel_order"], False)
    assert llm.asked == ["system", "user"]


async def test_a_memory_that_is_down_degrades_and_raises_nothing(registry: FlowRegistry) -> None:
    model = lm("A")
    port = Port(error=MemoryUnavailableError("No answer from memory"))
    result = await FlowSelector(model, registry, port).select(QUERY)
    assert (result.chosen_flows, result.degraded) == ([], True)
    assert result.cause is not None
    assert "No answer from memory" in result.cause
    assert model.engine.calls == 0


async def test_summaries_help_a_foreign_memory_and_do_not_swamp_the_message(registry: FlowRegistry) -> None:
    class Two(Memory):
        async def recall(self, query: str, agent_id: str, top_k: int, rrf_k: int) -> list[dict[str, Any]]:
            self.found = (
                (("track_order", 0.2),) if query == QUERY else (("gift_card", 0.9), ("return_item", 0.4))
            )
            return await super().recall(query, agent_id, top_k, rrf_k)

    memory = Two()
    result = await FlowSelector(lm("A"), registry, memory, "shop").select(
        QUERY, episode_summaries=["about a rug", "about a gift card"]
    )
    assert [asked["query"] for asked in memory.asked] == [QUERY, "about a rug\nabout a gift card"]
    assert result.scores == {"track_order": 0.2, "gift_card": 0.2, "return_item": 0.12}
    assert list(result.scores) == ["track_order", "gift_card", "return_item"]
    assert names(result) == ["track_order"]


@pytest.mark.row("F7")
@pytest.mark.parametrize("kind", ["foreign", "port"])
async def test_summaries_bring_one_candidate_in_and_change_the_order_of_none(
    registry: FlowRegistry, kind: str
) -> None:
    class Two(Memory):
        async def recall(self, query: str, agent_id: str, top_k: int, rrf_k: int) -> list[dict[str, Any]]:
            self.found = (("gift_card", 0.6), ("track_order", 0.5)) if query != QUERY else THREE
            return await super().recall(query, agent_id, top_k, rrf_k)

    class TwoPort(Port):
        def recall(self, query: str, **options: Any) -> list[Recalled]:
            self.found = (("gift_card", 0.6, 0.9, 3.0, ("one",)),) if query != QUERY else THREE  # type: ignore[assignment]
            return super().recall(query, **options)

    memory: Any = Two() if kind == "foreign" else TwoPort()
    selector = FlowSelector(lm("A"), registry, memory, "shop")
    result = await selector.select(QUERY, episode_summaries=["about a gift card"])
    assert list(result.scores) == ["track_order", "cancel_order", "gift_card"]
    assert result.scores["gift_card"] == 0.14, "never more than what the message found"
    plain = await selector.select(QUERY)
    assert list(plain.scores) == ["track_order", "cancel_order", "return_item"]


@pytest.mark.row("F7")
async def test_summaries_that_find_what_the_message_finds_change_nothing(registry: FlowRegistry) -> None:
    memory = Memory(*THREE)
    selector = FlowSelector(lm("A"), registry, memory, "shop")
    assert (await selector.select(QUERY, episode_summaries=["a parcel"])).scores == dict(THREE)


@pytest.mark.row("F7")
async def test_a_clear_message_is_recalled_alone_and_a_vague_one_by_its_summaries(
    registry: FlowRegistry,
) -> None:
    memory = Memory(*THREE)
    selector = FlowSelector(lm("A"), registry, memory, "shop")
    for text in ("do that again", "where is my parcel"):
        await selector.select(text, episode_summaries=["", "about a gift card", " "])
    assert [asked["query"] for asked in memory.asked] == ["about a gift card", "where is my parcel"]


# --- programs ---------------------------------------------------------------------------------------------


async def test_a_compiled_programs_demonstrations_reach_the_request(registry: FlowRegistry) -> None:
    program = TurnProgram(registry)
    program.select.demos = [
        dspy.Example(flows_offered="A gift_card: cards", situation="", message='"a voucher"', flows=["A"])
    ]
    model = lm("A")
    selector = FlowSelector(program.bind(lm=model, recall=Port(*THREE)), registry)
    result = await selector.select(QUERY)
    assert names(result) == ["track_order"]
    assert "a voucher" in str(model.engine.requests[0].messages)
    assert program.policy.shape == "fused", "the program handed in was changed"


async def test_a_program_without_language_model_decides_by_its_own_order(registry: FlowRegistry) -> None:
    program = TurnProgram(registry, policy=Policy(fallback_score={"idle": 0.15, "busy": 1.0}))
    selector = FlowSelector(program.with_policy("fallback"), registry)
    result = await selector.select(QUERY, candidates=list(THREE))
    assert (names(result), result.source, result.degraded) == (["track_order"], "fallback", False)
    result = await selector.select("hello", candidates=list(THREE))
    assert (names(result), result.source) == ([], "rule")


async def test_a_head_chooses_among_the_candidates_only(
    registry: FlowRegistry, judge: Any, letters: Any
) -> None:
    def says(seen: Any) -> SelectionOutput:
        ranking = [("gift_card", 0.7), ("track_order", 0.2), ("none", 0.1)]
        shown = [(name, p) for name, p in ranking if name in (*seen.flows, "none")]
        return SelectionOutput((shown[0][0],), shown[0][1], tuple(shown))

    program = (
        TurnProgram(registry).bind(heads={"select": judge(says)}, embedder=letters()).with_policy("local")
    )
    result = await FlowSelector(program, registry).select(QUERY, candidates=list(THREE))
    assert (names(result), result.source, result.confidence) == (["track_order"], "local", 0.2)
