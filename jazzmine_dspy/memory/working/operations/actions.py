"""An action running outside, and the messages that wait for its end."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.memory.errors import QueueFullError
from jazzmine_dspy.memory.working.enums import FlowStatus
from jazzmine_dspy.memory.working.operations._lookup import json_value, refused
from jazzmine_dspy.memory.working.operations.flows import end_flow
from jazzmine_dspy.memory.working.operations.step import Answering, Operation
from jazzmine_dspy.memory.working.records import QueuedMessage, RunningAction
from jazzmine_dspy.memory.working.state import QUEUE_KEPT, WorkingMemory


@Operation.of_short_texts
def begin_action(
    state: WorkingMemory, *, now: float = 0.0, action_id: str = "", message_id: str = ""
) -> None:
    """Begin the work of the running flow; until it is finished, messages queue.

    An action that has begun already goes on.

    Args:
        now: Unix time in seconds.
        action_id: What its end will be known by.
        message_id: Of the message that led to it.

    Raises:
        StateError: no flow is ready to run: none is running, it lacks slots, or a yes or no is open.
    """
    if state.action is not None:
        return
    flow = state.active_flow
    if flow is None or flow.status is not FlowStatus.ACTIVE:
        raise refused(
            state,
            "No flow is ready to run" + (f": it is {flow.status}" if flow else ""),
            "Begin an action when a flow has its slots and its yes, before the next message.",
            flow=flow.flow_name if flow else "",
        )
    state.action = RunningAction(
        flow_name=flow.flow_name,
        action_id=action_id,
        message_id=message_id,
        started_at_turn=state.turn_number,
        started_at=max(0, int(now * 1000)),
    )


@Operation
def finish_action(state: WorkingMemory, result: Any = None, failed: bool = False) -> None:
    """End the running action and its flow. Messages that waited stay in the queue, for :func:`dequeue`.

    Args:
        result: What the action gave, as JSON values; kept in the record of the flow.
        failed: The action came to nothing.

    Raises:
        StateError: no action is running.
        InputError: ``result`` is not JSON.

    Example:
        >>> from jazzmine_dspy.memory.working import ActiveFlowState
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=ActiveFlowState(flow_name="pay"))
        >>> state = enqueue(begin_action(state), QueuedMessage(message_id="m2", user_id="u1", text="hello?"))
        >>> state, waiting = dequeue(finish_action(state, {"paid": True}))
        >>> state.flow_history[0].result, waiting.text, state.queue
        ({'paid': True}, 'hello?', [])
    """
    if state.action is None:
        raise refused(state, "No action is running", "Call begin_action first.")
    given = json_value(result, "result")
    state.action = None
    flow = state.active_flow
    if flow is None:
        return
    if failed:
        end_flow(state, flow, FlowStatus.FAILED, result=given, reason="the action failed")
    else:
        end_flow(state, flow, FlowStatus.COMPLETED, result=given)


@Operation
def enqueue(state: WorkingMemory, message: QueuedMessage) -> None:
    """Let a message wait for the end of the running action, behind those that wait already.

    One that waits already, or whose turn has begun before, is not taken again.

    Raises:
        StateError: no action is running, so that nothing has to wait.
        QueueFullError: twenty messages wait.
    """
    if any(waiting.message_id == message.message_id for waiting in state.queue):
        return
    if message.message_id in state.begun:
        return
    if state.action is None:
        raise refused(state, "No action is running", "Begin the message's turn with begin_turn.")
    if len(state.queue) >= QUEUE_KEPT:
        raise QueueFullError(
            f"{QUEUE_KEPT} messages wait already",
            where=f"conversation {state.conversation_id!r}",
            remedy="Finish the running action with finish_action.",
        )
    state.queue = [*state.queue, message.model_copy(deep=True)]


@Answering
def dequeue(state: WorkingMemory) -> QueuedMessage | None:
    """Take the message that has waited longest out of the queue; its turn is the caller's now.

    Returns:
        The message; None where none waits, or an action is running, for whose end they have to wait.
    """
    if state.action is not None or not state.queue:
        return None
    first, *others = state.queue
    state.queue = others
    return first
