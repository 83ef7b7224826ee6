"""Flows: started, paused, resumed, ended."""

from __future__ import annotations

import pytest

import pure_operations as ops
from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    FlowStatus,
    IllegalTransitionError,
    PendingConfirmation,
    SlotState,
    ToolCallRecord,
    TurnCache,
    WorkingMemory,
)
from jazzmine_dspy.memory.working.state import FLOWS_KEPT, PAUSED_KEPT, PAUSED_TURNS
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.flows import Flow

ASKED = PendingConfirmation(action_description="Sure?", action_payload={"a": 1})


def memory(*flows: str) -> WorkingMemory:
    state = WorkingMemory(conversation_id="c1", user_id="u1", agent_id="shop", turn_number=2)
    for name in flows:
        state = ops.start_flow(state, ActiveFlowState(flow_name=name, slots={"a": SlotState(name="a")}))
    return state


def paused(state: WorkingMemory) -> list[str]:
    return [flow.flow_name for flow in state.paused]


def running(state: WorkingMemory) -> str | None:
    return state.active_flow.flow_name if state.active_flow else None


# --- starting ---------------------------------------------------------------------------------------------


@pytest.mark.row("W11", "U11")
def test_starting_a_flow_sets_the_running_one_aside_and_overwrites_nothing() -> None:
    state = ops.collect_slot(memory("first"), "a", 1)
    state = ops.start_flow(state, ActiveFlowState(flow_name="second"))
    assert (running(state), paused(state), state.paused[0].values) == ("second", ["first"], {"a": 1})
    assert (state.paused[0].status, state.paused[0].paused_at_turn) == ("paused", 2)


@pytest.mark.row("W8", "W13")
def test_a_flow_starts_from_its_definition() -> None:
    flow = Flow(name="track", description="d", slots=[{"name": "order_id", "type": "text"}])
    state = ops.start_flow(memory(), flow, now=9.0)
    assert state.active_flow is not None
    assert (state.active_flow.flow_id, state.active_flow.started_at_turn) == (flow.id_for("shop"), 2)
    assert (state.active_flow.started_at, state.status) == (9.0, "collecting_slots")
    assert ops.start_flow(memory(), Flow(name="x", description="d")).status == "in_flow"


@pytest.mark.row("W9")
def test_ref_w13_a_flows_instructions_outlive_the_turn_that_selected_it() -> None:
    flow = Flow(name="track", description="Tell where an order is.")
    state = ops.begin_turn(memory(), TurnCache(combined_flow_prompt=flow.build_prompt(verbose=False)))
    state = ops.start_flow(state, flow)
    for _ in range(3):
        state = ops.begin_turn(state, TurnCache())
    assert state.current_turn is not None
    assert state.current_turn.combined_flow_prompt == ""
    assert state.active_flow is not None
    assert "Tell where an order is." in state.active_flow.instructions
    # Only what lives carries its instructions.
    assert "Tell where" not in ops.complete_flow(state).model_dump_json()


@pytest.mark.row("W11")
def test_a_flow_that_runs_or_waits_is_not_started_over() -> None:
    state = memory("first", "second")
    with pytest.raises(StateError, match="'second' is running already"):
        ops.start_flow(state, ActiveFlowState(flow_name="second"))
    with pytest.raises(StateError, match=r"'first' is paused already.*resume"):
        ops.start_flow(state, ActiveFlowState(flow_name="first"))


@pytest.mark.row("W1")
def test_what_has_ended_cannot_be_started() -> None:
    with pytest.raises(IllegalTransitionError):
        ops.start_flow(memory(), ActiveFlowState(flow_name="x", status=FlowStatus.FAILED))


@pytest.mark.row("W11")
def test_a_flow_state_that_is_handed_in_stays_the_callers() -> None:
    given = ActiveFlowState(flow_name="x", slots={"a": SlotState(name="a")})
    before = given.model_dump_json()
    state = ops.start_flow(memory(), given)
    given.slots["a"].value = 1
    assert state.active_flow is not None
    assert state.active_flow.values == {}
    given.slots["a"].value = None
    assert given.model_dump_json() == before


# --- the stack --------------------------------------------------------------------------------------------


@pytest.mark.row("W11", "U11")
def test_resuming_takes_the_newest_or_the_named_one_and_leaves_the_order() -> None:
    state = memory("a", "b", "c", "d")
    newest = ops.resume_flow(state)
    assert (running(newest), paused(newest)) == ("c", ["a", "b", "d"])
    by_name = ops.resume_flow(state, "b")
    assert (running(by_name), paused(by_name)) == ("b", ["a", "c", "d"])
    assert by_name.active_flow is not None
    assert by_name.active_flow.paused_at_turn is None


@pytest.mark.row("W11")
def test_a_resumed_flow_stands_where_its_slots_are() -> None:
    state = memory("a")
    assert ops.resume_flow(ops.pause_flow(state)).status == "collecting_slots"
    state = ops.collect_slot(state, "a", 1)
    assert ops.resume_flow(ops.pause_flow(state)).status == "in_flow"


@pytest.mark.row("W11", "W6")
def test_a_confirmation_does_not_survive_a_pause() -> None:
    state = ops.request_confirmation(memory("a"), ASKED)
    state = ops.pause_flow(state)
    assert (state.status, state.pending_confirmation) == ("idle", None)
    state = ops.resume_flow(state)
    assert state.status == "collecting_slots"
    assert ops.confirm_action(state)[1] is None


@pytest.mark.row("W11")
def test_a_flow_paused_after_its_yes_is_not_run_when_it_comes_back() -> None:
    state, _ = ops.confirm_action(ops.request_confirmation(memory("a"), ASKED))
    assert state.active_flow is not None
    assert state.active_flow.ready
    state = ops.resume_flow(ops.pause_flow(state))
    assert state.active_flow is not None
    assert not state.active_flow.ready


@pytest.mark.row("W11", "W15")
def test_the_depth_is_limited_and_the_oldest_is_archived() -> None:
    state = memory(*(f"f{n}" for n in range(PAUSED_KEPT + 1)))
    assert (len(state.paused), state.flow_history) == (PAUSED_KEPT, [])
    state = ops.start_flow(state, ActiveFlowState(flow_name="last"))
    assert paused(state) == [f"f{n}" for n in range(1, PAUSED_KEPT + 1)]
    (record,) = state.flow_history
    assert (record.flow_name, record.status, record.reason) == (
        "f0",
        "cancelled",
        "too many flows were waiting",
    )


@pytest.mark.row("W11")
def test_flows_paused_for_more_than_twenty_turns_expire() -> None:
    state = ops.pause_flow(memory("old"))
    for _ in range(PAUSED_TURNS):
        state = ops.begin_turn(state, TurnCache())
    assert paused(state) == ["old"]
    state = ops.begin_turn(state, TurnCache())
    (record,) = state.flow_history
    assert (state.paused, record.flow_name, record.status, record.reason) == (
        [],
        "old",
        "cancelled",
        "expired",
    )


@pytest.mark.row("W11")
def test_a_flow_paused_in_an_older_record_expires_from_now_on() -> None:
    state = memory()
    state.turn_number = 100
    state.paused = [ActiveFlowState(flow_name="old", status=FlowStatus.PAUSED)]
    for _ in range(PAUSED_TURNS + 1):
        state = ops.begin_turn(state, TurnCache())
    assert paused(state) == ["old"]
    assert ops.begin_turn(state, TurnCache()).paused == []


@pytest.mark.row("W11")
def test_what_is_not_paused_cannot_be_resumed() -> None:
    state = memory("a", "b")
    with pytest.raises(StateError, match=r"No flow 'x' is paused.*a\."):
        ops.resume_flow(state, "x")
    with pytest.raises(StateError, match="'b' is running already"):
        ops.resume_flow(state, "b")
    with pytest.raises(StateError, match="No flow is paused"):
        ops.resume_flow(memory())


# --- ends -------------------------------------------------------------------------------------------------


@pytest.mark.row("W1", "W13")
def test_a_flow_that_ends_is_archived_with_what_it_knew() -> None:
    state = ops.begin_turn(memory("a"), TurnCache())
    state = ops.collect_slot(state, "a", 0)
    for summary, success in (("found it", True), ("", True), ("broke", False)):
        state = ops.record_tool_call(
            state, ToolCallRecord(tool_name="t", result_summary=summary, success=success)
        )
    state = ops.complete_flow(state, {"day": "Friday"})
    (record,) = state.flow_history
    assert (state.active_flow, state.status) == (None, "idle")
    assert (record.slot_values, record.tool_summaries) == ({"a": 0}, ["found it"])
    assert (record.started_at_turn, record.ended_at_turn, record.result) == (2, 3, {"day": "Friday"})


@pytest.mark.row("W1", "W6")
def test_ref_w1_a_flow_with_slots_or_an_answer_missing_cannot_complete() -> None:
    state = memory("a")
    with pytest.raises(IllegalTransitionError, match="collecting_slots cannot become completed"):
        ops.complete_flow(state)
    state = ops.request_confirmation(state, ASKED)
    with pytest.raises(IllegalTransitionError, match="awaiting_confirmation cannot become completed"):
        ops.complete_flow(state)
    assert (state.status, state.flow_history) == ("awaiting_confirmation", [])


@pytest.mark.row("W1")
def test_the_confirmation_goes_with_its_flow() -> None:
    state = ops.request_confirmation(memory("a"), ASKED)
    for ended in (ops.cancel_flow(state, reason="no"), ops.fail_flow(state, "down")):
        assert (ended.pending_confirmation, ended.status) == (None, "idle")
    assert ops.fail_flow(state, "down").flow_history[0].reason == "down"


@pytest.mark.row("U11")
def test_a_paused_flow_can_be_cancelled_by_name() -> None:
    state = ops.request_confirmation(memory("a", "b"), ASKED)
    after = ops.cancel_flow(state, "a", "changed my mind")
    assert (paused(after), running(after), after.pending_confirmation) == (
        [],
        "b",
        state.pending_confirmation,
    )
    assert after.flow_history[0].reason == "changed my mind"
    with pytest.raises(StateError, match=r"No flow 'x'.*b, a"):
        ops.cancel_flow(state, "x")


@pytest.mark.row("W1", "W15")
def test_ref_w23_ended_flows_are_bounded_and_what_was_dropped_is_counted() -> None:
    state = memory()
    for n in range(FLOWS_KEPT + 3):
        state = ops.complete_flow(ops.start_flow(state, ActiveFlowState(flow_name=f"f{n}")))
    assert (len(state.flow_history), state.flows_dropped) == (FLOWS_KEPT, 3)


@pytest.mark.row("W1")
def test_a_result_that_is_not_json_is_refused() -> None:
    state = ops.start_flow(memory(), ActiveFlowState(flow_name="x"))
    with pytest.raises(InputError, match="result"):
        ops.complete_flow(state, {"when": object()})


NEEDING_A_FLOW = {
    "pause": lambda s: ops.pause_flow(s),
    "complete": lambda s: ops.complete_flow(s),
    "cancel": lambda s: ops.cancel_flow(s),
    "fail": lambda s: ops.fail_flow(s),
    "advance": lambda s: ops.advance_sequential_step(s, 1),
    "branch": lambda s: ops.record_branch_result(s, "a", 1),
    "condition": lambda s: ops.set_condition_branch(s, "a"),
    "register": lambda s: ops.register_slots(s, []),
    "collect": lambda s: ops.collect_slot(s, "a", 1),
    "correct": lambda s: ops.correct_slot(s, "a", 1),
    "clear": lambda s: ops.clear_slot(s, "a"),
    "request": lambda s: ops.request_confirmation(s, ASKED),
}


@pytest.mark.row("W13")
@pytest.mark.parametrize("name", NEEDING_A_FLOW)
def test_without_a_flow_there_is_an_error_and_no_silence(name: str) -> None:
    state = ops.pause_flow(memory("waiting"))
    before = state.model_dump_json()
    with pytest.raises(StateError, match=r"No flow is running \(conversation 'c1'\).*waiting") as raised:
        NEEDING_A_FLOW[name](state)
    assert raised.value.remedy
    assert state.model_dump_json() == before
