"""What working memory is made of. Everything here survives a trip through JSON."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pydantic import Field

from jazzmine_dspy.memory.working.enums import FlowStatus, check_transition
from jazzmine_dspy.models._base import Record
from jazzmine_dspy.models.messages import Entity


class HeldSlot(Record):
    """A slot as the conversation holds it. What kind of value it takes stands in the flow's definition.

    Example:
        >>> HeldSlot(name="quantity", value=0).filled, HeldSlot(name="quantity").filled
        (True, False)
    """

    name: str = Field(min_length=1)
    value: Any = None
    previous_value: Any = None
    validation_error: str = ""
    attempts: int = Field(default=0, ge=0)
    turn_collected: int | None = None
    skipped: bool = False

    @property
    def filled(self) -> bool:
        """Whether there is a value; 0, False and "" are values."""
        return self.value is not None


class ActiveFlow(Record):
    """A flow under way, running or paused, by name only: never the flow itself.

    ``awaiting`` is the slot last asked for. ``ready`` says that the flow was handed out to be run.
    ``deferred`` marks a flow that was asked for together with another one and has not begun.
    """

    flow: str = Field(min_length=1)
    status: FlowStatus = FlowStatus.ACTIVE
    slots: dict[str, HeldSlot] = Field(default_factory=dict)
    awaiting: str | None = None
    step: int | None = None
    started_turn: int = Field(default=0, ge=0)
    ready: bool = False
    deferred: bool = False

    @property
    def values(self) -> dict[str, Any]:
        """The values held, by slot, in the order in which the slots were first touched."""
        return {name: slot.value for name, slot in self.slots.items() if slot.filled}

    def slot(self, name: str) -> HeldSlot:
        """The slot of that name, made where there is none."""
        return self.slots.setdefault(name, HeldSlot(name=name))

    def become(self, status: FlowStatus) -> None:
        """Take a legal step.

        Raises:
            IllegalTransitionError: the step is not legal; nothing is changed.
        """
        check_transition(self.status, status, flow=self.flow)
        self.status = status


class FlowRecord(Record):
    """A flow that has ended: what it knew, and what came of it."""

    flow: str
    status: FlowStatus
    slots: dict[str, Any] = Field(default_factory=dict)
    started_turn: int = 0
    ended_turn: int = 0
    result: Any = None
    reason: str = ""


class PendingConfirmation(Record):
    """An open yes or no: whether to run the active flow with the values in ``payload``."""

    flow: str
    question: str
    payload: dict[str, Any] = Field(default_factory=dict)
    asked_turn: int = 0


class RunningAction(Record):
    """A flow whose work is being done outside; until it is finished, messages queue."""

    flow: str
    started_turn: int = 0
    started_at: int = Field(default=0, ge=0)


class WorkspaceEntity(Entity):
    """Something talked about: how often, and in which turns first and last."""

    mentions: int = Field(default=1, ge=1)
    first_turn: int = 0
    last_turn: int = 0


class QueuedMessage(Record):
    """A message that came while an action ran, with all that its turn will need."""

    message_id: str = Field(min_length=1)
    user_id: str
    text: str
    explicit_context: list[str] = Field(default_factory=list)
    episode_summaries: list[str] = Field(default_factory=list)
    now: dt.datetime | None = None
    locale: str | None = None


class HandledMessage(Record):
    """What came of a message, for its second delivery; the decision is kept with the message."""

    message_id: str = Field(min_length=1)
    next_step: dict[str, Any]
    reply: str = ""
