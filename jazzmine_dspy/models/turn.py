"""The turn: one frozen value that holds all that may influence a decision."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, field_validator

from jazzmine_dspy.models.agreement import Stance, stance
from jazzmine_dspy.models.base import FrozenMap, Text, Value, sha256
from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.models.messages import Entity, MessageRole

MAX_TEXT = 8_000
"""Characters that a message may have; longer ones are refused, since no stage reads them whole."""

STATE_FIELDS = frozenset(
    {
        "status",
        "flow",
        "awaiting",
        "slots",
        "paused",
        "paused_slots",
        "confirming",
        "offering",
        "entities",
        "date",
        "timezone",
        "locale",
    }
)
"""Fields of a turn that say in which state, when and where a message came; a labelled turn needs them."""

Load = Literal["idle", "busy"]
"""Whether something is under way when a message comes; what is chosen then needs stronger grounds."""


class ConversationStatus(StrEnum):
    """What a conversation waits for."""

    IDLE = "idle"
    IN_FLOW = "in_flow"
    COLLECTING_SLOTS = "collecting_slots"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    EXECUTING_ACTION = "executing_action"


class HistoryMessage(Value):
    """An earlier message. ``enhanced`` is kept beside the original, never in its place."""

    role: MessageRole
    text: Text
    enhanced: Text = ""
    is_continuation: bool = True


class Confirming(Value):
    """A yes or no that is open.

    ``handoff`` is True where the assistant has offered a person; then ``flow`` is empty.
    """

    flow: str = ""
    action: str = ""
    handoff: bool = Field(default=False, exclude_if=lambda value: not value)


class EntityView(Value):
    """An entity as a turn shows it: frozen; built from an ``Entity`` or from its JSON form."""

    name: str
    attributes: tuple[str, ...] = ()


class FlowView(Value):
    """What a turn shows of a flow."""

    name: str
    description: str = ""
    condition: str = ""
    category: str = ""
    keywords: tuple[str, ...] = ()
    slots: tuple[Slot, ...] = ()

    @field_validator("description", "condition", "category", mode="before")
    @classmethod
    def _nothing_said(cls, text: Any) -> Any:
        return "" if text is None else text


class Turn(Value):
    """All that may influence one decision. Frozen and hashable; two equal turns are decided alike.

    Ids of messages and conversations are no part of it, and of the time only the local date is.

    Args:
        text: The user's message, 1 to 8,000 characters.
        status, flow, step, awaiting, slots, paused, confirming: State before the message.
        paused_slots: The values that paused flows hold, by flow; of flows that hold none nothing is said.
        clarifying: Flows between which the assistant has just asked the user to choose, in the order of the question.
        offering: A paused flow that the assistant has just offered to go back to.
        history: Earlier messages of the conversation, oldest first, this one not among them.
        history_summaries: One line for each message that the history holds no longer, oldest first.
        available_flows: Flows to choose from; empty means all of the bound registry.
        recent_sentiments: Scores of the user's last messages, oldest first, each in [-1.0, 1.0].
        date: Local date at the user's; words like "tomorrow" count from it.

    Raises:
        pydantic.ValidationError: an empty text, one over the limit, or an unknown field.

    Example:
        >>> turn = Turn(text="the second one", flow="track_order", awaiting="order_id", slots={"speed": "express"})
        >>> turn.slots["speed"], turn == Turn(**turn.model_dump()), len(turn.digest)
        ('express', True, 64)
    """

    text: Text = Field(min_length=1, max_length=MAX_TEXT)
    status: ConversationStatus = ConversationStatus.IDLE
    flow: str | None = None
    step: int | None = None
    awaiting: str | None = None
    slots: FrozenMap = FrozenMap()
    paused: tuple[str, ...] = ()
    paused_slots: FrozenMap = FrozenMap()
    confirming: Confirming | None = None
    clarifying: tuple[str, ...] = ()
    offering: str | None = None
    history: tuple[HistoryMessage, ...] = ()
    history_summaries: tuple[Text, ...] = ()
    explicit_context: tuple[str, ...] = ()
    episode_summaries: tuple[str, ...] = ()
    entities: tuple[EntityView, ...] = ()
    user_attributes: FrozenMap = FrozenMap()
    recent_sentiments: tuple[float, ...] = ()
    available_flows: tuple[FlowView, ...] = ()
    date: dt.date | None = None
    timezone: str = "UTC"
    locale: str = "en"

    @field_validator("text")
    @classmethod
    def _not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("the text is empty")
        return text

    @field_validator("entities", mode="before")
    @classmethod
    def _views(cls, data: Any) -> Any:
        if not isinstance(data, list | tuple):
            return data
        return tuple(item.model_dump() if isinstance(item, Entity) else item for item in data)

    @field_validator("confirming", mode="before")
    @classmethod
    def _action(cls, data: Any) -> Any:
        return {"action": data} if isinstance(data, str) else data

    @property
    def load(self) -> Load:
        """ "busy" where a flow runs or its yes or no is open, else "idle"."""
        return "busy" if self.flow or (self.confirming and not self.confirming.handoff) else "idle"

    @property
    def stance(self) -> Stance | None:
        """What the message says to the open confirmation; None where none is open."""
        if self.confirming is None:
            return None
        flow = "" if self.confirming.handoff else self.flow or ""
        return stance(self.text, f"{flow} {self.confirming.action}")

    @property
    def digest(self) -> str:
        """SHA-256 over canonical JSON: the turn's identity on every machine."""
        # Not kept: `model_copy(update=...)` would copy the old one along.
        return sha256(self.model_dump(mode="json"))
