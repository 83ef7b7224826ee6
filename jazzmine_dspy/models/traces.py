"""What happened in a turn, kept for audits and bills (S1). All times and latencies are milliseconds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from jazzmine_dspy.models._base import JsonData, Record

Purpose = Literal[
    "agent_loop", "script_generation", "flow_selection", "slot_extraction", "enhancement", "understanding",
    "decision", "other",
]  # fmt: skip


class LLMCallRecord(Record):
    """One request to a language model."""

    call_id: str = ""
    purpose: Purpose
    model: str
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    total_tokens: int = Field(default=0, ge=0)
    latency_ms: float = Field(default=0.0, ge=0)
    timestamp_ms: int = Field(default=0, ge=0)
    success: bool = True
    error: str | None = None


class ScriptGenAttempt(Record):
    """One try at writing a script."""

    attempt: int = Field(ge=0)
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    latency_ms: float = Field(default=0.0, ge=0)
    success: bool = False
    parse_error: str | None = None


class TaskEmission(Record):
    """A task that the agent handed out."""

    task_index: int = Field(ge=0)
    sandbox: str = ""
    mode: Literal["plan", "interactive"] = "interactive"
    description: str = ""
    timestamp_ms: int = Field(default=0, ge=0)


class ToolTrace(Record):
    """One execution in a sandbox."""

    tool_name: str = ""
    task_index: int = 0
    generation_attempts: list[ScriptGenAttempt] = Field(default_factory=list)
    final_script: str | None = None
    final_data: JsonData = None
    traceback: str | None = None
    output_bytes: int = Field(default=0, ge=0)
    peak_memory_bytes: int | None = Field(default=None, ge=0)
    latency_ms: float = Field(default=0.0, ge=0)
    success: bool = True


class SlotEvent(Record):
    """A slot asked for, filled or refused."""

    flow_name: str
    slot_name: str
    slot_type: str = "text"
    required: bool = True
    value: JsonData = None
    collected: bool = False
    collected_at_turn: int = Field(default=0, ge=0)
    validation_error: str = ""


class ConfirmationEvent(Record):
    """How a confirmation ended."""

    question: str
    outcome: Literal["confirmed", "cancelled", "expired"]
    resolved_at_turn: int = Field(default=0, ge=0)


class FlowEvent(Record):
    """A step in the life of a flow."""

    flow_id: str
    flow_name: str
    flow_type: str = "flow"
    event: Literal["started", "paused", "resumed", "completed", "cancelled", "failed", "topic_shifted"]


class TurnTrace(Record):
    """All that led to one assistant message. ``total_latency_ms`` is wall-clock, not a sum over calls."""

    id: str = Field(min_length=1)
    message_id: str
    conversation_id: str = ""
    agent_id: str = ""
    llm_calls: list[LLMCallRecord] = Field(default_factory=list)
    total_latency_ms: float = Field(default=0.0, ge=0)
    task_emissions: list[TaskEmission] = Field(default_factory=list)
    tool_traces: list[ToolTrace] = Field(default_factory=list)
    slot_events: list[SlotEvent] = Field(default_factory=list)
    confirmation_events: list[ConfirmationEvent] = Field(default_factory=list)
    flow_events: list[FlowEvent] = Field(default_factory=list)

    @property
    def total_tokens(self) -> int:
        """Tokens over all calls of the turn."""
        return sum(call.prompt_tokens + call.completion_tokens for call in self.llm_calls)
