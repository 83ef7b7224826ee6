"""What working memory is made of, and the statuses of a flow. Everything here survives a trip through JSON."""

from __future__ import annotations

import datetime as dt
import json
from copy import deepcopy
from enum import StrEnum
from typing import Annotated, Any, Self
from xml.sax.saxutils import escape, quoteattr

from pydantic import ConfigDict, Field, PlainSerializer

from jazzmine_dspy.memory.errors import StateError
from jazzmine_dspy.models.base import Record, StoredJson, Value
from jazzmine_dspy.models.decision import NextStep
from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.models.messages import Entity


class FlowStatus(StrEnum):
    """Where a flow stands. The last three are final."""

    ACTIVE = "active"
    COLLECTING_SLOTS = "collecting_slots"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


_ACTIVE, _SLOTS, _CONFIRM, _PAUSED, _COMPLETED, _CANCELLED, _FAILED = FlowStatus
_ENDS = frozenset({_CANCELLED, _FAILED})

TRANSITIONS: dict[FlowStatus, frozenset[FlowStatus]] = {
    _ACTIVE: _ENDS | {_SLOTS, _CONFIRM, _PAUSED, _COMPLETED},
    _SLOTS: _ENDS | {_ACTIVE, _CONFIRM, _PAUSED},
    _CONFIRM: _ENDS | {_ACTIVE, _SLOTS, _PAUSED},
    _PAUSED: _ENDS | {_ACTIVE, _SLOTS, _CONFIRM},
    _COMPLETED: frozenset(),
    _CANCELLED: frozenset(),
    _FAILED: frozenset(),
}
"""From each status those that may follow. A flow completes from ``active`` alone: filled and confirmed."""

TERMINAL = frozenset(status for status, following in TRANSITIONS.items() if not following)
"""The final statuses."""


class IllegalTransitionError(StateError):
    """A flow cannot go from its status to that one."""


def check_transition(old: FlowStatus, new: FlowStatus, *, flow: str = "") -> None:
    """Let a legal step pass; staying where one is always is.

    Raises:
        IllegalTransitionError: the step is not in :data:`TRANSITIONS`.
    """
    if new is old or new in TRANSITIONS[old]:
        return
    legal = (
        ", ".join(status for status in FlowStatus if status in TRANSITIONS[old]) or "nothing: it has ended"
    )
    raise IllegalTransitionError(
        f"A flow that is {old} cannot become {new}",
        where=f"flow {flow!r}" if flow else "",
        remedy=f"Possible: {legal}.",
    )


def transition_table() -> str:
    """The legal steps as text, a status a line.

    Example:
        >>> print(transition_table().splitlines()[1])
        collecting_slots       -> active, awaiting_confirmation, paused, cancelled, failed
    """
    rows = []
    for old in FlowStatus:
        following = ", ".join(new for new in FlowStatus if new in TRANSITIONS[old])
        rows.append(f"{old:<22} -> {following or '(ended)'}")
    return "\n".join(rows)


class StateModel(Record):
    """A record that a store keeps. Fields that this version does not know are carried along, not refused, so
    that workers of two versions can share one store.
    """

    model_config = ConfigDict(extra="allow")

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # States are copied in every turn, and are trees of models, lists, mappings and values that never change:
        # this takes a fraction of what the general way of copying does.
        made = type(self).__new__(type(self))
        object.__setattr__(made, "__dict__", _copied(self.__dict__))
        object.__setattr__(made, "__pydantic_extra__", _copied(self.__pydantic_extra__))
        object.__setattr__(made, "__pydantic_fields_set__", set(self.__pydantic_fields_set__))
        object.__setattr__(made, "__pydantic_private__", None)
        return made


def _copied(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | Value):
        return value
    if type(value) is dict:
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if type(value) is list else deepcopy(value)


class ToolCallRecord(StateModel):
    """One call of a tool. ``result`` is for logic, ``result_summary`` for prompts.

    Args:
        arguments, result: JSON values; anything else is refused at once.
        turn_number, call_index: The turn, and the call's number in it, from 0; set when it is recorded.
        called_at: Unix time in seconds.
        step, branch: Where in a sequential or a parallel flow it was called.

    Raises:
        pydantic.ValidationError: ``arguments`` or ``result`` hold what JSON has not.

    Example:
        >>> call = ToolCallRecord(tool_name="stock", arguments={"sku": "L-1"}, result=[5], result_summary="5 < 9")
        >>> print(call.to_prompt_xml())
        <call index="0" tool="stock" success="true">
          <args>{"sku": "L-1"}</args>
          <summary>5 &lt; 9</summary>
        </call>
    """

    tool_name: str = Field(min_length=1)
    arguments: dict[str, StoredJson] = Field(default_factory=dict)
    result: StoredJson = None
    result_summary: str = ""
    success: bool = True
    error: str = ""
    turn_number: int = Field(default=0, ge=0)
    call_index: int = Field(default=0, ge=0)
    called_at: float = 0.0
    step: int | None = None
    branch: str | None = None

    @property
    def key(self) -> tuple[int, int, str, float]:
        """What tells this call from every other of the conversation."""
        return self.turn_number, self.call_index, self.tool_name, self.called_at

    def to_prompt_xml(self) -> str:
        """The call as a prompt shows it: escaped, and never with its result."""
        named: dict[str, object] = {
            "index": self.call_index,
            "tool": self.tool_name,
            "success": str(self.success).lower(),
            "step": self.step,
            "branch": self.branch,
        }
        attributes = " ".join(f"{k}={quoteattr(str(v))}" for k, v in named.items() if v is not None)
        outcome = (
            f"  <summary>{escape(self.result_summary or '(no summary)')}</summary>"
            if self.success
            else f"  <error>{escape(self.error)}</error>"
        )
        arguments = escape(json.dumps(self.arguments, ensure_ascii=False))
        return f"<call {attributes}>\n  <args>{arguments}</args>\n{outcome}\n</call>"


class SlotState(StateModel):
    """A slot as the conversation holds it. How its value is read stands in the flow's definition.

    Args:
        previous_value: The value before a correction or before it was taken back.
        validation_error: Why the last value offered was refused; that value itself is never kept.
        attempts: Values refused since the last good one.
        collected_at_turn: When the value came; None without one.
        skipped: The user went on without it.

    Example:
        >>> SlotState(name="quantity", value=0).filled, SlotState(name="quantity").filled
        (True, False)
    """

    name: str = Field(min_length=1)
    type: str = "text"
    description: str = ""
    required: bool = True
    value: StoredJson = None
    previous_value: StoredJson = None
    validation_error: str = ""
    attempts: int = Field(default=0, ge=0)
    collected_at_turn: int | None = None
    skipped: bool = False

    @classmethod
    def of(cls, slot: Slot) -> Self:
        """An empty slot, from its definition."""
        return cls(name=slot.name, type=slot.type, description=slot.description, required=slot.required)

    @property
    def filled(self) -> bool:
        """Whether there is a value; 0, False and "" are values."""
        return self.value is not None

    @property
    def is_pending(self) -> bool:
        """Whether the flow can't go on without it."""
        return self.required and not self.filled


class FlowRecord(StateModel):
    """A flow that has ended: what it knew, and what came of it."""

    flow_id: str = ""
    flow_name: str
    flow_type: str = "flow"
    status: FlowStatus
    started_at_turn: int = 0
    ended_at_turn: int = 0
    slot_values: dict[str, StoredJson] = Field(default_factory=dict)
    tool_summaries: list[str] = Field(default_factory=list)
    result: StoredJson = None
    reason: str = ""


class PendingConfirmation(StateModel):
    """An open yes or no: whether to do what ``action_payload`` says.

    ``drifted_turns`` counts the user's turns about something else; with ``timeout_turns`` of them it expires.
    """

    flow_name: str = ""
    flow_id: str = ""
    action_description: str
    action_payload: dict[str, StoredJson] = Field(default_factory=dict)
    requested_at_turn: int = Field(default=0, ge=0)
    requested_at: float = 0.0
    timeout_turns: int = Field(default=3, ge=1)
    drifted_turns: int = Field(default=0, ge=0)

    @property
    def is_expired(self) -> bool:
        """Whether the user has talked about something else for too long."""
        return self.drifted_turns >= self.timeout_turns


class RunningAction(StateModel):
    """A flow whose work is being done outside; until it is finished, messages queue. Unix milliseconds.

    ``action_id`` tells its end from a repetition, ``message_id`` is of the message that led to it.
    """

    flow_name: str
    action_id: str = ""
    message_id: str = ""
    started_at_turn: int = 0
    started_at: int = Field(default=0, ge=0)


NextStepField = Annotated[
    NextStep | dict[str, StoredJson],
    Field(union_mode="left_to_right"),
    PlainSerializer(lambda step: step.record() if isinstance(step, NextStep) else step),
]
"""A next step as it is kept; one that another version wrote, and this one cannot read, is carried along as it is."""


class PendingEvent(StateModel):
    """What became of a flow between two turns: ``event`` is one of a :class:`~jazzmine_dspy.models.FlowEvent`."""

    flow_name: str
    event: str


class ActionResult(StateModel):
    """What came of an action's end, for its second delivery."""

    action_id: str = Field(min_length=1)
    message_id: str = ""
    next_step: NextStepField
    reply: str = ""


class WorkspaceEntity(StateModel, Entity):
    """Something talked about: how often, and in which turns first and last."""

    # Of two bases, the last one's settings count.
    model_config = ConfigDict(extra="allow")

    mention_count: int = Field(default=1, ge=1)
    first_seen_turn: int = Field(default=0, ge=0)
    last_seen_turn: int = Field(default=0, ge=0)


class TopicShift(StateModel):
    """A turn that opened a new topic; ``summary`` is filled in once, when the topic's turn ends."""

    turn_number: int = Field(ge=0)
    intent: str = "unknown"
    summary: str = ""


class QueuedMessage(StateModel):
    """A message that came while an action ran, with all that its turn will need."""

    message_id: str = Field(min_length=1)
    user_id: str
    text: str
    explicit_context: list[str] = Field(default_factory=list)
    episode_summaries: list[str] = Field(default_factory=list)
    now: dt.datetime | None = None
    timezone: str | None = None
    locale: str | None = None
    user_attributes: dict[str, StoredJson] = Field(default_factory=dict)


class ProcessedMessage(StateModel):
    """What came of a message, for its second delivery; the decision is kept with the message."""

    message_id: str = Field(min_length=1)
    next_step: NextStepField
    reply: str = ""
