"""The head of selection in the local decider: what it sees, what it may choose, and the order that it leaves behind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy.lm.engines import user_text
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import EmbeddingError
from jazzmine_dspy.program.local import LocalDecider
from jazzmine_dspy.program.local.selection import rank_candidates
from jazzmine_dspy.program.local.understanding import Closed
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
SURE = SelectionOutput(("gift_card",), 0.9, (("gift_card", 0.9), ("track_order", 0.06), ("none", 0.04)))


@pytest.fixture
def headed(registry: FlowRegistry, overlap: Make, letters: Make) -> Make:
    """A program with the local decider and a head of selection, or with the deciders that a test names."""

    def make(head: Any, *names: str, lm: Any = None, **policy: Any) -> TurnProgram:
        deciders = tuple((name, None) for name in names or ("local",))
        whole = Policy(deciders=deciders, **{"shape": "staged", **policy})
        return TurnProgram(registry, policy=whole).bind(
            recall=overlap(registry), embedder=letters(), heads={"select": head}, lm=lm
        )

    return make


@pytest.mark.row("C1")
async def test_the_head_sees_the_message_its_parts_the_state_and_what_was_recalled(
    headed: Make, judge: Make, letters: Make
) -> None:
    head = judge(SURE, parts=["buy a card", "where is it"])
    program = headed(head)
    turn = Turn(text="buy a card and where is it", flow="track_order", slots={"order_id": "4471"})
    decision = program.decide(turn)
    assert (await program.adecide(turn)).content() == decision.content()
    assert program.bindings.embedder.asked == [(turn.text, "buy a card", "where is it")] * 2
    first, second = head.seen
    rows = letters().features([turn.text, "buy a card", "where is it"])
    assert first.turn == second.turn == turn
    assert np.array_equal(first.features, rows[0])
    assert [(clause.text, list(clause.features)) for clause in first.clauses] == [
        ("buy a card", list(rows[1])), ("where is it", list(rows[2])),
    ]  # fmt: skip
    assert tuple(first.flows) == tuple(program.registry)
    assert [one.name for one in first.recalled][:2] == ["gift_card", "track_order"]
    record = decision.stages["select"]
    assert (record.source, record.confidence, record.degraded) == ("local", 0.9, False)
    assert (decision.selection.flows, decision.selection.confidence) == (["gift_card"], 0.9)


@pytest.mark.row("E4", "C1")
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_the_head_reads_the_message_as_the_closed_reading_completes_it(
    shape: str, headed: Make, judge: Make, letters: Make, speak: Make
) -> None:
    """A pick of a clarifying question with more to it: the head reads the wish in full, recall the message."""
    head = judge(SURE, parts=["where is it"])
    program = headed(head, shape=shape)
    said = [{"role": "user", "text": "something with my order"}, {"role": "assistant", "text": "Which?"}]
    turn = Turn(text="4471", flow="track_order", awaiting="order_id", history=said)
    rewrite = program.decide(turn).enhancement.enhanced_query
    assert rewrite == "The order is 4471."
    chosen = LocalDecider().select(program.read(turn), Closed(None, None, rewrite))
    assert chosen.selection.flows == ["gift_card"]
    (seen,) = head.seen
    assert seen.turn == turn.model_copy(update={"text": rewrite})
    assert np.array_equal(seen.features, letters().features([rewrite])[0])


@pytest.mark.row("C1")
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_the_head_is_asked_before_the_language_model_and_sees_nothing_of_it(
    shape: str, headed: Make, judge: Make, speak: Make, enhanced: dict[str, Any]
) -> None:
    head = judge(SURE)
    lm = speak(select={"flows": ["A"]}, fused={**enhanced, "flows": ["A"], "commands": []})
    program = headed(head, "local", "lm", lm=lm, shape=shape)
    turn = Turn(text="and the other one?", history=[{"role": "user", "text": "where is order 4471"}])
    decision = program.decide(turn)
    assert decision.stages["select"].source == "lm"
    (seen,) = head.seen
    assert (seen.turn, seen.query) == (turn, turn.text)
    first, *again = program.bindings.recall.asked
    assert (first["query"], first["summaries"]) == (turn.text, ("where is order 4471",))
    # With its own rewrite the language model recalls once more, where it asks for the flows on their own.
    assert [one["query"] for one in again] == ([enhanced["enhanced_query"]] if shape == "staged" else [])


def test_what_comes_before_the_selection_is_what_a_decision_takes(headed: Make, judge: Make) -> None:
    head = judge(SURE)
    program, turn = headed(head), Turn(text="where is my order")
    state = program.read(turn, ["c1"])
    program.decide(turn, exclude=["c1"])
    first, second = program.bindings.recall.asked
    assert first == second
    assert state.recalled == tuple(head.seen[0].recalled)
    assert state.text == turn.text


@pytest.mark.row("A9")
def test_a_head_that_cannot_judge_a_flow_leaves_it_to_recall_which_says_so(headed: Make, judge: Make) -> None:
    leaves = SelectionOutput((), 0.0, SURE.ranking, 0.5, "not learnt", left=True)
    for text, flows, reason in (
        ("where is my order", ["track_order"], "not learnt: best recalled flow"),
        ("where is something", [], "not learnt: no candidate is near enough"),
    ):
        decision = headed(judge(leaves), fallback_score={"idle": 0.5, "busy": 0.5}).decide(text=text)
        assert (decision.stages["select"].source, decision.selection.flows) == ("fallback", flows)
        assert decision.selection.reason == reason
        assert not decision.degraded
        assert decision.selection.candidates[0][0] != "gift_card"


@pytest.mark.row("C1")
def test_the_language_model_is_offered_what_it_was_compiled_on(
    headed: Make, judge: Make, speak: Make, enhanced: dict[str, Any]
) -> None:
    """Its prompts are compiled and judged on candidates in recall's order: an unsure head leaves that order alone."""
    prompts = []
    for names in (("local", "lm"), ("lm",)):
        lm = speak(enhance={**enhanced, "enhanced_query": "where is my order"}, select={"flows": ["A"]})
        program = headed(judge(SURE), *names, lm=lm, top_k=2)
        decision = program.decide(text="where is my order")
        assert decision.selection.flows == ["track_order"]
        prompts.append(user_text(lm.engine.requests[1]))
    assert prompts[0] == prompts[1]
    answered = headed(judge(SURE)).decide(text="where is my order")
    assert answered.selection.candidates[:2] == [("gift_card", 0.9), ("track_order", 0.06)]


def test_the_threshold_of_recall_holds_for_what_recall_ranked(headed: Make, judge: Make) -> None:
    """It was fitted to recall's scores, so the head's order must not change what it means."""
    leaves = SURE._replace(flows=(), left=True)
    program = headed(judge(leaves), fallback_score={"idle": 0.5, "busy": 0.5})
    assert program.decide(text="where is my order").selection.flows == ["track_order"]
    assert program.decide(text="where is something").selection.flows == []


def test_candidates_in_the_heads_order() -> None:
    found = [Recalled(name, 1.0 - n / 10, near=(f"ask {name}",)) for n, name in enumerate("abc")]
    ranking = [("d", 0.5), ("none", 0.2), ("c", 0.2), ("hidden", 0.05), ("c", 0.05)]
    ordered = rank_candidates(found, ranking, "abcd")
    assert ordered == [
        Recalled("d", 0.5), found[2]._replace(score=0.2), found[0]._replace(score=0.0), found[1]._replace(score=0.0),
    ]  # fmt: skip
    assert ordered[1].near == ("ask c",)
    many = [(f"flow_{n}", 1 / (n + 2)) for n in range(50)]
    assert len(rank_candidates(found, many, [name for name, _ in many])) == 10


@pytest.mark.parametrize(
    ("judgement", "flows", "mode"),
    [
        (SelectionOutput((), 0.8, (("none", 0.8), ("gift_card", 0.2)), 0.2), [], "single"),
        (
            SelectionOutput(("gift_card", "track_order"), 0.7, SURE.ranking),
            ["gift_card", "track_order"],
            "sequential",
        ),
        (SelectionOutput(("gift_card", "gift_card"), 0.7, SURE.ranking), ["gift_card"], "single"),
    ],
)
def test_none_one_and_several(
    headed: Make, judge: Make, judgement: SelectionOutput, flows: list[str], mode: str
) -> None:
    decision = headed(judge(judgement)).decide(text="where is my order")
    assert decision.stages["select"].source == "local"
    assert (decision.selection.flows, decision.selection.mode) == (flows, mode)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (SURE._replace(confidence=math.nan), "not a probability"),
        (SURE._replace(confidence=1.5), "not a probability"),
        (EmbeddingError("the weights are gone"), "the weights are gone"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError"),
    ],
)
@pytest.mark.row("C1")
def test_a_head_that_breaks_leaves_the_flows_to_recall(
    headed: Make, judge: Make, said: Any, cause: str
) -> None:
    def says(seen: Any) -> SelectionOutput:
        if isinstance(said, Exception):
            raise said
        return said  # type: ignore[no-any-return]

    decision = headed(judge(says)).decide(text="where is my order")
    record = decision.stages["select"]
    assert (record.source, record.degraded, decision.selection.flows) == ("fallback", True, ["track_order"])
    assert cause in str(record.cause)
    assert decision.enhancement.intent == "track_order"


def test_without_an_embedder_or_a_head(headed: Make, judge: Make) -> None:
    down = headed(judge(SURE)).bind(embedder=None).decide(text="where is my order")
    assert (down.stages["select"].source, down.degraded) == ("fallback", True)
    assert "No embedding model" in str(down.stages["select"].cause)
    none = headed(None).decide(text="where is my order")
    assert (none.stages["select"].source, none.selection.flows) == ("fallback", ["track_order"])


async def test_features_end_at_the_deadline(headed: Make, judge: Make) -> None:
    program = headed(judge(SURE)).bind(clock=iter([n * 1.0 for n in range(100)]).__next__)
    for decision in (
        program.decide(text="where is my order", deadline=1.0),
        await program.adecide(text="where is my order", deadline=1.0),
    ):
        assert decision.stages["select"].source == "fallback"
        assert "deadline" in str(decision.stages["select"].cause)


@pytest.mark.row("U11")
@pytest.mark.parametrize("source", ["local", "lm", "fallback"])
@pytest.mark.parametrize(
    ("state", "commands"),
    [
        ({}, [("start_flow", "gift_card")]),
        ({"flow": "track_order"}, [("start_flow", "gift_card")]),
        ({"flow": "gift_card"}, []),
        ({"flow": "track_order", "paused": ["gift_card", "cancel_order"]}, [("resume_flow", "gift_card")]),
    ],
)
def test_a_flow_is_started_resumed_or_let_go_on(
    headed: Make, judge: Make, speak: Make, source: str, state: dict[str, Any], commands: list[Any]
) -> None:
    """Whichever source names it: a paused flow is taken up again by its name, and a running one just goes on."""

    def gift(request: Any) -> dict[str, Any]:
        lines = user_text(request).removeprefix("flows_offered: ").splitlines()
        return {"flows": [line[0] for line in lines if line[2:].startswith("gift_card")]}

    def back(request: Any) -> dict[str, Any]:
        return {
            "commands": [{"resume_flow": "gift_card"}] if "paused gift_card" in user_text(request) else []
        }

    # What runs or is paused has no letter.
    lm = speak(select=gift, understand=back)
    program = headed(judge(SURE), source, lm=lm, fallback_score={"idle": 0.1, "busy": 0.1})
    decision = program.decide(Turn(text="buy a gift card", **state))
    assert decision.stages["select"].source == source
    assert [
        (c.type, c.flow) for c in decision.commands if c.type in ("start_flow", "resume_flow")
    ] == commands
    assert decision.selection.flows == [flow for kind, flow in commands if kind == "start_flow"]
