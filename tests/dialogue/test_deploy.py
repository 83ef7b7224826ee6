"""Flows that changed since a value was stored: what no longer fits is taken back and asked for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pure_operations as operations
from jazzmine_dspy.dialogue.next_step import apply
from jazzmine_dspy.dialogue.questions import reconcile
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models import FlowRegistry, TurnDecision
from jazzmine_dspy.models.decision import NextStep

Decide = Callable[..., TurnDecision]


def _registry(slot: dict[str, Any], **flow: Any) -> FlowRegistry:
    table = {"name": "book_table", "description": "Book a table.", "slots": [slot, SIZE], **flow}
    return FlowRegistry([table, {"name": "hours", "description": "Opening hours."}])


SIZE = {"name": "size", "type": "text", "ask": "For how many?"}
TEXT = {"name": "area", "type": "text", "ask": "Inside or outside?"}
CHOICE = {**TEXT, "type": "choice", "options": ["inside", "outside"]}


def _held(decision: Decide, registry: FlowRegistry, **values: Any) -> tuple[WorkingMemory, NextStep]:
    commands = [{"type": "set_slot", "name": name, "value": value} for name, value in values.items()]
    state = WorkingMemory(conversation_id="c1", user_id="u1")
    return apply(state, decision({"type": "start_flow", "flow": "book_table"}, *commands), registry)


@pytest.mark.row("U9")
@pytest.mark.parametrize(
    ("area", "slot"),
    [
        ("terrace", CHOICE),
        ("terrace", {**TEXT, "pattern": "[a-z]{3}"}),
        ("terrace", {**TEXT, "type": "number"}),
    ],
)
def test_a_value_that_no_longer_fits_is_asked_for_again(
    decision: Decide, area: str, slot: dict[str, Any]
) -> None:
    state, step = _held(decision, _registry(TEXT), area=area)
    assert step.slot == "size"
    state, step = apply(state, decision({"type": "set_slot", "name": "size", "value": "4"}), _registry(slot))
    assert state.active_flow is not None
    assert state.active_flow.values == {"size": "4"}
    assert state.active_flow.slots["area"].previous_value == area
    assert (step.kind, step.slot) == ("ask_slot", "area")


def test_a_value_that_fits_stays(decision: Decide) -> None:
    state, _ = _held(decision, _registry(TEXT), area="inside")
    after = reconcile(state, _registry(CHOICE))
    assert after.active_flow is not None
    assert after.active_flow.values == {"area": "inside"}
    assert reconcile(after, _registry(CHOICE)) == after


@pytest.mark.row("U9", "U12")
def test_a_yes_or_no_about_such_a_value_is_closed_and_yes_does_nothing(decision: Decide) -> None:
    asking = {"confirm": "Book {area} for {size}?"}
    state, step = _held(decision, _registry(TEXT, **asking), area="terrace", size="4")
    assert step.kind == "confirm"
    changed = _registry(CHOICE, **asking)
    before = reconcile(state, changed)
    assert (before.status.value, before.pending_confirmation) == ("collecting_slots", None)
    state, step = apply(state, decision("affirm"), changed)
    assert (step.kind, step.slot) == ("ask_slot", "area")
    state, step = apply(state, decision({"type": "set_slot", "name": "area", "value": "inside"}), changed)
    assert (step.kind, step.text) == ("confirm", "Book inside for 4?")
    assert apply(state, decision("affirm"), changed)[1].kind == "run_flow"


def test_so_it_is_in_a_flow_that_waits(decision: Decide) -> None:
    state, _ = _held(decision, _registry(TEXT), area="terrace", size="4")
    state, _ = _held(decision, _registry(TEXT), area="terrace")
    state = operations.pause_flow(state)
    state, step = apply(state, decision("resume_flow"), _registry(CHOICE))
    assert state.active_flow is not None
    assert (state.active_flow.values, step.slot) == ({}, "area")


def test_what_was_handed_out_to_run_is_done_with_the_values_it_had(decision: Decide) -> None:
    state, step = _held(decision, _registry(TEXT), area="terrace", size="4")
    assert step.kind == "run_flow"
    after = reconcile(state, _registry(CHOICE))
    assert [(record.status.value, record.slot_values["area"]) for record in after.flow_history] == [
        ("completed", "terrace")
    ]
    running = operations.begin_action(state, action_id="a1")
    assert reconcile(running, _registry(CHOICE)) == running
