"""Actions, and the messages that wait for their end."""

from __future__ import annotations

import pytest

import pure_operations as ops
from jazzmine_dspy.memory.errors import QueueFullError, StateError
from jazzmine_dspy.memory.working import (
    ActiveFlowState,
    PendingConfirmation,
    QueuedMessage,
    SlotState,
    TurnCache,
    WorkingMemory,
)
from jazzmine_dspy.memory.working.state import QUEUE_KEPT
from jazzmine_dspy.models.errors import InputError


def ready() -> WorkingMemory:
    state = WorkingMemory(conversation_id="c1", user_id="u1", turn_number=3)
    return ops.start_flow(state, ActiveFlowState(flow_name="pay", slots={"a": SlotState(name="a", value=1)}))


def executing() -> WorkingMemory:
    return ops.begin_action(ready(), now=1.5)


def message(number: int) -> QueuedMessage:
    return QueuedMessage(message_id=f"m{number}", user_id="u1", text=f"text {number}")


@pytest.mark.row("W2", "W13")
def test_ref_w2_a_running_action_is_a_status_of_the_conversation() -> None:
    state = executing()
    assert state.status == "executing_action"
    assert state.action is not None
    assert (state.action.flow_name, state.action.started_at_turn, state.action.started_at) == ("pay", 3, 1500)
    assert ops.begin_action(state, now=9.0) == state


@pytest.mark.row("W13", "W6")
def test_an_action_begins_only_where_a_flow_is_ready() -> None:
    state = ready()
    asked = ops.request_confirmation(state, PendingConfirmation(action_description="Pay?"))
    for unready in (
        WorkingMemory(conversation_id="c1", user_id="u1"),
        ops.clear_slot(state, "a"),
        asked,
        ops.pause_flow(state),
    ):
        with pytest.raises(StateError, match="No flow is ready to run"):
            ops.begin_action(unready)
    assert ops.begin_action(ops.confirm_action(asked)[0]).status == "executing_action"


@pytest.mark.row("U2", "W13")
@pytest.mark.parametrize("failed", [False, True])
def test_the_end_of_an_action_is_the_end_of_its_flow(failed: bool) -> None:
    state = ops.finish_action(executing(), {"receipt": 7}, failed)
    (record,) = state.flow_history
    assert (state.action, state.active_flow, state.status) == (None, None, "idle")
    assert (record.status, record.result) == ("failed" if failed else "completed", {"receipt": 7})
    assert bool(record.reason) is failed


@pytest.mark.row("W13")
def test_an_end_needs_an_action_and_json() -> None:
    with pytest.raises(StateError, match="No action is running"):
        ops.finish_action(ready())
    with pytest.raises(InputError, match="result"):
        ops.finish_action(executing(), object())


@pytest.mark.row("U2")
def test_messages_wait_in_their_order_and_once() -> None:
    state = executing()
    for number in (1, 2, 1, 3, 2):
        state = ops.enqueue(state, message(number))
    assert [waiting.message_id for waiting in state.queue] == ["m1", "m2", "m3"]
    # While the action runs, nothing is taken out.
    assert ops.dequeue(state) == (state, None)
    state = ops.finish_action(state)
    taken = []
    while state.queue:
        state, waiting = ops.dequeue(state)
        taken.append(waiting and waiting.text)
    assert taken == ["text 1", "text 2", "text 3"]
    assert ops.dequeue(state) == (state, None)


@pytest.mark.row("U2")
def test_a_message_waits_only_for_an_action_and_only_before_its_turn() -> None:
    with pytest.raises(StateError, match="No action is running"):
        ops.enqueue(ready(), message(1))
    state = ops.begin_action(ops.begin_turn(ready(), TurnCache(message_id="m1")))
    assert ops.enqueue(state, message(1)).queue == []


@pytest.mark.row("U2", "W15", "G5")
def test_the_queue_is_bounded() -> None:
    state = executing()
    for number in range(QUEUE_KEPT):
        state = ops.enqueue(state, message(number))
    with pytest.raises(QueueFullError, match="20 messages wait"):
        ops.enqueue(state, message(99))
    # One that waits already is no more.
    assert ops.enqueue(state, message(0)) == state


@pytest.mark.row("U2", "W1")
def test_nothing_takes_the_flow_from_under_a_running_action() -> None:
    state = ops.begin_action(ops.start_flow(ready(), ActiveFlowState(flow_name="b")))
    for step in (
        lambda: ops.start_flow(state, ActiveFlowState(flow_name="c")),
        lambda: ops.pause_flow(state),
        lambda: ops.resume_flow(state),
        lambda: ops.complete_flow(state),
        lambda: ops.cancel_flow(state),
        lambda: ops.fail_flow(state),
        lambda: ops.request_confirmation(state, PendingConfirmation(action_description="?")),
    ):
        with pytest.raises(StateError, match="An action is running"):
            step()
    # A paused flow may go, and slots may change: the action ends as it would have.
    assert ops.cancel_flow(state, "pay").paused == []
    state = ops.register_slots(state, [SlotState(name="late")])
    assert state.status == "executing_action"
    assert ops.finish_action(state).flow_history[0].status == "completed"
