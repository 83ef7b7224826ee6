"""What a turn leaves to the store of messages. It is written with the state, so that it is there if the turn is."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from jazzmine_dspy.memory.errors import ConflictError, DamagedRecordError
from jazzmine_dspy.memory.messages import MessageStore
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.models.messages import Conversation, Message
from jazzmine_dspy.models.traces import TurnTrace

logger = logging.getLogger(__name__)

PERMANENT = (ConflictError, DamagedRecordError, InputError)
"""What no repetition mends; a conversation must not stop for it."""


def outbox_entry(message: Message, trace: TurnTrace) -> dict[str, Any]:
    """A message and the trace of its turn, as the state carries them."""
    return {"message": message.model_dump(mode="json"), "trace": trace.model_dump(mode="json")}


async def deliver(state: WorkingMemory, messages: MessageStore) -> list[Any]:
    """Store what the state carries; doing so again changes nothing.

    Returns:
        What a worker of this version can't read, and has to leave to one of a newer.

    Raises:
        MemoryUnavailableError: the store does not answer; it all stays in the state.
    """
    left = []
    for carried in state.outbox:
        try:
            message = Message.model_validate(carried["message"])
            trace = TurnTrace.model_validate(carried["trace"])
        except (KeyError, TypeError, ValidationError) as error:
            cause = format_error(error)
            logger.warning("A message of conversation %r waits on: %s", state.conversation_id, cause)
            left.append(carried)
            continue
        try:
            await messages.store_message(message)
            # A trace that is there may be the reply's by now.
            if await messages.get_turn_trace(trace.id) is None:
                await messages.store_turn_trace(trace)
        except PERMANENT as error:
            place = state.conversation_id
            logger.error("Message %r of conversation %r is not stored: %s", message.id, place, error)
    return left


async def ensure_conversation(conversation: Conversation, messages: MessageStore) -> None:
    """Have a conversation in the store, and note that it goes on.

    Raises:
        ConflictError: it belongs to another user.
    """
    try:
        await messages.ensure_conversation(conversation)
    except DamagedRecordError as error:
        logger.warning("The record of conversation %r is damaged: %s", conversation.id, error)
