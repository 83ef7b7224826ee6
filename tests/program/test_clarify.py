"""F11: two flows that are too close lead to a question, and its answer chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.program.acts import picked
from jazzmine_dspy.program.merge import flow_mode
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.starts import close_pair, margin_of, relative
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
F11 = pytest.mark.row("F11")
CLOSE = SelectionOutput(
    ("track_order",), 0.6, (("track_order", 0.45), ("none", 0.2), ("cancel_order", 0.35), ("gift_card", 0.0))
)
ASKED = ("track_order", "cancel_order")


@F11
@pytest.mark.parametrize(
    ("ranking", "chosen", "margin", "pair"),
    [
        ([("a", 0.5), ("b", 0.45)], ["a"], 0.1, ["a", "b"]),
        ([("a", 0.5), ("none", 0.48), ("b", 0.45)], ["a"], 0.1, ["a", "b"]),
        ([("a", 0.5), ("b", 0.45)], ["b"], 0.1, ["a", "b"]),
        ([("a", 0.75), ("b", 0.5)], ["a"], 0.25, []),
        ([("a", 0.5), ("b", 0.45)], ["a"], 0.0, []),
        ([("a", 0.5), ("b", 0.45)], [], 0.1, []),
        ([("a", 0.5), ("b", 0.45)], ["a", "b"], 0.1, []),
        ([("a", 0.5), ("b", 0.45), ("c", 0.05)], ["c"], 0.1, []),
        ([("a", 0.5), ("none", 0.5)], ["a"], 0.1, []),
        ([], ["a"], 0.1, []),
    ],
)
def test_two_are_close_only_where_one_of_them_would_be_chosen(
    ranking: list[Any], chosen: list[str], margin: float, pair: list[str]
) -> None:
    assert close_pair(ranking, chosen, margin) == pair


def test_recall_scores_are_compared_as_shares_of_the_best() -> None:
    assert relative([Recalled("b", 0.1), Recalled("a", 0.2)]) == [("a", 1.0), ("b", 0.5)]
    assert relative([Recalled("a", 0.0)]) == relative([]) == []


@pytest.mark.row("S4")
def test_a_flow_that_undoes_is_asked_about_in_a_wider_margin_also_where_it_confirms_nothing() -> None:
    flows = FlowRegistry(
        [{"name": f"{verb}_order", "description": f"{verb} it."} for verb in ("Cancel", "Track")]
    )
    assert margin_of(Policy(), "local", ["Cancel_order"], flows) == 0.1
    assert margin_of(Policy(), "local", ["Track_order"], flows) == 0.0


def program(registry: FlowRegistry, recall: Any, **policy: Any) -> TurnProgram:
    return TurnProgram(registry, policy=Policy(shape="staged", **policy)).bind(recall=recall)


@F11
@pytest.mark.parametrize(
    ("margin", "clarify", "flows"),
    [(0.0, [], ["track_order"]), (0.2, list(ASKED), []), (0.05, [], ["track_order"])],
)
def test_the_head_asks_within_its_margin(
    registry: FlowRegistry,
    overlap: Make,
    letters: Make,
    judge: Make,
    margin: float,
    clarify: list[str],
    flows: list[str],
) -> None:
    made = program(
        registry,
        overlap(registry),
        deciders=(("local", None),),
        clarify={"local": margin, "fallback": 0.9},
    ).bind(heads={"select": judge(CLOSE)}, embedder=letters())
    decision = made.decide(text="my order please")
    assert (decision.selection.clarify, decision.selection.flows) == (clarify, flows)
    assert decision.stages["select"].source == "local"
    kinds = [command.model_dump(mode="json") for command in decision.commands]
    wanted = (
        [{"type": "clarify", "flows": clarify}]
        if clarify
        else [{"type": "start_flow", "flow": "track_order"}]
    )
    assert kinds == wanted
    assert decision.enhancement.intent == ("clarify" if clarify else "track_order")
    assert not decision.degraded


@F11
@pytest.mark.parametrize(("margin", "asks"), [(0.0, False), (0.3, True), (0.1, False)])
def test_the_fallback_asks_within_its_margin(
    registry: FlowRegistry, overlap: Make, margin: float, asks: bool
) -> None:
    text = "my order"  # 2 of 3 words of one example, 2 of 4 of the other
    made = program(registry, overlap(registry), deciders=(("fallback", None),), clarify={"fallback": margin})
    decision = made.decide(text=text)
    assert [name for name, _ in decision.selection.candidates[:2]] == ["cancel_order", "track_order"]
    assert decision.selection.clarify == (["cancel_order", "track_order"] if asks else [])
    assert decision.selection.flows == ([] if asks else ["cancel_order"])


@F11
def test_a_hidden_flow_is_no_doubt(registry: FlowRegistry, overlap: Make, letters: Make, judge: Make) -> None:
    made = program(registry, overlap(registry), deciders=(("local", None),), clarify={"local": 0.2}).bind(
        heads={"select": judge(CLOSE)}, embedder=letters()
    )
    views = tuple(view for view in registry.views if view.name != "cancel_order")
    decision = made.decide(Turn(text="my order please", available_flows=views))
    assert (decision.selection.clarify, decision.selection.flows) == ([], ["track_order"])


@F11
def test_nobody_is_asked_which_flow_twice_in_a_row(
    registry: FlowRegistry, overlap: Make, letters: Make, judge: Make
) -> None:
    made = program(registry, overlap(registry), deciders=(("local", None),), clarify={"local": 0.2}).bind(
        heads={"select": judge(CLOSE)}, embedder=letters()
    )
    assert made.decide(Turn(text="well, the order", clarifying=ASKED)).selection.flows == ["track_order"]
    other = Turn(text="well, the order", clarifying=("gift_card", "track_order"))
    assert made.decide(other).selection.flows == ["track_order"]
    assert made.decide(Turn(text="well, the order")).selection.clarify == list(ASKED)


# --- the answer ----------------------------------------------------------------------------------------------


@F11
@pytest.mark.parametrize(
    ("text", "flows"),
    [
        ("the first one", ["track_order"]),
        ("The second one, please.", ["cancel_order"]),
        ("2", ["cancel_order"]),
        ("number 1", ["track_order"]),
        ("the last", ["cancel_order"]),
        ("the latter", ["cancel_order"]),
        ("Cancel order", ["cancel_order"]),
        ("cancel", ["cancel_order"]),
        ("I mean track", ["track_order"]),
        ("yes, cancel my order", ["cancel_order"]),
        ("both", ["track_order", "cancel_order"]),
        ("neither", []),
        ("none of them", []),
        # What is more than an answer, or no clear one, is left to be understood.
        ("order", None),
        ("the third one", None),
        ("yes", None),
        ("the first one, and make it express", None),
        ("I know", None),
        ("where is my order", None),
        ("the cancelled one", None),
    ],
)
def test_what_answers_the_question(text: str, flows: list[str] | None) -> None:
    assert picked(Turn(text=text, clarifying=ASKED)) == flows
    assert picked(Turn(text=text)) is None


@F11
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_an_answer_chooses_without_a_model_and_keeps_what_was_said_before(
    registry: FlowRegistry, overlap: Make, shape: Any
) -> None:
    made = (
        TurnProgram(registry, policy=Policy(shape=shape))
        .with_policy("fallback")
        .bind(recall=overlap(registry))
    )
    said = [
        {"role": "user", "text": "order 4471, please"},
        {"role": "assistant", "text": "Which do you mean?"},
    ]
    decision = made.decide(Turn(text="the second one", clarifying=ASKED, history=said))
    assert [command.model_dump(mode="json") for command in decision.commands] == [
        {"type": "start_flow", "flow": "cancel_order"},
        {"type": "set_slot", "name": "order_id", "value": "4471"},
    ]
    assert {record.source for record in decision.stages.values()} == {"rule"}
    assert decision.enhancement.enhanced_query == "cancel order: order 4471, please"
    neither = made.decide(Turn(text="neither", clarifying=ASKED, history=said))
    assert (neither.selection.flows, neither.commands) == ([], [])


@F11
def test_the_language_model_is_told_what_was_asked(
    registry: FlowRegistry, speak: Make, make_program: Make
) -> None:
    lm = speak()
    make_program(lm, "fused").decide(Turn(text="hm, the dear one", clarifying=ASKED))
    assert "asked which: track_order or cancel_order" in str(lm.engine.requests[0].messages)


@pytest.mark.row("F10")
@pytest.mark.parametrize(
    ("text", "flows", "expected"),
    [
        ("track it", ["track"], "single"), ("both of them at once", [], "single"),
        ("track it, then cancel it", ["track", "cancel"], "sequential"),
        ("pause both my card and my account", ["card", "account"], "parallel"),
        ("Do it At the same  time", ["a", "b"], "parallel"), ("botham and at oncely", ["a", "b"], "sequential"),
    ],
)  # fmt: skip
def test_mode(text: str, flows: list[str], expected: str) -> None:
    assert flow_mode(text, flows) == expected
