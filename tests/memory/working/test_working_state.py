"""Working memory as values: statuses, records and their bounds."""

from __future__ import annotations

import itertools

import pytest
from pydantic import ValidationError

from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working import (
    TERMINAL,
    TRANSITIONS,
    ActiveFlowState,
    FlowStatus,
    IllegalTransitionError,
    PendingConfirmation,
    RunningAction,
    SlotState,
    WorkingMemory,
    transition_table,
)
from jazzmine_dspy.memory.working.state import FLOWS_KEPT


def memory(**fields: object) -> WorkingMemory:
    return WorkingMemory(conversation_id="c1", user_id="u1", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("old", "new"), list(itertools.product(FlowStatus, FlowStatus)))
def test_every_step_is_legal_or_refused_and_then_changes_nothing(old: FlowStatus, new: FlowStatus) -> None:
    flow = ActiveFlowState(flow_name="track_order", status=old)
    if new is old or new in TRANSITIONS[old]:
        flow.transition_to(new)
        assert flow.status is new
    else:
        with pytest.raises(IllegalTransitionError, match=f"{old} cannot become {new}.*track_order"):
            flow.transition_to(new)
        assert flow.status is old


def test_the_table_names_every_status_and_ends_in_the_final_ones() -> None:
    lines = transition_table().splitlines()
    assert [line.split()[0] for line in lines] == list(FlowStatus)
    assert {"completed", "cancelled", "failed"} == TERMINAL
    assert all(line.endswith("(ended)") for line in lines[-3:])
    # What was handed out and what awaits an answer can't complete without being active again.
    assert [old for old in FlowStatus if FlowStatus.COMPLETED in TRANSITIONS[old]] == [FlowStatus.ACTIVE]


def test_the_conversations_status_follows_from_the_rest() -> None:
    state = memory()
    assert (state.status, state.is_in_flow) == ("idle", False)
    state.active_flow = ActiveFlowState(flow_name="track_order")
    assert (state.status, state.is_in_flow) == ("in_flow", True)
    state.active_flow.transition_to(FlowStatus.COLLECTING_SLOTS)
    assert state.status == "collecting_slots"
    state.active_flow.transition_to(FlowStatus.AWAITING_CONFIRMATION)
    assert state.status == "awaiting_confirmation"
    state.action = RunningAction(flow_name="track_order")
    assert state.status == "executing_action"


def test_the_status_is_neither_stored_nor_set() -> None:
    state = memory()
    assert "status" not in state.model_dump()
    with pytest.raises((AttributeError, ValidationError)):
        state.status = "in_flow"  # type: ignore[misc,assignment]
    with pytest.raises(ValidationError):
        memory(status="in_flow")


def test_a_full_state_survives_json() -> None:
    state = memory(turn_number=3, sentiments=[-0.5, 0.25], last_agent_response="Où ça ? 🚚")
    state.active_flow = ActiveFlowState(
        flow_name="newsletter",
        slots={"topics": SlotState(name="topics", value=["lamps", {"n": [0, False, None]}])},
    )
    state.paused.append(ActiveFlowState(flow_name="track_order", status=FlowStatus.PAUSED, deferred=True))
    state.pending_confirmation = PendingConfirmation(
        flow_name="newsletter", action_description="Right?", action_payload={"topics": ["lamps"]}
    )
    state.add_mention("Order 4471", ["kettle"])
    state.archive_flow(
        ActiveFlowState(flow_name="refund_status"), FlowStatus.FAILED, result={"code": 3}, reason="down"
    )
    assert WorkingMemory.model_validate_json(state.model_dump_json()) == state


def test_falsy_values_are_values() -> None:
    flow = ActiveFlowState(flow_name="f")
    for name, value in {"a": 0, "b": False, "c": ""}.items():
        flow.slot(name).value = value
    flow.slot("d")
    assert flow.values == {"a": 0, "b": False, "c": ""}


def test_ended_flows_are_bounded_and_what_was_dropped_is_counted() -> None:
    state = memory()
    for turn in range(FLOWS_KEPT + 3):
        state.turn_number = turn
        state.archive_flow(ActiveFlowState(flow_name=f"f{turn}"), FlowStatus.COMPLETED)
    assert (len(state.flow_history), state.flows_dropped) == (FLOWS_KEPT, 3)
    assert (state.flow_history[0].flow_name, state.flow_history[-1].flow_name) == ("f3", f"f{FLOWS_KEPT + 2}")


def test_a_flow_that_has_ended_cannot_end_again() -> None:
    state = memory()
    flow = ActiveFlowState(flow_name="f")
    state.archive_flow(flow, FlowStatus.COMPLETED)
    with pytest.raises(StateError):
        state.archive_flow(flow, FlowStatus.CANCELLED)
    assert len(state.flow_history) == 1


def test_entities_add_up_and_are_forgotten_after_five_turns() -> None:
    state = memory(turn_number=1)
    state.add_mention("order 555", ["kettle"])
    state.add_mention("blue rug", [])
    state.turn_number = 2
    state.add_mention("Order #555", ["express", "kettle"])
    known = list(state.entity_workspace.values())[-1]
    assert (known.name, known.attributes, known.mention_count) == ("order 555", ["kettle", "express"], 2)
    assert [entity.name for entity in state.salient_entities] == ["order 555", "blue rug"]
    state.turn_number = 6
    state.evict_entities()
    assert len(state.entity_workspace) == 2
    state.turn_number = 7
    state.evict_entities()
    assert list(state.entity_workspace) == ["order 555"]
