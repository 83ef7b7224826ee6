"""The records that the stores keep: messages, conversations, and the traces of turns, for audits and bills.

In traces all times and latencies are milliseconds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, computed_field, model_validator

from jazzmine_dspy.models.base import JsonData, Record, Text, without_derived


class MessageRole(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    COLLEAGUE_ASSISTANT = "colleague_assistant"
    SYSTEM = "system"


class Entity(Record):
    """Something named in a conversation, with what is known of it.

    Example:
        >>> Entity(name="iPhone 15 Pro", attributes=["Storage: 256GB"]).attributes
        ['Storage: 256GB']
    """

    name: Text = Field(min_length=1)
    attributes: list[Text] = Field(default_factory=list)


class Conversation(Record):
    """One chat session. Times are Unix milliseconds.

    ``episode_summaries`` holds one line for each episode that was given a summary, by its number.
    """

    id: Text = Field(min_length=1)
    user_id: Text
    agent_id: Text
    title: Text = ""
    created_at: int = Field(ge=0)
    last_updated_at: int = Field(ge=0)
    episode_summaries: dict[int, Text] = Field(default_factory=dict)


class Message(Record):
    """One message, filled in as it is enhanced and decided.

    ``timestamp`` is in Unix milliseconds; ``sentiment_score`` lies in [-1.0, 1.0]. Assigning a field validates it.
    ``decision``, ``confidences``, ``program_fingerprint`` and ``state`` make a stored message a candidate for a
    labelled dataset; ``state`` is the conversation's when the message came, by the names of ``STATE_FIELDS``.

    Raises:
        pydantic.ValidationError: a field is missing, unknown, not finite, or out of its range.

    Example:
        >>> message = Message(id="m1", conversation_id="c1", user_id="u1", role="user",
        ...                   original_content="Check my last three orders", timestamp=1_700_000_000_000)
        >>> message.intent, message.is_continuation, message.role.value
        ('unknown', True, 'user')
    """

    id: Text = Field(min_length=1)
    conversation_id: Text = Field(min_length=1)
    user_id: Text
    role: MessageRole
    original_content: Text
    timestamp: int = Field(ge=0)
    enhanced_message: Text = ""
    explicit_context: list[Text] | None = None
    episode_id: int = Field(default=0, ge=0)
    sentiment_score: float = Field(default=0.0, ge=-1.0, le=1.0)
    intent: Text = "unknown"
    entities: list[Entity] = Field(default_factory=list)
    is_cancellation: bool = False
    is_continuation: bool = True
    is_flagged: bool = False
    invoked_flows: list[Text] | None = None
    invoked_tools: list[Text] | None = None
    reasoning_steps: list[Text] | None = None
    errors: list[Text] | None = None
    decision: dict[Text, JsonData] | None = None
    confidences: dict[Text, float] | None = None
    program_fingerprint: Text | None = None
    state: dict[Text, JsonData] | None = None


def next_episode(previous: int, message: Message) -> tuple[int, bool]:
    """The episode that a user's message belongs to, and whether it opens one.

    Args:
        previous: Episode of the message before, 0 for the first.
        message: A message whose ``is_continuation`` is already decided.

    Returns:
        The episode number, and True where the message is a boundary, so that the caller can close the old episode.
    """
    boundary = message.role is MessageRole.USER and not message.is_continuation
    return previous + boundary, boundary


Purpose = Literal[
    "agent_loop", "script_generation", "flow_selection", "slot_extraction", "enhancement", "understanding",
    "decision", "other",
]  # fmt: skip
Mode = Literal["plan", "interactive"]


class LLMCallRecord(Record):
    """One request to a language model, whatever came of it.

    ``timestamp_ms`` is when it was made, in Unix milliseconds; ``success`` is False, with the reason in ``error``,
    where no answer came or none that could be used. ``total_tokens`` is always the sum of the other two.

    Example:
        >>> LLMCallRecord(purpose="decision", model="openai/x", prompt_tokens=90, completion_tokens=10).total_tokens
        100
    """

    call_id: Text = ""
    purpose: Purpose
    model: Text
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    latency_ms: float = Field(default=0.0, ge=0)
    timestamp_ms: int = Field(default=0, ge=0)
    success: bool = True
    error: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _derived(cls, data: Any) -> Any:
        return without_derived(data, "total_tokens")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens


class ScriptGenAttempt(Record):
    """One try at having a script written, counted from 1; ``parse_error`` tells why it was no script."""

    attempt: int = Field(ge=0)
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    latency_ms: float = Field(default=0.0, ge=0)
    success: bool = False
    parse_error: Text | None = None


class TaskEmission(Record):
    """A task that the agent handed out, to be done in a sandbox. ``task_index`` counts within the turn, from 0."""

    task_index: int = Field(ge=0)
    sandbox: Text = ""
    mode: Mode = "interactive"
    description: Text = ""
    timestamp_ms: int = Field(default=0, ge=0)


class ToolTrace(Record):
    """One task as a sandbox carried it out: how its script came about, what ran, and what it gave.

    Args:
        task_index: The task of the turn that it belongs to; see :class:`TaskEmission`.
        execution_id: What the sandbox calls the run.
        generation_attempts: Tries at writing the script, the last one being what ran.
        final_script: What ran, letter for letter.
        final_data: What it returned.
        intermediates: What it handed out on the way, in order.
        api_calls: Calls to the outside that it made, as the sandbox reports them.
        error: What went wrong, in one line; ``traceback`` has all of it.
        output_bytes: Size of what it printed.
        peak_memory_bytes: Memory at its highest; None where the sandbox does not tell.
        latency_ms: The whole task; ``execution_latency_ms`` is the run alone, without the writing.
    """

    tool_name: Text = ""
    task_index: int = Field(default=0, ge=0)
    sandbox: Text = ""
    mode: Mode = "interactive"
    description: Text = ""
    execution_id: Text = ""
    generation_attempts: list[ScriptGenAttempt] = Field(default_factory=list)
    final_script: Text | None = None
    final_data: JsonData = None
    intermediates: list[JsonData] = Field(default_factory=list)
    api_calls: list[JsonData] = Field(default_factory=list)
    error: Text | None = None
    traceback: Text | None = None
    output_bytes: int = Field(default=0, ge=0)
    peak_memory_bytes: int | None = Field(default=None, ge=0)
    latency_ms: float = Field(default=0.0, ge=0)
    execution_latency_ms: float = Field(default=0.0, ge=0)
    success: bool = True


class SlotEvent(Record):
    """A slot asked for, filled or refused."""

    flow_name: Text
    slot_name: Text
    slot_type: Text = "text"
    required: bool = True
    value: JsonData = None
    collected: bool = False
    collected_at_turn: int = Field(default=0, ge=0)
    validation_error: Text = ""


class ConfirmationEvent(Record):
    """How a confirmation ended."""

    question: Text
    outcome: Literal["confirmed", "cancelled", "expired"]
    resolved_at_turn: int = Field(default=0, ge=0)


class FlowEvent(Record):
    """A step in the life of a flow."""

    flow_id: Text
    flow_name: Text
    flow_type: Text = "flow"
    event: Literal["started", "paused", "resumed", "completed", "cancelled", "failed", "topic_shifted"]


class TurnTrace(Record):
    """All that led to one assistant message: one trace for each of them.

    The three totals are sums over ``llm_calls``: they are dumped for readers, and worked out anew when loaded.

    Args:
        message_id: The assistant's message; the user's, as long as the turn has no reply.
        turn_number: The turn within its conversation, from 1; 0 where it is not known.
        started_at_ms, ended_at_ms: When the user's message came, and when the reply was there, in Unix milliseconds.
        total_latency_ms: Wall-clock from the one to the other; no sum over calls, which may run side by side.
        reasoning_steps: What the agent thought before it replied.
        errors: Why parts of the turn fell back or failed; empty for a turn in which all went well.
        detected_intent, detected_entities, detected_sentiment, detected_cancellation, detected_continuation:
            What the enhancement found in the user's message.
        program_fingerprint: Of the program that decided.
        turn_digest: Of the turn that it decided (`Turn.digest`): equal turns can be found and compared.

    Example:
        >>> call = {"purpose": "decision", "model": "openai/x", "prompt_tokens": 90, "completion_tokens": 10}
        >>> trace = TurnTrace(id="t1", message_id="m1", llm_calls=[call, call])
        >>> trace.total_prompt_tokens, trace.total_completion_tokens, trace.total_tokens
        (180, 20, 200)
    """

    id: Text = Field(min_length=1)
    message_id: Text
    conversation_id: Text = ""
    user_id: Text = ""
    agent_id: Text = ""
    turn_number: int = Field(default=0, ge=0)
    started_at_ms: int = Field(default=0, ge=0)
    ended_at_ms: int = Field(default=0, ge=0)
    llm_calls: list[LLMCallRecord] = Field(default_factory=list)
    total_latency_ms: float = Field(default=0.0, ge=0)
    task_emissions: list[TaskEmission] = Field(default_factory=list)
    tool_traces: list[ToolTrace] = Field(default_factory=list)
    slot_events: list[SlotEvent] = Field(default_factory=list)
    confirmation_events: list[ConfirmationEvent] = Field(default_factory=list)
    flow_events: list[FlowEvent] = Field(default_factory=list)
    reasoning_steps: list[Text] = Field(default_factory=list)
    errors: list[Text] = Field(default_factory=list)
    detected_intent: Text = "unknown"
    detected_entities: list[Entity] = Field(default_factory=list)
    detected_sentiment: float = Field(default=0.0, ge=-1.0, le=1.0)
    detected_cancellation: bool = False
    detected_continuation: bool = True
    program_fingerprint: Text | None = None
    turn_digest: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _derived(cls, data: Any) -> Any:
        return without_derived(data, "total_prompt_tokens", "total_completion_tokens", "total_tokens")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_prompt_tokens(self) -> int:
        """Tokens sent, over all calls of the turn."""
        return sum(call.prompt_tokens for call in self.llm_calls)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_completion_tokens(self) -> int:
        """Tokens answered, over all calls of the turn."""
        return sum(call.completion_tokens for call in self.llm_calls)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_tokens(self) -> int:
        """Tokens over all calls of the turn."""
        return self.total_prompt_tokens + self.total_completion_tokens
