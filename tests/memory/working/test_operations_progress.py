"""How far flows of several parts are, and the tools called on the way."""

from __future__ import annotations

from typing import Any

import pytest

import pure_operations as ops
from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.memory.working import ActiveFlowState, ToolCallRecord, TurnCache, WorkingMemory
from jazzmine_dspy.memory.working.state import TOOL_CALLS_KEPT
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.flows import Flow

PARTS = [{"name": "pack", "description": "Pack."}, {"name": "send", "description": "Send."}]


def in_flow(kind: str = "flow") -> WorkingMemory:
    more = {"condition_expr": "paid"} if kind == "conditional" else {}
    parts = PARTS if kind != "flow" else []
    flow = Flow(name="order", description="d", kind=kind, subflows=parts, **more)  # type: ignore[arg-type]
    state = ops.begin_turn(WorkingMemory(conversation_id="c1", user_id="u1"), TurnCache())
    return ops.start_flow(state, flow)


def flow_of(state: WorkingMemory) -> ActiveFlowState:
    assert state.active_flow is not None
    return state.active_flow


def call(tool: str = "t", **fields: Any) -> ToolCallRecord:
    return ToolCallRecord(tool_name=tool, **fields)


def indices(calls: list[ToolCallRecord]) -> list[int]:
    return [one.call_index for one in calls]


# --- steps and branches -----------------------------------------------------------------------------------


@pytest.mark.row("W8")
def test_a_sequence_advances_step_by_step_to_its_end() -> None:
    state = ops.advance_sequential_step(in_flow("sequential"), None)
    assert (flow_of(state).current_step, flow_of(state).is_complete) == (1, False)
    state = ops.advance_sequential_step(state, {"sent": True})
    assert (flow_of(state).step_results, flow_of(state).is_complete) == ([None, {"sent": True}], True)
    with pytest.raises(StateError, match="All 2 steps are done"):
        ops.advance_sequential_step(state, 3)
    assert ops.complete_flow(state).flow_history[0].flow_type == "sequential"


@pytest.mark.row("W8")
def test_ref_w12_tool_calls_do_not_move_a_sequence() -> None:
    state = in_flow("sequential")
    for _ in range(3):
        state = ops.record_tool_call(state, call())
    assert flow_of(state).current_step == 0
    state = ops.record_tool_call(ops.advance_sequential_step(state, 1), call())
    assert [one.step for one in flow_of(state).tool_call_history] == [0, 0, 0, 1]


@pytest.mark.row("W8")
@pytest.mark.parametrize("result", [0, False, "", [], {}])
def test_a_fork_is_complete_when_all_its_branches_are(result: Any) -> None:
    state = ops.record_branch_result(in_flow("parallel"), "send", result)
    assert not flow_of(state).is_complete
    state = ops.record_branch_result(state, "pack", "done")
    assert flow_of(state).branch_results == {"pack": "done", "send": result}
    assert flow_of(state).is_complete


@pytest.mark.row("W8")
def test_a_branch_is_known_and_done_once() -> None:
    state = ops.record_branch_result(in_flow("parallel"), "send", 0)
    with pytest.raises(StateError, match=r"no branch 'post'.*pack, send"):
        ops.record_branch_result(state, "post", 1)
    with pytest.raises(StateError, match="'send' is done already"):
        ops.record_branch_result(state, "send", 1)
    with pytest.raises(InputError, match="branch 'pack'"):
        ops.record_branch_result(state, "pack", None)


@pytest.mark.row("W8")
def test_a_condition_chooses_one_branch_and_is_complete_with_it() -> None:
    state = in_flow("conditional")
    with pytest.raises(StateError, match="not chosen"):
        ops.record_branch_result(state, "pack", 1)
    with pytest.raises(StateError, match=r"no branch 'post'.*pack, send"):
        ops.set_condition_branch(state, "post")
    state = ops.set_condition_branch(state, "send")
    with pytest.raises(StateError, match="'send' is chosen already"):
        ops.set_condition_branch(state, "send")
    with pytest.raises(StateError, match="not chosen"):
        ops.record_branch_result(state, "pack", 1)
    assert not flow_of(state).is_complete
    state = ops.record_branch_result(state, "send", False)
    assert flow_of(state).is_complete


@pytest.mark.row("W8")
def test_a_condition_whose_branches_are_unknown_takes_any() -> None:
    flow = ActiveFlowState(flow_name="c", flow_type="conditional", condition_expr="paid")
    state = ops.start_flow(WorkingMemory(conversation_id="c1", user_id="u1"), flow)
    with pytest.raises(StateError):
        ops.set_condition_branch(state, "")
    state = ops.record_branch_result(ops.set_condition_branch(state, "yes"), "yes", 1)
    assert flow_of(state).is_complete


@pytest.mark.row("W8")
def test_progress_of_another_kind_is_refused() -> None:
    for kind, steps in {
        "flow": ("advance", "branch", "choose"),
        "sequential": ("branch", "choose"),
        "parallel": ("advance", "choose"),
        "conditional": ("advance",),
    }.items():
        state = in_flow(kind)
        for step in steps:
            with pytest.raises(StateError, match=f"of kind '{kind}'"):
                {
                    "advance": lambda s: ops.advance_sequential_step(s, 1),
                    "branch": lambda s: ops.record_branch_result(s, "pack", 1),
                    "choose": lambda s: ops.set_condition_branch(s, "pack"),
                }[step](state)


@pytest.mark.row("W8")
@pytest.mark.parametrize("value", [object(), float("inf"), {1}])
def test_results_must_be_json(value: Any) -> None:
    with pytest.raises(InputError, match="step_result"):
        ops.advance_sequential_step(in_flow("sequential"), value)
    with pytest.raises(InputError, match="branch 'pack'"):
        ops.record_branch_result(in_flow("parallel"), "pack", value)


# --- tool calls -------------------------------------------------------------------------------------------


@pytest.mark.row("W3", "W10")
def test_ref_w14_calls_are_numbered_through_the_turn_over_all_flows() -> None:
    state = in_flow()
    for _ in range(2):
        state = ops.record_tool_call(state, call(), now=7.5)
    state = ops.start_flow(state, ActiveFlowState(flow_name="other"))
    state = ops.record_tool_call(state, call(called_at=1.0), now=7.5)
    state = ops.resume_flow(state)
    state = ops.record_tool_call(state, call())
    assert state.current_turn is not None
    assert indices(state.current_turn.tool_calls) == [0, 1, 2, 3]
    assert indices(flow_of(state).tool_call_history) == [0, 1, 3]
    assert [one.called_at for one in state.current_turn.tool_calls] == [7.5, 7.5, 1.0, 0.0]
    state = ops.record_tool_call(ops.begin_turn(state, TurnCache()), call())
    assert state.current_turn is not None
    (only,) = state.current_turn.tool_calls
    assert (only.call_index, only.turn_number) == (0, 2)


@pytest.mark.row("W3", "W15")
def test_ref_w23_tool_calls_are_bounded_and_what_was_dropped_is_counted() -> None:
    state = in_flow()
    for _ in range(TOOL_CALLS_KEPT + 3):
        state = ops.record_tool_call(state, call())
    assert state.current_turn is not None
    for calls, dropped in (
        (flow_of(state).tool_call_history, flow_of(state).tool_calls_dropped),
        (state.current_turn.tool_calls, state.current_turn.tool_calls_dropped),
    ):
        assert (indices(calls), dropped) == (list(range(3, TOOL_CALLS_KEPT + 3)), 3)


@pytest.mark.row("W3")
def test_a_call_is_kept_where_there_is_a_place() -> None:
    idle = ops.begin_turn(WorkingMemory(conversation_id="c1", user_id="u1"), TurnCache())
    idle = ops.record_tool_call(idle, call())
    assert idle.current_turn is not None
    assert len(idle.current_turn.tool_calls) == 1
    nowhere = WorkingMemory(conversation_id="c1", user_id="u1")
    with pytest.raises(StateError, match="No turn has begun"):
        ops.record_tool_call(nowhere, call())


@pytest.mark.row("W3")
def test_a_record_is_copied_and_checked_again() -> None:
    record = call(result={"count": 5})
    state = ops.record_tool_call(in_flow(), record)
    record.result["count"] = 6
    assert flow_of(state).tool_call_history[0].result == {"count": 5}
    record.result["when"] = {1, 2}
    with pytest.raises(InputError, match="result of tool 't'"):
        ops.record_tool_call(state, record)


@pytest.mark.row("W10")
def test_ref_w14_no_call_is_shown_twice_whatever_was_called_before() -> None:
    state = in_flow()
    assert state.build_prompt_tool_sections() == ""
    shown: list[str] = []
    for turn in range(3):
        for number in range(2):
            shown.append(f"s{turn}{number}")
            state = ops.record_tool_call(state, call(result_summary=shown[-1], result="secret"))
            text = state.build_prompt_tool_sections()
            assert [text.count(f"<summary>{one}</summary>") for one in shown] == [1] * len(shown)
            assert "secret" not in text
        state = ops.begin_turn(state, TurnCache())
    assert text.index("s10") < text.index("<tool_calls_of_this_turn>") < text.index("s20")


@pytest.mark.row("W10", "W15")
def test_the_prompt_says_that_older_calls_are_not_shown() -> None:
    state = in_flow()
    for _ in range(TOOL_CALLS_KEPT + 2):
        state = ops.record_tool_call(state, call())
    assert '<tool_calls_of_this_turn not_shown="2">' in state.build_prompt_tool_sections()
