"""Slots: registered, filled, refused, corrected, cleared."""

from __future__ import annotations

from typing import Any

import pytest

import pure_operations as ops
from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working import ActiveFlowState, PendingConfirmation, SlotState, WorkingMemory
from jazzmine_dspy.memory.working.state import SLOTS_KEPT
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.flows import Slot


def flow_with(*names: str, **more: SlotState) -> WorkingMemory:
    state = WorkingMemory(conversation_id="c1", user_id="u1", turn_number=4)
    slots = {name: SlotState(name=name) for name in names} | more
    return ops.start_flow(state, ActiveFlowState(flow_name="order", slots=slots))


def held(state: WorkingMemory, name: str) -> SlotState:
    assert state.active_flow is not None
    return state.active_flow.slots[name]


# --- collecting -------------------------------------------------------------------------------------------


@pytest.mark.row("W14")
def test_the_last_required_slot_makes_the_flow_active() -> None:
    state = flow_with("a", "b", c=SlotState(name="c", required=False))
    assert state.status == "collecting_slots"
    state = ops.collect_slot(state, "a", 1)
    assert state.status == "collecting_slots"
    state = ops.collect_slot(state, "b", 2)
    assert state.status == "in_flow"
    assert (held(state, "a").collected_at_turn, state.active_flow and state.active_flow.values) == (
        4,
        {"a": 1, "b": 2},
    )


@pytest.mark.row("W4", "W14")
@pytest.mark.parametrize("value", [0, False, "", [], {}, 0.0])
def test_a_falsy_value_is_collected(value: Any) -> None:
    state = ops.collect_slot(flow_with("a"), "a", value)
    assert (state.status, held(state, "a").value) == ("in_flow", value)


@pytest.mark.row("W14")
def test_ref_w20_an_empty_or_all_optional_list_of_slots_never_gets_stuck() -> None:
    for slots in (
        [],
        [SlotState(name="note", required=False)],
        [Slot(name="note", type="text", required=False)],
    ):
        state = ops.register_slots(flow_with(), slots)
        assert (state.status, state.pending_slots) == ("in_flow", [])
        assert ops.complete_flow(state).flow_history[0].status == "completed"
    # An optional value that was refused blocks nothing either.
    state = ops.register_slots(flow_with(), [SlotState(name="note", required=False)])
    assert ops.collect_slot(state, "note", "?", "too short").status == "in_flow"


@pytest.mark.row("W14", "W6")
def test_ref_w19_collecting_a_slot_does_not_bypass_an_open_confirmation() -> None:
    state = flow_with("a", "b")
    state = ops.collect_slot(state, "a", 1)
    state = ops.request_confirmation(
        state, PendingConfirmation(action_description="Sure?", action_payload={"a": 1})
    )
    for step in (
        lambda s: ops.collect_slot(s, "b", 2),
        lambda s: ops.collect_slot(s, "b", "x", "no number"),
        lambda s: ops.correct_slot(s, "a", 3),
        lambda s: ops.clear_slot(s, "a"),
        lambda s: ops.register_slots(s, [SlotState(name="d")]),
    ):
        after = step(state)
        assert after.status == "awaiting_confirmation"
        assert after.pending_confirmation == state.pending_confirmation
    _, payload = ops.confirm_action(ops.collect_slot(state, "b", 2))
    assert payload == {"a": 1}


@pytest.mark.row("W14", "W5")
def test_ref_w19_a_value_that_is_lost_or_refused_later_is_collected_again() -> None:
    state = ops.collect_slot(flow_with("a"), "a", 1)
    assert state.status == "in_flow"
    assert ops.clear_slot(state, "a").status == "collecting_slots"
    refused = ops.collect_slot(state, "a", "?", "no number")
    assert refused.status == "collecting_slots"
    assert ops.collect_slot(refused, "a", 1).status == "in_flow"
    assert ops.register_slots(state, [SlotState(name="late")]).status == "collecting_slots"


@pytest.mark.row("W13", "W14")
def test_ref_w19_an_unknown_slot_is_an_error_that_names_the_known_ones() -> None:
    state = flow_with("a", "b")
    for call in (
        lambda: ops.collect_slot(state, "x", 1),
        lambda: ops.collect_slot(state, "x", 1, "bad"),
        lambda: ops.correct_slot(state, "x", 1),
        lambda: ops.clear_slot(state, "x"),
    ):
        with pytest.raises(StateError, match=r"no slot 'x'.*'order'.*a, b"):
            call()


@pytest.mark.row("W4")
@pytest.mark.parametrize("value", [None, float("nan"), object(), {"a": {1}}, "\ud800"])
def test_ref_w19_nothing_and_what_is_not_json_are_no_values(value: Any) -> None:
    state = flow_with("a")
    for operation in (ops.collect_slot, ops.correct_slot):
        with pytest.raises(InputError, match="slot 'a'"):
            operation(state, "a", value)


@pytest.mark.row("W14")
def test_a_collected_value_is_the_states_own() -> None:
    value = ["lamp"]
    state = ops.collect_slot(flow_with("a"), "a", value)
    value.append("rug")
    assert held(state, "a").value == ["lamp"]


# --- refused values ---------------------------------------------------------------------------------------


@pytest.mark.row("W5", "U9")
def test_a_refused_value_is_never_stored_and_the_earlier_one_stays() -> None:
    state = ops.collect_slot(flow_with("a"), "a", "4471")
    state = ops.collect_slot(state, "a", "12", "four digits, please")
    slot = held(state, "a")
    assert (slot.value, slot.previous_value) == ("4471", None)
    assert (slot.validation_error, slot.attempts) == ("four digits, please", 1)
    assert "12" not in state.model_dump_json().replace("4471", "")


@pytest.mark.row("W5")
def test_the_third_refusal_escalates_and_a_good_value_ends_it() -> None:
    state = flow_with("a", "b")
    for attempt in (1, 2):
        state = ops.collect_slot(state, "a", "x", "no number")
        assert (held(state, "a").attempts, state.escalation) == (attempt, "")
    state = ops.collect_slot(state, "a", "x", "no number")
    assert state.escalation == "order: 3 values for a were refused: no number"
    # Another slot's value does not help.
    assert ops.collect_slot(state, "b", 1).escalation == state.escalation
    for good in (ops.collect_slot(state, "a", 5), ops.correct_slot(state, "a", 5)):
        assert (good.escalation, held(good, "a").attempts, held(good, "a").validation_error) == ("", 0, "")


@pytest.mark.row("W5")
def test_an_escalation_ends_with_its_flow_unless_that_failed() -> None:
    state = flow_with("a")
    for _ in range(3):
        state = ops.collect_slot(state, "a", "x", "no number")
    assert ops.cancel_flow(state).escalation == ""
    assert ops.fail_flow(state).escalation == state.escalation
    assert ops.pause_flow(state).escalation == state.escalation


@pytest.mark.row("W5")
def test_a_good_value_leaves_anothers_reason_to_escalate() -> None:
    state = flow_with("a")
    state.escalation = "the user is angry"
    assert (
        ops.collect_slot(ops.collect_slot(state, "a", "x", "bad"), "a", 1).escalation == "the user is angry"
    )


# --- corrected and cleared --------------------------------------------------------------------------------


@pytest.mark.row("W4", "U6")
def test_ref_w7_corrections_and_clearing_keep_the_previous_value() -> None:
    state = ops.collect_slot(flow_with("a"), "a", "4471")
    state = ops.correct_slot(state, "a", "4472")
    assert (held(state, "a").value, held(state, "a").previous_value) == ("4472", "4471")
    state = ops.clear_slot(state, "a")
    assert (held(state, "a").value, held(state, "a").previous_value) == (None, "4472")
    assert held(state, "a").collected_at_turn is None
    state = ops.collect_slot(state, "a", "4473")
    assert held(state, "a").previous_value == "4472"


@pytest.mark.row("W4")
def test_the_same_value_again_is_no_correction() -> None:
    state = ops.collect_slot(flow_with("a"), "a", 0)
    assert held(ops.collect_slot(state, "a", 0), "a").previous_value is None
    # To Python, False is 0.
    assert held(ops.correct_slot(state, "a", False), "a").previous_value == 0


@pytest.mark.row("W4")
def test_clearing_an_empty_slot_forgets_what_was_refused() -> None:
    state = ops.collect_slot(flow_with("a"), "a", "x", "bad")
    state = ops.clear_slot(state, "a")
    assert (held(state, "a").validation_error, held(state, "a").attempts) == ("", 0)
    assert (held(state, "a").previous_value, state.status) == (None, "collecting_slots")


# --- registered -------------------------------------------------------------------------------------------


@pytest.mark.row("W13")
def test_registering_again_renews_the_definition_and_keeps_the_value() -> None:
    state = ops.collect_slot(flow_with("a"), "a", 5)
    state = ops.register_slots(
        state, [SlotState(name="a", type="number", value=9), SlotState(name="b", value=1)]
    )
    assert (held(state, "a").type, held(state, "a").value, held(state, "b").value) == ("number", 5, 1)


@pytest.mark.row("W13")
def test_a_slot_that_comes_twice_is_refused() -> None:
    with pytest.raises(StateError, match="'a' comes twice"):
        ops.register_slots(flow_with(), [SlotState(name="a"), SlotState(name="a")])


@pytest.mark.row("W15", "G5")
def test_a_flow_has_a_hundred_slots_at_most() -> None:
    many = [SlotState(name=f"s{n}", required=False) for n in range(SLOTS_KEPT)]
    state = ops.register_slots(flow_with(), many)
    with pytest.raises(StateError, match="100 slots"):
        ops.register_slots(state, [SlotState(name="more")])
    slots = {slot.name: slot for slot in [*many, SlotState(name="more")]}
    with pytest.raises(StateError, match="100 slots"):
        ops.start_flow(state, ActiveFlowState(flow_name="other", slots=slots))


@pytest.mark.row("W13")
def test_slots_of_a_paused_flow_are_reached_by_its_name() -> None:
    state = ops.start_flow(flow_with("a"), ActiveFlowState(flow_name="other"))
    state = ops.collect_slot(state, "a", 1, flow="order")
    assert (state.paused[0].values, state.paused[0].status, state.status) == ({"a": 1}, "paused", "in_flow")
    assert ops.resume_flow(state).status == "in_flow"
    with pytest.raises(StateError, match=r"No flow 'gone'.*other, order"):
        ops.clear_slot(state, "a", flow="gone")
