"""The turn: one frozen value that holds all that may influence a decision; and the same by the names that soni uses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from jazzmine_dspy.models.agreement import Stance, stance
from jazzmine_dspy.models.base import FrozenMap, Text, Value, sha256
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.flows import Slot
from jazzmine_dspy.models.messages import Entity, MessageRole
from jazzmine_dspy.models.talk import kind_of_talk

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
        "clarifying",
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
        finished: The flow that ended last and was not dropped; unknown without it.
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
    finished: str | None = None
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
    def begun(self) -> bool:
        """Whether there is a history of more than greetings: of a task that runs or waits, or of other messages."""
        if self.history and (self.load == "busy" or self.paused):
            return True
        said = (one.text for one in self.history if one.role is MessageRole.USER)
        return any(kind_of_talk(text) != "greeting" for text in said)

    @property
    def question(self) -> str:
        """What an open confirmation asks, with the name of its flow; empty where none is open."""
        if self.confirming is None:
            return ""
        flow = "" if self.confirming.handoff else self.flow or ""
        return f"{flow} {self.confirming.action}"

    @property
    def stance(self) -> Stance | None:
        """What the message says to the open confirmation; None where none is open."""
        return None if self.confirming is None else stance(self.text, self.question)

    @property
    def digest(self) -> str:
        """SHA-256 over canonical JSON: the turn's identity on every machine."""
        # Not kept: `model_copy(update=...)` would copy the old one along.
        return sha256(self.model_dump(mode="json", exclude={"finished"} if self.finished is None else None))


class ConversationState(StrEnum):
    """The states of a conversation: those of ``ConversationStatus``, and one that only names a step within a turn."""

    IDLE = "idle"
    IN_FLOW = "in_flow"
    COLLECTING_SLOTS = "collecting_slots"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    EXECUTING_ACTION = "executing_action"
    VALIDATING_SLOT = "validating_slot"


_NAMES = {
    "user_message": "text",
    "conversation_state": "status",
    "waiting_for_slot": "awaiting",
    "current_flow": "flow",
    "current_step": "step",
    "collected_slots": "slots",
    "paused_flows": "paused",
    "conversation_history": "history",
}


_EMPTY: dict[str, Any] = {
    "text": "",
    "slots": FrozenMap(),
    "flow": None,
    "awaiting": None,
    "available_flows": (),
    "paused": (),
    "history": (),
}


class NLUContext(Turn):
    """A :class:`Turn` by other names, whose message may come later: ``program.decide(context, text="…")``.

    Args:
        conversation_state: A :class:`ConversationState` or its text; without one it follows from the rest.
        waiting_for_slot, current_flow, current_step, collected_slots: The state before the message.
        available_flows: Flows to choose from: ``FlowInfo`` objects, mappings with their fields, or one mapping of names
            to descriptions. Empty means all of the program's registry.
        paused_flows: Names of the paused flows, oldest first.
        conversation_history: Earlier messages, oldest first: mappings with ``role`` and ``content``.
        user_message: The message, where it is known.

    Every other field of a ``Turn`` may be given by its own name. A flow that the program does not have is named in
    ``TurnDecision.problems``.

    Raises:
        pydantic.ValidationError: a field is unknown or of another type, or given by both of its names.

    Example:
        >>> context = NLUContext(current_flow="book_flight", waiting_for_slot="origin",
        ...                      conversation_history=[{"role": "assistant", "content": "From where?"}])
        >>> turn = context.turn("Boston")
        >>> turn.status.value, turn.awaiting, turn.history[0].text
        ('collecting_slots', 'origin', 'From where?')
    """

    text: Text = Field(default="", max_length=MAX_TEXT)

    @model_validator(mode="before")
    @classmethod
    def _documented(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        twice = [name for name, own in _NAMES.items() if name in data and own in data]
        if twice:
            raise ValueError(f"{twice[0]!r} and {_NAMES[twice[0]]!r} are the same field: give one of them")
        fields: dict[str, Any] = {_NAMES.get(str(name), str(name)): value for name, value in data.items()}
        for name, empty in _EMPTY.items():
            fields[name] = fields.get(name) or empty
        if isinstance(flows := fields["available_flows"], Mapping):
            fields["available_flows"] = [{"name": name, "description": text} for name, text in flows.items()]
        if isinstance(fields["history"], list | tuple):
            fields["history"] = tuple(map(_message, fields["history"]))
        fields["slots"] = FrozenMap.of(fields["slots"])
        fields["status"] = _status(fields)
        if fields["status"] == ConversationStatus.AWAITING_CONFIRMATION and not fields.get("confirming"):
            fields["confirming"] = {"flow": fields["flow"] or "", "action": fields["flow"] or ""}
        return fields

    @field_validator("text")
    @classmethod
    def _not_blank(cls, text: str) -> str:
        return text

    def turn(self, user_message: str | None = None) -> Turn:
        """The turn of a message in this context.

        Args:
            user_message: 1 to 8,000 characters; the context's own message where None.

        Raises:
            InputError: there is no message, or there are two.
            pydantic.ValidationError: the message is empty or over the limit.
        """
        if user_message is not None and self.text:
            raise InputError("The context has a message of its own", where="text", remedy="Pass one of them.")
        text = self.text if user_message is None else user_message
        if not text:
            raise InputError("The context has no message", where="text", remedy="Pass text='…' with it.")
        fields = {name: getattr(self, name) for name in Turn.model_fields if name != "text"}
        return Turn(text=text, **fields)

    @property
    def conversation_state(self) -> ConversationState:
        """The state before the message."""
        return ConversationState(self.status.value)

    @property
    def waiting_for_slot(self) -> str | None:
        """The slot that was asked for."""
        return self.awaiting

    @property
    def current_flow(self) -> str | None:
        """The running flow."""
        return self.flow

    @property
    def current_step(self) -> int | None:
        """The step of the running flow."""
        return self.step

    @property
    def collected_slots(self) -> dict[str, Any]:
        """The values of the running flow."""
        return self.slots.as_dict()

    @property
    def paused_flows(self) -> tuple[str, ...]:
        """The paused flows, oldest first."""
        return self.paused

    @property
    def conversation_history(self) -> tuple[HistoryMessage, ...]:
        """The earlier messages, oldest first."""
        return self.history


def _message(message: Any) -> Any:
    """An earlier message in the fields of a turn, where it is a mapping with ``role`` and ``content``."""
    if isinstance(message, Mapping) and "content" in message:
        return {"role": message.get("role"), "text": message["content"]}
    return message


def _status(fields: Mapping[str, Any]) -> Any:
    """The status as a turn has it; where none is given, or one that only names a step, what the rest says."""
    status = fields.get("status")
    if status is not None and status != ConversationState.VALIDATING_SLOT:
        return status
    if fields.get("confirming"):
        return ConversationStatus.AWAITING_CONFIRMATION
    if fields["awaiting"]:
        return ConversationStatus.COLLECTING_SLOTS
    return ConversationStatus.IN_FLOW if fields["flow"] else ConversationStatus.IDLE
