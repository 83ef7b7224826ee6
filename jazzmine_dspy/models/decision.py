"""The decision: what a turn comes to, and where each part of it is from."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from pydantic import Field, computed_field, model_validator

from jazzmine_dspy.models._base import Value
from jazzmine_dspy.models.commands import (
    Ask,
    ChitChat,
    Command,
    CorrectSlot,
    Repeat,
    ResumeFlow,
    SetSlot,
    StartFlow,
)  # fmt: skip
from jazzmine_dspy.models.messages import Entity

Stage = Literal["enhance", "select", "understand"]
STAGES: tuple[Stage, ...] = ("enhance", "select", "understand")
SourceKind = Literal["rule", "head", "lm", "cache", "floor"]


class Recalled(NamedTuple):
    """A flow that recall proposes. Scores are comparable within one answer only."""

    name: str
    score: float


class Usage(Value):
    """What an answer cost. ``replayed`` counts the calls among ``lm_calls`` that a replay store answered."""

    lm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    replayed: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            lm_calls=self.lm_calls + other.lm_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            replayed=self.replayed + other.replayed,
            cost=sum(costs) if costs else None,
        )


class StageRecord(Value):
    """Where a stage's answer is from.

    ``degraded`` is True where a part that should have been asked failed, with the reason in ``cause``; a source that
    merely declined degrades nothing. ``latency_ms`` is wall-clock in milliseconds.
    """

    source: SourceKind
    name: str = ""
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    degraded: bool = False
    cause: str | None = None
    latency_ms: float = 0.0
    usage: Usage = Usage()


class Enhancement(Value):
    """What the user means, made explicit (E4)."""

    enhanced_query: str
    sentiment_score: float = Field(default=0.0, ge=-1.0, le=1.0)
    intent: str = "unknown"
    entities: list[Entity] = Field(default_factory=list)
    is_cancellation: bool = False
    is_continuation: bool = True


class Selection(Value):
    """Which flows the message wants, in order; an empty list means none fits (F9)."""

    flows: list[str] = Field(default_factory=list)
    candidates: list[tuple[str, float]] = Field(default_factory=list)
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    reason: str = ""
    mode: Literal["single", "sequential", "parallel"] = "single"
    clarify: list[str] = Field(default_factory=list)


class TurnDecision(Value):
    """The whole decision for one turn.

    Example:
        >>> decision = TurnDecision(enhancement=Enhancement(enhanced_query="hi"), selection=Selection())
        >>> decision.degraded, decision.commands, decision.is_digression
        (False, [], False)
    """

    enhancement: Enhancement
    selection: Selection
    commands: list[Command] = Field(default_factory=list)
    stages: dict[Stage, StageRecord] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _derived(cls, data: Any) -> Any:
        return {k: v for k, v in data.items() if k != "degraded"} if isinstance(data, dict) else data

    @computed_field  # type: ignore[prop-decorator]
    @property
    def degraded(self) -> bool:
        """Whether any stage is degraded."""
        return any(record.degraded for record in self.stages.values())

    @property
    def usage(self) -> Usage:
        """What the whole turn cost."""
        return sum((record.usage for record in self.stages.values()), Usage())

    def _first_slot(self) -> SetSlot | CorrectSlot | None:
        return next((c for c in self.commands if isinstance(c, SetSlot | CorrectSlot)), None)

    @property
    def slot_name(self) -> str | None:
        """Name of the first slot that the turn fills."""
        first = self._first_slot()
        return first.name if first else None

    @property
    def slot_value(self) -> Any:
        """Value of the first slot that the turn fills."""
        first = self._first_slot()
        return first.model_dump()["value"] if first else None

    @property
    def is_slot_value(self) -> bool:
        """Whether the turn gives a value."""
        return self._first_slot() is not None

    @property
    def is_digression(self) -> bool:
        """Whether the turn leaves the task for a question or for talk, and changes nothing else."""
        return bool(self.commands) and all(isinstance(c, Ask | ChitChat | Repeat) for c in self.commands)

    @property
    def is_intent_change(self) -> bool:
        """Whether the turn starts a flow."""
        return any(isinstance(c, StartFlow) for c in self.commands)

    @property
    def is_resume_request(self) -> bool:
        """Whether the turn goes back to a paused flow."""
        return any(isinstance(c, ResumeFlow) for c in self.commands)

    def content(self) -> dict[str, Any]:
        """The decision without latencies: equal for equal turns, programs and models."""
        data = self.model_dump(mode="json")
        for record in data["stages"].values():
            record.pop("latency_ms")
        return data
