"""The form of a labelled dataset: what a line of ``conversations.jsonl`` and ``splits.json`` hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictInt, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from jazzmine_dspy.models.base import FrozenMap, Value
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import MAX_TEXT, Confirming, ConversationStatus, EntityView, Turn

Role = Literal["train", "dev_a", "dev_b", "test"]
ROLES: tuple[Role, ...] = ("train", "dev_a", "dev_b", "test")
"""What a conversation may serve for; each conversation has one role."""

FLOWS_FILE = "flows.yaml"
CONVERSATIONS_FILE = "conversations.jsonl"
SPLITS_FILE = "splits.json"


class _Part(Value):
    """A part of a dataset. Unknown keys are refused, save those beginning with ``x-``, which are skipped."""

    model_config = ConfigDict(json_schema_extra={"patternProperties": {"^x-": {}}})

    @model_validator(mode="before")
    @classmethod
    def _skip_notes(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if not str(key).startswith("x-")}


class Labels(_Part):
    """What a turn means, as people labelled it. A label that is None was not made, and no metric scores it.

    ``sentiment`` lies in [-1.0, 1.0]; an empty ``flows`` or ``commands`` is a label too: nothing is started,
    or nothing changes.

    Example:
        >>> labels = Labels.model_validate({"flows": []})
        >>> labels.flows, labels.commands
        ((), None)
    """

    enhanced: str | None = None
    sentiment: Annotated[float, Field(strict=True, ge=-1.0, le=1.0)] | None = None
    intent: str | None = None
    entities: tuple[EntityView, ...] | None = None
    is_cancellation: StrictBool | None = None
    is_continuation: StrictBool | None = None
    flows: tuple[str, ...] | None = None
    commands: tuple[Command, ...] | None = None


def _paused_schema(schema: dict[str, Any]) -> None:
    held = {"flow": {"type": "string"}, "slots": {"type": "object"}}
    flow = {"type": "object", "properties": held, "required": ["flow"], "additionalProperties": False}
    schema["items"] = {"anyOf": [{"type": "string"}, flow]}


class StateBefore(_Part):
    """The conversation's state when the message came in; ``paused`` and ``entities`` have the newest last.

    ``offering`` is the paused flow that the assistant has just offered to go back to.
    A file names a paused flow, or gives it with the values that it holds; here these are ``paused_slots``, by flow.

    Example:
        >>> held = {"flow": "track_order", "slots": {"order_id": "4471"}}
        >>> before = StateBefore.model_validate({"paused": ["newsletter", held]})
        >>> before.paused, before.paused_slots.as_dict()
        (('newsletter', 'track_order'), {'track_order': {'order_id': '4471'}})
    """

    status: ConversationStatus = ConversationStatus.IDLE
    flow: str | None = None
    awaiting: str | None = None
    slots: FrozenMap = FrozenMap()
    paused: tuple[str, ...] = Field(default=(), json_schema_extra=_paused_schema)
    paused_slots: SkipJsonSchema[FrozenMap] = FrozenMap()
    confirming: Confirming | None = None
    offering: str | None = None
    entities: tuple[EntityView, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _values_of_paused_flows(cls, data: Any) -> Any:
        paused = data.get("paused") if isinstance(data, dict) else None
        if not isinstance(paused, list | tuple):
            return data
        names, held = [], {}
        for one in paused:
            if isinstance(one, dict) and "flow" in one and set(one) <= {"flow", "slots"}:
                names.append(one["flow"])
                if one.get("slots"):
                    held[one["flow"]] = one["slots"]
            else:
                names.append(one)
        return {**data, "paused": names, **({"paused_slots": held} if held else {})}


def as_written(before: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a state as a dataset's file has it: paused flows with their values.

    Example:
        >>> as_written({"paused": ["a", "b"], "paused_slots": {"b": {"size": 2}}})
        {'paused': ['a', {'flow': 'b', 'slots': {'size': 2}}]}
    """
    held = before.get("paused_slots") or {}
    paused = [
        {"flow": name, "slots": held[name]} if name in held else name for name in before.get("paused", ())
    ]
    state = {key: value for key, value in before.items() if key not in ("paused", "paused_slots")}
    return state | ({"paused": paused} if paused else {})


class LabelledTurn(_Part):
    """One message of a conversation. ``before`` and ``labels`` are for a user's messages.

    Raises:
        pydantic.ValidationError: ``text`` is empty or over 8,000 characters, a key is unknown, or a message
            that is not a user's has labels.
    """

    role: MessageRole
    id: str = ""
    text: str = Field(min_length=1, max_length=MAX_TEXT)
    before: StateBefore = StateBefore()
    labels: Labels | None = None
    tags: tuple[str, ...] = ()

    @field_validator("text")
    @classmethod
    def _not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("the text is empty")
        return text

    @field_validator("labels")
    @classmethod
    def _of_a_user(cls, labels: Labels | None, info: Any) -> Labels | None:
        if labels is not None and info.data.get("role", MessageRole.USER) is not MessageRole.USER:
            raise ValueError("only a user's message has labels")
        return labels


class LabelledConversation(_Part):
    """One line of ``conversations.jsonl``. Words such as "tomorrow" count from ``date``.

    Example:
        >>> turn = {"role": "user", "text": "hello"}
        >>> chat = LabelledConversation.model_validate({"id": "c1", "turns": [turn]})
        >>> chat.turn_id(0), chat.turns[0].labels is None
        ('t1', True)
    """

    id: str = Field(min_length=1)
    locale: str = "en"
    date: dt.date | None = None
    timezone: str = "UTC"
    turns: tuple[LabelledTurn, ...] = Field(json_schema_extra={"minItems": 1})

    @field_validator("turns")
    @classmethod
    def _some(cls, turns: tuple[LabelledTurn, ...]) -> tuple[LabelledTurn, ...]:
        # Pydantic's own min_length would count broken turns as absent and report them twice.
        if not turns:
            raise ValueError("the conversation has no turn")
        return turns

    def turn_id(self, index: int) -> str:
        """The id of the turn at a position; without one, "t" and its number among the user's turns."""
        number = sum(turn.role is MessageRole.USER for turn in self.turns[: index + 1])
        return self.turns[index].id or f"t{number}"


class Splits(_Part):
    """``splits.json``: the role of each conversation, locked by a SHA-256 over the roles."""

    seed: StrictInt
    roles: dict[Role, tuple[str, ...]]
    sha256: str


class Example(Value):
    """A labelled turn, ready to be decided, trained on or scored. ``line`` is that of its conversation."""

    conversation_id: str
    turn_id: str
    turn: Turn
    labels: Labels
    tags: tuple[str, ...] = ()
    role: Role
    line: int

    @property
    def key(self) -> str:
        """The conversation's id and the turn's: unique in a dataset."""
        return f"{self.conversation_id}/{self.turn_id}"


def json_schema() -> dict[str, Any]:
    """The JSON Schema of one line of ``conversations.jsonl``; committed as ``datasets/schema.json``.

    Example:
        >>> json_schema()["required"]
        ['id', 'turns']
    """
    schema = LabelledConversation.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
