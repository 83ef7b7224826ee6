"""The events of a turn are what the states before and after it differ in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.dialogue.next_step import apply, apply_decision
from jazzmine_dspy.dialogue.questions import complete, reconcile
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import FlowRegistry, TurnDecision
from pure_operations import begin_action

SHOP = Path(__file__).parent.parent / "support" / "shop.yaml"
ASKED = [
    {"type": "start_flow", "flow": "cancel_order"},
    {"type": "set_slot", "name": "order_id", "value": "4471"},
]
Decide = Callable[..., TurnDecision]


TRACK, CANCEL = "track_order", "cancel_order"


def _start(flow: str) -> dict[str, str]:
    return {"type": "start_flow", "flow": flow}


def _set(value: str) -> dict[str, str]:
    return {"type": "set_slot", "name": "order_id", "value": value}


@pytest.mark.row("M3")
@pytest.mark.parametrize(
    ("earlier", "commands", "flows"),
    [
        ([], [_start(TRACK)], [(TRACK, "started")]),
        ([], [_start("opening_hours")], [("opening_hours", "started")]),
        ([_start(TRACK)], ["ask"], []),
        ([_start(TRACK)], [_start(CANCEL)], [(CANCEL, "started"), (TRACK, "paused")]),
        ([], [_start(TRACK), _start(CANCEL)], [(TRACK, "started"), (CANCEL, "started")]),
        ([_start(TRACK)], ["cancel_flow"], [(TRACK, "cancelled")]),
        ([_start(TRACK)], ["restart"], [(TRACK, "cancelled"), (TRACK, "started")]),
        # What the turn itself reverts is no event.
        ([], [_start(TRACK), "cancel_flow"], [(TRACK, "cancelled")]),
        (
            [_start(TRACK)],
            [_start(CANCEL), {"type": "resume_flow", "flow": TRACK}],
            [(CANCEL, "started"), (CANCEL, "paused")],
        ),
    ],
)
def test_events_of_flows(
    decision: Decide, earlier: list[Any], commands: list[Any], flows: list[tuple[str, str]]
) -> None:
    registry = FlowRegistry.from_yaml(SHOP, agent_id="shop")
    state = WorkingMemory(conversation_id="c1", user_id="u1", agent_id="shop")
    state, _, _ = apply_decision(state, decision(*earlier), registry)
    state, _, events = apply_decision(state, decision(*commands), registry)
    assert [(event.flow_name, event.event) for event in events.flows] == flows
    assert all(event.flow_id == registry[event.flow_name].id_for("shop") for event in events.flows)


@pytest.mark.row("M3")
def test_a_flow_that_is_resumed_and_one_that_a_topic_leaves(registry: Any, decision: Decide) -> None:
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    for flow in (TRACK, CANCEL):
        state, _, _ = apply_decision(state, decision(_start(flow)), registry)
    resume = decision({"type": "resume_flow", "flow": TRACK}, is_continuation=False)
    state, _, events = apply_decision(state, resume, registry)
    assert [(event.flow_name, event.event) for event in events.flows] == [
        (CANCEL, "topic_shifted"),
        (TRACK, "resumed"),
        (CANCEL, "paused"),
    ]


@pytest.mark.row("M3")
def test_events_of_slots(registry: Any, decision: Decide) -> None:
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    shown = []
    for commands in ([_start(CANCEL)], [_set("12")], [_set("4471")], ["ask"], [_set("4471"), _set("4472")]):
        state, _, events = apply_decision(reconcile(state, registry), decision(*commands), registry)
        shown.append([(each.value, each.collected, bool(each.validation_error)) for each in events.slots])
    assert shown == [[], [(None, False, True)], [("4471", True, False)], [], [("4472", True, False)]]


@pytest.mark.row("M3")
@pytest.mark.parametrize("failed", [False, True])
def test_what_an_action_ends_is_told_by_the_next_turn(decision: Decide, failed: bool) -> None:
    registry = FlowRegistry.from_yaml(SHOP, agent_id="shop")
    state = WorkingMemory(conversation_id="c1", user_id="u1", agent_id="shop")
    wishes = [{"type": "start_flow", "flow": name} for name in ("opening_hours", "track_order")]
    state, step, _ = apply_decision(state, decision(*wishes), registry)
    assert (step.kind, step.flow, [flow.flow_name for flow in state.paused]) == (
        "run_flow",
        "opening_hours",
        ["track_order"],
    )
    state, _ = complete(begin_action(state), registry, failed=failed)
    state, _, events = apply_decision(state, decision("chitchat"), registry)
    told = [(event.flow_name, event.event) for event in events.flows]
    assert told == [("opening_hours", "failed" if failed else "completed"), ("track_order", "resumed")]
    _, _, events = apply_decision(state, decision("chitchat"), registry)
    assert events.flows == []


def _asked(decision: Decide, registry: FlowRegistry, drifts: int) -> WorkingMemory:
    """A conversation in which a yes or no is open, and was talked past so often."""
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    state, step = apply(state, decision(*ASKED), registry)
    assert step.kind == "confirm"
    for _ in range(drifts):
        state, _ = apply(state, decision("ask"), registry)
    assert state.pending_confirmation is not None
    assert state.pending_confirmation.drifted_turns == drifts
    return state


CORRECTED = {"type": "correct_slot", "name": "order_id", "value": "4472"}


@pytest.mark.row("M3")
@pytest.mark.parametrize(
    ("drifted", "commands", "outcome"),
    [
        (0, ["affirm"], ["confirmed"]),
        (2, ["affirm"], ["confirmed"]),
        (0, ["deny"], ["cancelled"]),
        (2, ["deny"], ["cancelled"]),
        (2, ["cancel_flow"], ["cancelled"]),
        (0, ["ask"], []),
        (2, ["chitchat"], ["expired"]),
        (2, [{"type": "start_flow", "flow": "track_order"}], ["expired"]),
        # Asked anew about another order, not left unanswered.
        (2, [CORRECTED], ["cancelled"]),
        # A word on another flow leaves the question unanswered.
        (2, [{"type": "cancel_flow", "flow": "track_order"}], ["expired"]),
    ],
)
def test_a_question_that_is_gone_was_answered_or_expired(
    registry: FlowRegistry, decision: Decide, drifted: int, commands: list[Any], outcome: list[str]
) -> None:
    state = _asked(decision, registry, drifted)
    asked = state.pending_confirmation
    assert asked is not None
    after, _, events = apply_decision(state, decision(*commands), registry)
    told = [(event.question, event.outcome, event.resolved_at_turn) for event in events.confirmations]
    assert told == [(asked.action_description, kind, after.turn_number) for kind in outcome]
