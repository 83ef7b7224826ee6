"""What happens in a turn: begun, tools called, confirmations, actions and the messages that wait for them, ended."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from jazzmine_dspy.memory.errors import QueueFullError
from jazzmine_dspy.memory.working.flow import TurnCache
from jazzmine_dspy.memory.working.operations.flows import end_flow, pause_active_flow
from jazzmine_dspy.memory.working.operations.slots import (
    clear_value,
    json_value,
    require,
    require_active_flow,
    require_no_action,
    require_slot,
    update_status,
)
from jazzmine_dspy.memory.working.records import (
    FlowStatus,
    PendingConfirmation,
    QueuedMessage,
    RunningAction,
    ToolCallRecord,
    TopicShift,
)
from jazzmine_dspy.memory.working.state import (
    ENTITIES_A_TURN,
    PAUSED_TURNS,
    PROCESSED_KEPT,
    QUEUE_KEPT,
    TOOL_CALLS_KEPT,
    TOPICS_KEPT,
    WorkingMemory,
    truncate,
)
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Entity


def begin_turn(state: WorkingMemory, turn_cache: TurnCache, *, continues: bool | None = None) -> None:
    """Begin the turn of a message, in one step: all of it happens, or nothing.

    The cache replaces that of the turn before, and gets the number that follows. Entities are merged, those
    not named for more than five turns forgotten, and a topic shift noted where the message opens one. An open
    yes or no that the user has now talked past ``timeout_turns`` times is dropped and its flow paused; flows
    paused for more than twenty turns are cancelled.

    A message whose turn has begun before, by ``message_id``, changes nothing; one without an id is always new.
    ``is_cancellation`` alone cancels nothing: what is to be cancelled is said with ``cancel_flow``.

    Args:
        continues: Whether the message is about the open yes or no; ``turn_cache.is_continuation`` where None.

    Raises:
        InputError: an entity of ``turn_cache`` is malformed.

    Example:
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1")
        >>> cache = TurnCache(message_id="m1", raw_entities=[{"name": "Order #555"}])
        >>> begin_turn(state, cache)
        >>> begin_turn(state, cache)
        >>> state.turn_number, list(state.entity_workspace)
        (1, ['Order #555'])
    """
    current = state.current_turn
    message_id = turn_cache.message_id
    if message_id and (
        message_id in state.started_message_ids or (current and current.message_id == message_id)
    ):
        return
    entities = _entities(turn_cache.raw_entities)
    cache = turn_cache.model_copy(deep=True)
    state.turn_number += 1
    cache.turn_number = state.turn_number
    for index, call in enumerate(cache.tool_calls):
        call.turn_number, call.call_index = state.turn_number, index
    cache.tool_calls_dropped += truncate(cache.tool_calls, TOOL_CALLS_KEPT)
    state.current_turn = cache
    if message_id:
        state.started_message_ids = [*state.started_message_ids, message_id][-PROCESSED_KEPT:]
    for entity in entities:
        state.add_mention(entity.name, entity.attributes)
    state.evict_entities()
    if not cache.is_continuation:
        state.topic_history = [
            *state.topic_history, TopicShift(turn_number=state.turn_number, intent=cache.intent)
        ]  # fmt: skip
        state.topics_dropped += truncate(state.topic_history, TOPICS_KEPT)
    _expire_confirmation(state, drifts=not (cache.is_continuation if continues is None else continues))
    _expire_paused(state)


def end_turn(
    state: WorkingMemory, agent_response: str, agent_intent: str = "", topic_summary: str = ""
) -> None:
    """Note what was answered.

    The topic begun last gets its summary, once: ``topic_summary``, else the intent of the answer.

    Example:
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1")
        >>> end_turn(state, "Hello world", "greeting")
        >>> state.last_agent_response
        'Hello world'
    """
    state.last_agent_response = agent_response
    state.last_agent_intent = agent_intent
    if state.topic_history and not state.topic_history[-1].summary:
        state.topic_history[-1].summary = topic_summary or agent_intent


def record_tool_call(state: WorkingMemory, record: ToolCallRecord, *, now: float = 0.0) -> None:
    """Note a tool call, in the turn and in the running flow.

    Its turn and its number in the turn are the conversation's; of a sequential flow so is its step, where
    none is given. The last fifty of a turn and of a flow are kept.

    Args:
        now: Unix time in seconds, where the record has none.

    Raises:
        StateError: no turn has begun and no flow is running, so that it belongs nowhere.
        InputError: arguments or result are not JSON.

    Example:
        >>> from jazzmine_dspy.memory.working import ActiveFlowState
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=ActiveFlowState(flow_name="f"))
        >>> for tool in ("stock", "price"):
        ...     record_tool_call(state, ToolCallRecord(tool_name=tool))
        >>> [call.call_index for call in state.active_flow.tool_call_history]
        [0, 1]
    """
    flow, turn = state.active_flow, state.current_turn
    require(
        state,
        flow or turn,
        "No turn has begun and no flow is running",
        "Call begin_turn when the message comes, or start_flow.",
    )
    call = record.model_copy(deep=True)
    # A model checks what is assigned to it, not what is changed inside.
    call.arguments = json_value(call.arguments, f"arguments of tool {call.tool_name!r}")
    call.result = json_value(call.result, f"result of tool {call.tool_name!r}")
    known = [*(turn.tool_calls if turn else []), *(flow.tool_call_history if flow else [])]
    indices = [one.call_index for one in known if one.turn_number == state.turn_number]
    call.turn_number, call.call_index = state.turn_number, max(indices, default=-1) + 1
    call.called_at = call.called_at or now
    if flow is not None:
        call.step = flow.step if call.step is None else call.step
        flow.tool_call_history = [*flow.tool_call_history, call]
        flow.tool_calls_dropped += truncate(flow.tool_call_history, TOOL_CALLS_KEPT)
    if turn is not None:
        turn.tool_calls = [*turn.tool_calls, call.model_copy(deep=True)]
        turn.tool_calls_dropped += truncate(turn.tool_calls, TOOL_CALLS_KEPT)


def request_confirmation(
    state: WorkingMemory, confirmation: PendingConfirmation, *, now: float = 0.0
) -> None:
    """Ask whether to do what the payload says; the running flow waits for the answer.

    Asking again about the same payload is not asking anew: the question keeps its age.

    Args:
        now: Unix time in seconds.

    Raises:
        StateError: no flow is running, the confirmation names another one, or an action is running.
    """
    require_no_action(state)
    flow = require_active_flow(state)
    asked = confirmation.model_copy(deep=True)
    other_id = asked.flow_id and flow.flow_id and asked.flow_id != flow.flow_id
    same = asked.flow_name in ("", flow.flow_name) and not other_id
    require(
        state,
        same,
        f"The confirmation is of flow {asked.flow_name or asked.flow_id!r}, not of the running flow",
        "Resume that flow first.",
        flow=flow.flow_name,
    )
    asked.flow_name, asked.flow_id = flow.flow_name, asked.flow_id or flow.flow_id
    asked.requested_at_turn, asked.requested_at = state.turn_number, asked.requested_at or now
    asked.drifted_turns = 0
    open_now = state.pending_confirmation
    if open_now is not None and open_now.action_payload == asked.action_payload:
        asked.requested_at_turn, asked.requested_at = open_now.requested_at_turn, open_now.requested_at
        asked.drifted_turns = open_now.drifted_turns
    flow.transition_to(FlowStatus.AWAITING_CONFIRMATION)
    flow.awaiting, flow.ready = None, False
    state.pending_confirmation = asked


def confirm_action(state: WorkingMemory) -> dict[str, Any] | None:
    """The answer was yes: pay out what to do, once.

    The flow is active again and ready to be run.

    Returns:
        The payload that was asked about; None where nothing is open, or it was paid out already.

    Example:
        >>> from jazzmine_dspy.memory.working import ActiveFlowState
        >>> state = WorkingMemory(conversation_id="c1", user_id="u1", active_flow=ActiveFlowState(flow_name="pay"))
        >>> asked = PendingConfirmation(action_description="Pay 5 EUR?", action_payload={"amount": 5})
        >>> request_confirmation(state, asked)
        >>> confirm_action(state), confirm_action(state)
        ({'amount': 5}, None)
    """
    if (asked := state.pending_confirmation) is None:
        return None
    state.pending_confirmation = None
    if (flow := state.active_flow) is not None:
        flow.transition_to(FlowStatus.ACTIVE)
        flow.ready = True
    return asked.action_payload


def deny_action(state: WorkingMemory, slot_name: str | None = None) -> None:
    """The answer was no: nothing is done, and the flow goes on.

    Args:
        slot_name: What is to be different: its value is taken back, and the flow collects it.

    Raises:
        StateError: no yes or no is open, or the flow has no such slot.
    """
    require(
        state, state.pending_confirmation, "No confirmation is open", "Ask with request_confirmation first."
    )
    flow = require_active_flow(state)
    slot = require_slot(state, flow, slot_name) if slot_name is not None else None
    state.pending_confirmation = None
    flow.transition_to(FlowStatus.ACTIVE)
    if slot is None:
        update_status(state, flow)
        return
    clear_value(state, slot)
    flow.transition_to(FlowStatus.COLLECTING_SLOTS)
    flow.awaiting = slot.name


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
    require(
        state,
        flow and flow.status is FlowStatus.ACTIVE,
        "No flow is ready to run" + (f": it is {flow.status}" if flow else ""),
        "Begin an action when a flow has its slots and its yes, before the next message.",
        flow=flow.flow_name if flow else "",
    )
    assert flow is not None
    state.action = RunningAction(
        flow_name=flow.flow_name,
        action_id=action_id,
        message_id=message_id,
        started_at_turn=state.turn_number,
        started_at=max(0, int(now * 1000)),
    )


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
        >>> begin_action(state)
        >>> enqueue(state, QueuedMessage(message_id="m2", user_id="u1", text="hello?"))
        >>> finish_action(state, {"paid": True})
        >>> state.flow_history[0].result, dequeue(state).text, state.queue
        ({'paid': True}, 'hello?', [])
    """
    require(state, state.action, "No action is running", "Call begin_action first.")
    given = json_value(result, "result")
    state.action = None
    if (flow := state.active_flow) is None:
        return
    status, reason = (FlowStatus.FAILED, "the action failed") if failed else (FlowStatus.COMPLETED, "")
    end_flow(state, flow, status, result=given, reason=reason)


def enqueue(state: WorkingMemory, message: QueuedMessage) -> None:
    """Let a message wait for the end of the running action, behind those that wait already.

    One that waits already, or whose turn has begun before, is not taken again.

    Raises:
        StateError: no action is running, so that nothing has to wait.
        QueueFullError: twenty messages wait.
    """
    if message.message_id in (*state.started_message_ids, *(waiting.message_id for waiting in state.queue)):
        return
    require(state, state.action, "No action is running", "Begin the message's turn with begin_turn.")
    if len(state.queue) >= QUEUE_KEPT:
        raise QueueFullError(
            f"{QUEUE_KEPT} messages wait already",
            where=f"conversation {state.conversation_id!r}",
            remedy="Finish the running action with finish_action.",
        )
    state.queue = [*state.queue, message.model_copy(deep=True)]


def dequeue(state: WorkingMemory) -> QueuedMessage | None:
    """Take the message that has waited longest out of the queue; its turn is the caller's now.

    Returns:
        The message; None where none waits, or an action is running, for whose end they have to wait.
    """
    return state.queue.pop(0) if state.queue and state.action is None else None


def _entities(raw: list[dict[str, Any]]) -> list[Entity]:
    """The entities named; those without a name are none."""
    found: list[Entity] = []
    # Comparing names takes time with their number squared, and no message names so many.
    for number, item in enumerate(raw[:ENTITIES_A_TURN], start=1):
        try:
            name, attributes = item.get("name", ""), item.get("attributes") or []
            if isinstance(name, str) and not name.strip():
                continue
            found.append(Entity(name=name, attributes=attributes))
        except (AttributeError, ValidationError) as error:
            raise InputError(
                "An entity is malformed",
                where=f"raw_entities, number {number}",
                remedy="Give each a name, and attributes as a list of texts.",
            ) from error
    return found


def _expire_confirmation(state: WorkingMemory, *, drifts: bool) -> None:
    if (asked := state.pending_confirmation) is None or not drifts:
        return
    asked.drifted_turns += 1
    if asked.is_expired:
        pause_active_flow(state)


def _expire_paused(state: WorkingMemory) -> None:
    for flow in list(state.paused):
        if flow.paused_at_turn is None:
            # Records of before this was noted: they count from now on.
            flow.paused_at_turn = state.turn_number
        elif state.turn_number - flow.paused_at_turn > PAUSED_TURNS:
            end_flow(state, flow, FlowStatus.CANCELLED, reason="expired")
