"""What a turn stores: the message with its decision, the trace of the turn, and the reply that ends it; delivered from
the state, with which it is written, so that it is there if the turn is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from jazzmine_dspy.dialogue.events import Events
from jazzmine_dspy.memory.errors import ConflictError, DamagedRecordError
from jazzmine_dspy.memory.messages import MessageStore
from jazzmine_dspy.memory.working import WorkingMemory
from jazzmine_dspy.models.base import Value, log
from jazzmine_dspy.models.decision import LMCall, PredictorName, TurnDecision
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.models.messages import (
    Conversation,
    LLMCallRecord,
    Message,
    MessageRole,
    Purpose,
    TaskEmission,
    ToolTrace,
    TurnTrace,
    next_episode,
)
from jazzmine_dspy.models.turn import STATE_FIELDS, Turn

_PURPOSES: dict[PredictorName, Purpose] = {
    "enhance": "enhancement",
    "select": "flow_selection",
    "understand": "understanding",
    "fused": "decision",
}


def enriched(
    state: WorkingMemory,
    *,
    message_id: str,
    user_id: str,
    text: str,
    timestamp: int,
    decision: TurnDecision,
    context: list[str],
    fingerprint: str,
    turn: Turn,
) -> Message:
    """The user's message as it is stored: with its decision, so that it can become a labelled one.

    ``timestamp`` is in Unix milliseconds; the episode counts on from that of ``state``, the state before the
    message.
    """
    enhancement = decision.enhancement
    message = Message(
        id=message_id,
        conversation_id=state.conversation_id,
        user_id=user_id,
        role=MessageRole.USER,
        original_content=text,
        timestamp=timestamp,
        enhanced_message=enhancement.enhanced_query,
        explicit_context=context or None,
        sentiment_score=enhancement.sentiment_score,
        intent=enhancement.intent,
        entities=[entity.model_copy(deep=True) for entity in enhancement.entities],
        is_cancellation=enhancement.is_cancellation,
        is_continuation=enhancement.is_continuation,
        invoked_flows=list(decision.selection.flows) or None,
        errors=_causes(decision) or None,
        decision=decision.model_dump(mode="json"),
        confidences={stage: record.confidence for stage, record in decision.stages.items()},
        program_fingerprint=fingerprint,
        state=turn.model_dump(mode="json", include=set(STATE_FIELDS), exclude_defaults=True),
    )
    message.episode_id, _ = next_episode(state.episode_id, message)
    return message


def turn_trace(
    after: WorkingMemory,
    decision: TurnDecision,
    events: Events,
    *,
    trace_id: str,
    message_id: str,
    latency_ms: float,
    started_at_ms: int,
    fingerprint: str,
    turn: Turn,
) -> TurnTrace:
    """The trace of a turn as far as the decision: its language model calls one by one, and what changed.

    Args:
        after: The state that the turn led to.
        events: What it changed.
        latency_ms: Wall-clock from the message to here.
        started_at_ms: When the message came by the clock that will time the reply, in Unix milliseconds.
        fingerprint: Of the program that decided.
        turn: What was decided on.
    """
    enhancement = decision.enhancement
    return TurnTrace(
        id=trace_id,
        message_id=message_id,
        conversation_id=after.conversation_id,
        user_id=after.user_id,
        agent_id=after.agent_id,
        turn_number=after.turn_number,
        started_at_ms=started_at_ms,
        ended_at_ms=started_at_ms + round(latency_ms),
        llm_calls=call_records(decision.calls, message_id=message_id, started_at_ms=started_at_ms),
        total_latency_ms=latency_ms,
        slot_events=events.slots,
        confirmation_events=events.confirmations,
        flow_events=events.flows,
        errors=_causes(decision),
        detected_intent=enhancement.intent,
        detected_entities=[entity.model_copy(deep=True) for entity in enhancement.entities],
        detected_sentiment=enhancement.sentiment_score,
        detected_cancellation=enhancement.is_cancellation,
        detected_continuation=enhancement.is_continuation,
        program_fingerprint=fingerprint,
        turn_digest=turn.digest,
    )


def call_records(
    calls: Iterable[LMCall], *, message_id: str, started_at_ms: int, purpose: Purpose | None = None
) -> list[LLMCallRecord]:
    """One record for each language model call, in the order given.

    Args:
        started_at_ms: When the turn began, in Unix milliseconds.
        purpose: What all of them were for, where their prompt does not tell.
    """
    return [
        LLMCallRecord(
            call_id=f"{message_id}:{number}",
            purpose=purpose or _PURPOSES[call.predictor],
            model=call.model,
            prompt_tokens=call.prompt_tokens,
            completion_tokens=call.completion_tokens,
            latency_ms=call.latency_ms,
            timestamp_ms=started_at_ms + round(call.started_ms),
            success=call.success,
            error=call.error,
        )
        for number, call in enumerate(calls, start=1)
    ]


def with_reply(trace: TurnTrace, reply: Message, work: AgentWork) -> TurnTrace:
    """The trace of a turn that has its reply: from now on it is the reply's.

    What the agent did meanwhile is added; reasoning and errors are taken from the reply, which ends the turn.
    """
    ended = max(trace.started_at_ms, reply.timestamp)
    return trace.model_copy(
        update={
            "message_id": reply.id,
            "ended_at_ms": ended,
            "total_latency_ms": float(ended - trace.started_at_ms),
            "llm_calls": [*trace.llm_calls, *work.llm_calls],
            "tool_traces": [*trace.tool_traces, *work.tool_traces],
            "task_emissions": [*trace.task_emissions, *work.task_emissions],
            "reasoning_steps": [*trace.reasoning_steps, *(reply.reasoning_steps or ())],
            "errors": [*trace.errors, *(reply.errors or ())],
        },
        deep=True,
    )


def _causes(decision: TurnDecision) -> list[str]:
    return [*(each.cause for each in decision.stages.values() if each.cause), *decision.context_failures]


# --- the reply --------------------------------------------------------------------------------------------


class AgentWork(Value):
    """What the agent did to find its reply."""

    tool_traces: tuple[ToolTrace, ...] = ()
    llm_calls: tuple[LLMCallRecord, ...] = ()
    task_emissions: tuple[TaskEmission, ...] = ()
    reasoning_steps: tuple[str, ...] = ()

    @classmethod
    def of(cls, **work: Any) -> AgentWork:
        """The work from what a caller passed.

        Raises:
            InputError: a part is of another kind.
        """
        try:
            return cls.model_validate(work)
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(
                f"The agent's work cannot be stored: {first['msg']}",
                where=".".join(str(part) for part in first["loc"]),
                remedy="Pass lists of ToolTrace, LLMCallRecord and TaskEmission, and texts.",
            ) from error


async def stored_reply(
    messages: MessageStore, reply: Message, trace_id: str | None, work: AgentWork, state: WorkingMemory
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
    elif _content(known) != _content(reply):
        raise ConflictError(
            "The id belongs to another message", where=f"message {reply.id!r}", remedy="Give it a new id."
        )
    reply = known or reply
    noted = await messages.get_turn_trace_by_message_id(reply.id)
    if noted is not None:
        return reply, noted.id if noted.id == state.open_trace else None
    trace = await _open(messages, trace_id, reply, state)
    await messages.store_turn_trace(with_reply(trace, reply, work))
    return reply, trace.id


def _content(message: Message) -> tuple[str, str, str]:
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
            log.warning("The trace %r is damaged: %s", trace_id, error)
    if (
        trace is not None
        and trace.conversation_id == reply.conversation_id
        and trace.id == f"trace-{trace.message_id}"
    ):
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


PERMANENT = (ConflictError, DamagedRecordError, InputError)
"""What no repetition mends; a conversation must not stop for it."""


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
            log.warning(
                "A message of conversation %r still waits: %s", state.conversation_id, format_error(error)
            )
            left.append(carried)
            continue
        try:
            await messages.store_message(message)
            # A trace that is there may be the reply's by now.
            if await messages.get_turn_trace(trace.id) is None:
                await messages.store_turn_trace(trace)
        except PERMANENT as error:
            log.error(
                "Message %r of conversation %r is not stored: %s", message.id, state.conversation_id, error
            )
    return left


async def ensure_conversation(conversation: Conversation, messages: MessageStore) -> None:
    """Have a conversation in the store, and note that it goes on.

    Raises:
        ConflictError: it belongs to another user.
    """
    try:
        await messages.ensure_conversation(conversation)
    except DamagedRecordError as error:
        log.warning("The record of conversation %r is damaged: %s", conversation.id, error)
