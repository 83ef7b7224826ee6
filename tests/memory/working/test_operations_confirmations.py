"""The yes or no before something is done: asked, answered, denied, talked past."""

from __future__ import annotations

import pytest

import pure_operations as ops
from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    PendingConfirmation,
    SlotState,
    TurnCache,
    WorkingMemory,
)

PAYLOAD = {"order_id": "4471", "fee": 0}


def asked(**fields: object) -> WorkingMemory:
    flow = ActiveFlowState(
        flow_name="cancel",
        flow_id="f1",
        slots={
            "order_id": SlotState(name="order_id", value="4471"),
            "note": SlotState(name="note", required=False),
        },
    )
    state = ops.start_flow(WorkingMemory(conversation_id="c1", user_id="u1"), flow)
    state = ops.begin_turn(state, TurnCache())
    confirmation = PendingConfirmation(action_description="Cancel 4471?", action_payload=PAYLOAD, **fields)  # type: ignore[arg-type]
    return ops.request_confirmation(state, confirmation, now=5.0)


def drift(state: WorkingMemory, turns: int) -> WorkingMemory:
    for _ in range(turns):
        state = ops.begin_turn(state, TurnCache(is_continuation=False))
    return state


@pytest.mark.row("W6")
def test_a_question_waits_for_its_answer() -> None:
    state = asked()
    question = state.pending_confirmation
    assert state.status == "awaiting_confirmation"
    assert question is not None
    assert (question.flow_name, question.flow_id) == ("cancel", "f1")
    assert (question.requested_at_turn, question.requested_at, question.drifted_turns) == (1, 5.0, 0)


@pytest.mark.row("W6")
def test_a_question_is_asked_afresh_whatever_it_says_of_its_age() -> None:
    question = asked(drifted_turns=2, requested_at_turn=9).pending_confirmation
    assert question is not None
    assert (question.drifted_turns, question.requested_at_turn) == (0, 1)


@pytest.mark.row("W6", "U12")
def test_ref_w22_yes_pays_the_payload_out_exactly_once() -> None:
    state, payload = ops.confirm_action(asked())
    assert payload == PAYLOAD
    assert (state.status, state.pending_confirmation) == ("in_flow", None)
    assert state.active_flow is not None
    assert state.active_flow.ready
    again, nothing = ops.confirm_action(state)
    assert nothing is None
    assert again == state


@pytest.mark.row("W6")
def test_the_payload_that_is_paid_out_is_the_callers() -> None:
    state = asked()
    _, payload = ops.confirm_action(state)
    assert payload is not None
    payload["order_id"] = "0"
    assert ops.confirm_action(state)[1] == PAYLOAD


@pytest.mark.row("W6", "U12")
def test_ref_w22_no_keeps_the_flow_and_runs_nothing() -> None:
    state = ops.deny_action(asked())
    assert (state.status, state.pending_confirmation) == ("in_flow", None)
    assert state.active_flow is not None
    assert (state.active_flow.ready, state.active_flow.values) == (False, {"order_id": "4471"})
    assert ops.confirm_action(state)[1] is None


@pytest.mark.row("W6", "U12")
@pytest.mark.parametrize("slot", ["order_id", "note"])
def test_ref_w22_no_can_name_the_slot_to_change(slot: str) -> None:
    state = ops.collect_slot(asked(), "note", "quick")
    state = ops.deny_action(state, slot)
    assert state.active_flow is not None
    held = state.active_flow.slots[slot]
    assert (state.status, state.active_flow.awaiting) == ("collecting_slots", slot)
    assert (held.value, held.previous_value) == (None, "4471" if slot == "order_id" else "quick")
    state = ops.collect_slot(state, slot, "new")
    assert (state.status, state.active_flow and state.active_flow.awaiting) == ("in_flow", None)


@pytest.mark.row("W6")
def test_no_without_a_question_and_an_unknown_slot_are_errors() -> None:
    state = asked()
    with pytest.raises(StateError, match="no slot 'x'"):
        ops.deny_action(state, "x")
    assert ops.confirm_action(state)[1] == PAYLOAD
    with pytest.raises(StateError, match="No confirmation is open"):
        ops.deny_action(ops.deny_action(state))


@pytest.mark.row("W6")
def test_asking_again_is_not_asking_anew() -> None:
    state = drift(asked(), 2)
    assert state.pending_confirmation is not None
    same = PendingConfirmation(action_description="Really cancel?", action_payload=PAYLOAD)
    again = ops.request_confirmation(state, same, now=99.0).pending_confirmation
    assert again is not None
    assert (again.action_description, again.drifted_turns) == ("Really cancel?", 2)
    assert (again.requested_at_turn, again.requested_at) == (1, 5.0)
    other = PendingConfirmation(action_description="Cancel 4472?", action_payload={"order_id": "4472"})
    anew = ops.request_confirmation(state, other).pending_confirmation
    assert anew is not None
    assert (anew.drifted_turns, anew.requested_at_turn) == (0, 3)


@pytest.mark.row("W6")
def test_a_question_belongs_to_the_flow_that_runs() -> None:
    state = asked()
    for other in ({"flow_name": "pay"}, {"flow_id": "f2"}):
        with pytest.raises(StateError, match="not of the running flow"):
            ops.request_confirmation(state, PendingConfirmation(action_description="?", **other))  # type: ignore[arg-type]


@pytest.mark.row("W6")
def test_the_boundary_two_turns_about_something_else_leave_it_open() -> None:
    state = drift(asked(), 2)
    assert state.status == "awaiting_confirmation"
    assert state.pending_confirmation is not None
    assert state.pending_confirmation.drifted_turns == 2
    # The third turn is the yes itself.
    state = ops.begin_turn(state, TurnCache(is_continuation=True))
    state, payload = ops.confirm_action(state)
    assert payload == PAYLOAD


@pytest.mark.row("W6")
def test_ref_w8_the_third_drops_the_question_and_keeps_the_flow() -> None:
    state = drift(asked(), 3)
    assert (state.pending_confirmation, state.status) == (None, "idle")
    assert ops.confirm_action(state)[1] is None
    (waiting,) = state.paused
    assert (waiting.flow_name, waiting.status, waiting.values) == ("cancel", "paused", {"order_id": "4471"})
    assert state.flow_history == []


@pytest.mark.row("W6")
def test_ref_w8_turns_that_go_on_about_it_do_not_count() -> None:
    state = asked()
    for _ in range(10):
        state = ops.begin_turn(state, TurnCache())
    state = drift(state, 2)
    state = ops.begin_turn(state, TurnCache())
    assert state.status == "awaiting_confirmation"
    assert drift(state, 1).status == "idle"


@pytest.mark.row("W6")
def test_the_caller_knows_best_whether_a_turn_is_about_it() -> None:
    state = asked()
    for _ in range(4):
        state = ops.begin_turn(state, TurnCache(is_continuation=False), continues=True)
    assert state.status == "awaiting_confirmation"
    for _ in range(3):
        state = ops.begin_turn(state, TurnCache(is_continuation=True), continues=False)
    assert state.status == "idle"


@pytest.mark.row("W6")
@pytest.mark.parametrize("patience", [1, 2, 5])
def test_the_patience_is_the_questions_own(patience: int) -> None:
    state = drift(asked(timeout_turns=patience), patience - 1)
    assert state.pending_confirmation is not None
    assert drift(state, 1).pending_confirmation is None


@pytest.mark.row("W6", "W12")
def test_a_turn_delivered_again_does_not_age_the_question() -> None:
    state = asked()
    for _ in range(5):
        state = ops.begin_turn(state, TurnCache(message_id="m1", is_continuation=False))
    assert state.pending_confirmation is not None
    assert state.pending_confirmation.drifted_turns == 1
