"""A turn of the user's: begun with what was found out about the message, ended with the reply."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from jazzmine_dspy.memory.working.enums import FlowStatus
from jazzmine_dspy.memory.working.flow import TurnCache
from jazzmine_dspy.memory.working.operations.flows import end_flow, set_running_aside
from jazzmine_dspy.memory.working.operations.step import Operation
from jazzmine_dspy.memory.working.records import TopicShift
from jazzmine_dspy.memory.working.state import (
    ENTITIES_A_TURN,
    HANDLED_KEPT,
    PAUSED_TURNS,
    TOOL_CALLS_KEPT,
    TOPICS_KEPT,
    WorkingMemory,
    cut,
)
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Entity


@Operation
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
        >>> once = begin_turn(state, cache)
        >>> once.turn_number, begin_turn(once, cache) == once, list(once.entity_workspace)
        (1, True, ['Order #555'])
    """
    current = state.current_turn
    message_id = turn_cache.message_id
    if message_id and (message_id in state.begun or (current and current.message_id == message_id)):
        return
    entities = _entities(turn_cache.raw_entities)
    cache = turn_cache.model_copy(deep=True)
    state.turn_number += 1
    cache.turn_number = state.turn_number
    for index, call in enumerate(cache.tool_calls):
        call.turn_number, call.call_index = state.turn_number, index
    cache.tool_calls_dropped += cut(cache.tool_calls, TOOL_CALLS_KEPT)
    state.current_turn = cache
    if message_id:
        state.begun = [*state.begun, message_id][-HANDLED_KEPT:]
    for entity in entities:
        state.mention(entity.name, entity.attributes)
    state.forget_entities()
    if not cache.is_continuation:
        state.topic_history = [
            *state.topic_history, TopicShift(turn_number=state.turn_number, intent=cache.intent)
        ]  # fmt: skip
        state.topics_dropped += cut(state.topic_history, TOPICS_KEPT)
    _expire_confirmation(state, drifts=not (cache.is_continuation if continues is None else continues))
    _expire_paused(state)


@Operation.of_short_texts
def end_turn(
    state: WorkingMemory, agent_response: str, agent_intent: str = "", topic_summary: str = ""
) -> None:
    """Note what was answered.

    The topic begun last gets its summary, once: ``topic_summary``, else the intent of the answer.

    Example:
        >>> end_turn(WorkingMemory(conversation_id="c1", user_id="u1"), "Hello world", "greeting").last_agent_response
        'Hello world'
    """
    state.last_agent_response = agent_response
    state.last_agent_intent = agent_intent
    if state.topic_history and not state.topic_history[-1].summary:
        state.topic_history[-1].summary = topic_summary or agent_intent


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
    asked = state.pending_confirmation
    if asked is None or not drifts:
        return
    asked.drifted_turns += 1
    if asked.is_expired:
        set_running_aside(state)


def _expire_paused(state: WorkingMemory) -> None:
    for flow in list(state.paused):
        if flow.paused_at_turn is None:
            # Records of before this was noted: they count from now on.
            flow.paused_at_turn = state.turn_number
        elif state.turn_number - flow.paused_at_turn > PAUSED_TURNS:
            end_flow(state, flow, FlowStatus.CANCELLED, reason="expired")
