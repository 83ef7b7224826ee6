"""What was said to the user, and the trace of the turn that it ends."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from jazzmine_dspy.memory.errors import ConflictError, DamagedRecordError
from jazzmine_dspy.memory.messages import MessageStore
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.messages import Message
from jazzmine_dspy.models.traces import LLMCallRecord, TaskEmission, ToolTrace, TurnTrace
from jazzmine_dspy.runtime.tracing import with_reply

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Done:
    """What the agent did to find its reply."""

    tool_traces: Sequence[ToolTrace] = ()
    llm_calls: Sequence[LLMCallRecord] = ()
    task_emissions: Sequence[TaskEmission] = ()
    reasoning_steps: Sequence[str] = ()

    def __post_init__(self) -> None:
        kinds: dict[str, type] = {
            "tool_traces": ToolTrace,
            "llm_calls": LLMCallRecord,
            "task_emissions": TaskEmission,
            "reasoning_steps": str,
        }
        for name, kind in kinds.items():
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(item, kind) for item in given):
                raise InputError(
                    f"The {name} are not all of {kind.__name__}",
                    where=name,
                    remedy=f"Pass a list of {kind.__name__}.",
                )


async def stored_reply(
    messages: MessageStore, reply: Message, trace_id: str | None, done: Done, state: WorkingMemory
) -> tuple[Message, str | None]:
    """Store a reply, and make the trace of its turn the reply's.

    Args:
        trace_id: The turn's trace; one is made where there is none.

    Returns:
        The reply as it is stored, and the id of the trace; None where all was stored before, and a later turn
        may have begun.

    Raises:
        ConflictError: the reply's id belongs to another message.
    """
    known = await messages.get_message(reply.id)
    if known is None:
        await messages.store_message(reply)
    elif _said(known) != _said(reply):
        raise ConflictError(
            "The id belongs to another message", where=f"message {reply.id!r}", remedy="Give it a new id."
        )
    reply = known or reply
    noted = await messages.get_turn_trace_by_message_id(reply.id)
    if noted is not None:
        return reply, noted.id if noted.id == state.open_trace else None
    trace = await _open(messages, trace_id, reply, state)
    await messages.store_turn_trace(
        with_reply(
            trace,
            reply,
            tool_traces=done.tool_traces,
            task_emissions=done.task_emissions,
            llm_calls=done.llm_calls,
            ended_at_ms=reply.timestamp,
        )
    )
    return reply, trace.id


def _said(message: Message) -> tuple[str, str, str]:
    return message.conversation_id, message.role.value, message.original_content


async def _open(
    messages: MessageStore, trace_id: str | None, reply: Message, state: WorkingMemory
) -> TurnTrace:
    """The trace of the turn that a reply ends; of a second reply, or one that no message led to, a bare one."""
    trace = None
    if trace_id is not None:
        try:
            trace = await messages.get_turn_trace(trace_id)
        except DamagedRecordError as error:
            logger.warning("The trace %r is damaged: %s", trace_id, error)
    if trace is not None and trace.conversation_id == reply.conversation_id:
        taken = f"trace-{trace.message_id}" != trace.id
        if not taken:
            return trace
    return TurnTrace(
        id=f"trace-{reply.id}",
        message_id=reply.id,
        conversation_id=reply.conversation_id,
        user_id=state.user_id,
        agent_id=state.agent_id,
        turn_number=state.turn_number,
        started_at_ms=reply.timestamp,
    )
