"""F17: a flow that its guards hide is not there, for recall, head, prompt, fallback and merge alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from jazzmine_dspy.lm.engines import response_schema, user_text
from jazzmine_dspy.models import Flow, FlowRegistry, Selection, Turn
from jazzmine_dspy.models.decision import Enhancement
from jazzmine_dspy.models.errors import FlowError
from jazzmine_dspy.models.flows import Guard
from jazzmine_dspy.program.merge import merge
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import SelectionOutput
from jazzmine_dspy.program.state import allowed_flows, is_shown
from jazzmine_dspy.program.turn import TurnProgram

Make = Callable[..., Any]
F17 = pytest.mark.row("F17")


@F17
@pytest.mark.parametrize(
    ("guards", "state", "shown"),
    [
        ([], {}, True),
        ([{}], {}, True),
        ([{"status": ["idle"]}], {}, True),
        ([{"status": ["idle"]}], {"status": "in_flow"}, False),
        ([{"status": ["idle", "in_flow"]}], {"status": "in_flow"}, True),
        ([{"requires_slots": ["order_id"]}], {}, False),
        ([{"requires_slots": ["order_id"]}], {"slots": {"order_id": None}}, False),
        ([{"requires_slots": ["order_id"]}], {"slots": {"order_id": "4471"}}, True),
        ([{"requires_slots": ["order_id", "speed"]}], {"slots": {"order_id": "4471"}}, False),
        ([{"user": {"plan": "gold"}}], {}, False),
        ([{"user": {"plan": "gold"}}], {"user_attributes": {"plan": "silver"}}, False),
        ([{"user": {"plan": "gold"}}], {"user_attributes": {"plan": "gold"}}, True),
        ([{"user": {"groups": "staff"}}], {"user_attributes": {"groups": ["staff", "test"]}}, True),
        ([{"user": {"adult": True, "level": 3}}], {"user_attributes": {"adult": True, "level": 3}}, True),
        ([{"user": {"adult": True}}], {"user_attributes": {"adult": False}}, False),
        # All conditions of one guard must hold, of several guards one.
        ([{"status": ["idle"], "user": {"plan": "gold"}}], {"user_attributes": {"plan": "gold"}}, True),
        ([{"status": ["in_flow"], "user": {"plan": "gold"}}], {"user_attributes": {"plan": "gold"}}, False),
        ([{"status": ["in_flow"]}, {"user": {"plan": "gold"}}], {"user_attributes": {"plan": "gold"}}, True),
        ([{"status": ["in_flow"]}, {"user": {"plan": "gold"}}], {}, False),
    ],
)
def test_a_guard_fits_or_not(guards: list[Any], state: dict[str, Any], shown: bool) -> None:
    flow = Flow(name="refund", description="Pay back.", guards=guards)
    other = Flow(name="hours", description="Tell when.")
    turn = Turn(text="hm", **state)
    assert is_shown(flow, turn) is shown
    assert allowed_flows(FlowRegistry([flow, other]), turn) == (None if shown else ["hours"])
    assert allowed_flows(FlowRegistry([flow]), turn) == (None if shown else [])


@F17
def test_what_the_turn_allows_and_what_guards_allow_both_count() -> None:
    flows = FlowRegistry([
        {"name": "a", "description": "A.", "guards": [{"status": ["in_flow"]}]},
        {"name": "b", "description": "B."}, {"name": "c", "description": "C."},
    ])  # fmt: skip
    views = tuple(view for view in flows.views if view.name in ("a", "b"))
    assert allowed_flows(flows, Turn(text="hm", available_flows=views)) == ["b"]


@F17
@pytest.mark.parametrize(
    "guard", [{"status": ["idel"]}, {"user": {"plan": ["gold"]}}, {"when": "x"}, {"user": "gold"}]
)
def test_a_guard_that_could_never_fit_is_refused(guard: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Guard.model_validate(guard)
    with pytest.raises(FlowError, match="guards"):
        FlowRegistry([{"name": "a", "description": "A.", "guards": [guard]}])


@pytest.fixture
def guarded(registry: FlowRegistry) -> FlowRegistry:
    """The shop's flows; gift cards are for members, and only while nothing runs."""
    gold = [{"status": ["idle"], "user": {"plan": "gold"}}]
    data = [{**each, "guards": gold} if each["name"] == "gift_card" else each for each in registry.to_json()]
    return FlowRegistry(data)


GIFT = "buy a gift card"
HIDDEN = Turn(text=GIFT)
SHOWN = Turn(text=GIFT, user_attributes={"plan": "gold"})


@F17
def test_what_is_hidden_never_reaches_recall_head_prompt_or_schema(
    guarded: FlowRegistry, overlap: Make, letters: Make, judge: Make, speak: Make
) -> None:
    head = judge(SelectionOutput((), 0.1, (("gift_card", 0.8), ("none", 0.1))))
    lm = speak(select={"flows": ["A"]})
    program = TurnProgram(guarded, policy=Policy(shape="staged")).bind(
        recall=overlap(guarded), embedder=letters(), heads={"select": head}, lm=lm
    )
    for turn, there in ((HIDDEN, False), (SHOWN, True)):
        decision = program.decide(turn)
        asked = program.bindings.recall.asked[-1]
        assert ("gift_card" in (asked["allowed"] or guarded)) is there
        assert ("gift_card" in head.seen[-1].flows) is there
        assert ("gift_card" in [one.name for one in head.seen[-1].recalled]) is there
        for request in lm.engine.requests[-2:]:
            assert ("gift_card" in user_text(request)) is (there and "flows_offered" in user_text(request))
            assert ("gift_card" in str(response_schema(request))) is (
                there and "intent" in str(response_schema(request))
            )
        assert ("gift_card" in dict(decision.selection.candidates)) is there
        assert "gift_card" in head.seen[-1].hidden or there


@F17
@pytest.mark.parametrize("shape", ["staged", "fused"])
def test_what_is_hidden_is_not_chosen_by_the_fallback(
    guarded: FlowRegistry, overlap: Make, shape: Any
) -> None:
    program = TurnProgram(guarded, policy=Policy(shape=shape).named("fallback")).bind(recall=overlap(guarded))
    assert program.decide(HIDDEN).selection.flows == []
    assert program.decide(SHOWN).selection.flows == ["gift_card"]


@F17
def test_a_recall_that_knows_no_guards_changes_nothing(guarded: FlowRegistry, overlap: Make) -> None:
    class Careless(overlap):  # type: ignore[misc]
        def recall(self, query: str, **options: Any) -> Any:
            return super().recall(query, **{**options, "allowed": None})

    program = TurnProgram(guarded).with_policy("fallback").bind(recall=Careless(guarded))
    decision = program.decide(HIDDEN)
    assert "gift_card" not in dict(decision.selection.candidates)
    assert decision.selection.flows == []


@F17
def test_merge_starts_nothing_that_is_hidden_and_resumes_what_was_begun(guarded: FlowRegistry) -> None:
    said = Enhancement(enhanced_query=GIFT)
    chosen = Selection(flows=["gift_card", "track_order"])
    _, selection, commands = merge(HIDDEN, guarded, said, chosen, [])
    assert selection.flows == ["track_order"]
    assert [command.type for command in commands] == ["start_flow"]
    paused = HIDDEN.model_copy(update={"paused": ("gift_card",)})
    _, _, commands = merge(paused, guarded, said, Selection(flows=["gift_card"]), [])
    assert [command.type for command in commands] == ["resume_flow"]


@F17
def test_with_all_flows_hidden_nobody_is_asked_for_a_flow_and_none_is_chosen(
    overlap: Make, letters: Make, judge: Make, speak: Make, asked_of: Make
) -> None:
    flows = FlowRegistry(
        [{"name": "a", "description": "A.", "examples": ["do a"], "guards": [{"status": ["in_flow"]}]}]
    )
    lm, head = speak(select={"flows": ["A"]}), judge(SelectionOutput(("a",), 0.9, (("a", 0.9),)))
    for name in ("local", "lm", "fallback"):
        policy = Policy(shape="staged").named(name)  # type: ignore[arg-type]
        program = TurnProgram(flows, policy=policy).bind(
            recall=overlap(flows), embedder=letters(), heads={"select": head}, lm=lm
        )
        decision = program.decide(text="do a")
        assert (decision.selection.flows, decision.selection.candidates) == ([], [])
        assert not decision.degraded
    assert "select" not in [asked_of(request) for request in lm.engine.requests]
    assert head.seen == []
