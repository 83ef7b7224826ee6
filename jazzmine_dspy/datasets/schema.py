"""The form of a labelled dataset: what its files hold, and what is wrong with them in words."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import (
    Field,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails

from jazzmine_dspy.models.base import FrozenMap, Value
from jazzmine_dspy.models.commands import COMMAND_KINDS
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.labels import DatasetPart, LabelledMessage, Labels
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import MAX_TEXT, Confirming, ConversationStatus, EntityView

Role = Literal["train", "dev_a", "dev_b", "test"]
ROLES: tuple[Role, ...] = ("train", "dev_a", "dev_b", "test")
"""What a conversation may serve for; each conversation has one role."""

FLOWS_FILE = "flows.yaml"
CONVERSATIONS_FILE = "conversations.jsonl"
SPLITS_FILE = "splits.json"


_PAUSED_FLOW: dict[str, Any] = {
    "type": "object",
    "properties": {"flow": {"type": "string"}, "slots": {"type": "object"}},
    "required": ["flow"],
    "additionalProperties": False,
}


class StateBefore(DatasetPart):
    """The conversation's state when the message came in; ``paused`` and ``entities`` have the newest last.

    ``offering`` is the paused flow that the assistant has just offered to go back to, ``clarifying`` are the flows
    between which it has just asked the user to choose.
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
    paused: tuple[str, ...] = Field(
        default=(), json_schema_extra={"items": {"anyOf": [{"type": "string"}, _PAUSED_FLOW]}}
    )
    paused_slots: SkipJsonSchema[FrozenMap] = FrozenMap()
    confirming: Confirming | None = None
    offering: str | None = None
    # Left out where empty: the fingerprints of datasets stay what they were.
    clarifying: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    entities: tuple[EntityView, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _values_of_paused_flows(cls, data: Any) -> Any:
        paused = data.get("paused") if isinstance(data, dict) else None
        if not isinstance(paused, list | tuple):
            return data
        whole = [
            one for one in paused if isinstance(one, dict) and "flow" in one and set(one) <= {"flow", "slots"}
        ]
        names = [one["flow"] if one in whole else one for one in paused]
        held = {one["flow"]: one["slots"] for one in whole if one.get("slots")}
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


class LabelledTurn(DatasetPart):
    """One message of a conversation. ``before`` and ``labels`` are for a user's messages.

    ``date`` is the day of a message that was not sent on the conversation's.

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
    # Left out where it is not given: datasets without it keep their fingerprints.
    date: dt.date | None = Field(default=None, exclude_if=lambda day: day is None)

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


class LabelledConversation(DatasetPart):
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

    def day(self, index: int) -> dt.date | None:
        """The day of the turn at a position, from which words such as "tomorrow" count; None where none is given."""
        return self.turns[index].date or self.date


class Splits(DatasetPart):
    """``splits.json``: the role of each conversation, locked by a SHA-256 over the roles."""

    seed: StrictInt
    roles: dict[Role, tuple[str, ...]]
    sha256: str


class Example(LabelledMessage):
    """A labelled turn, ready to be decided, trained on or scored. ``line`` is that of its conversation."""

    turn_id: str
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
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **LabelledConversation.model_json_schema(mode="validation")}


_PARTS = (LabelledConversation, LabelledTurn, StateBefore, Labels, Splits)
_KEYS = sorted({key for part in _PARTS for key in part.model_fields})


class Problem(Value):
    """One fault of a dataset. An error makes it unfit for use; a warning is to be looked at.

    Args:
        file, line: Where; the line counts from 1 and is None where the whole file is meant.
        field: Path of the field inside the line, such as ``turns.2.labels.flows.0``; may be empty.

    Example:
        >>> problem = Problem(severity="error", file="conversations.jsonl", line=3, field="turns.0.text",
        ...                   message="The text is empty", remedy="Remove the turn.")
        >>> print(problem.error())
        The text is empty (conversations.jsonl:3, field turns.0.text). Remove the turn.
    """

    severity: Literal["error", "warning"]
    file: str
    line: int | None = None
    field: str = ""
    message: str
    remedy: str

    @property
    def where(self) -> str:
        """File, line and field as one text."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}, field {self.field}" if self.field else place

    def error(self) -> DatasetError:
        """The exception that says the same."""
        return DatasetError(self.message, where=self.where, remedy=self.remedy)


def explain(error: ValidationError, *, file: str, line: int | None) -> list[Problem]:
    """The faults that Pydantic found, in words for the author of the dataset."""
    return [_explain_one(detail, file=file, line=line) for detail in error.errors(include_url=False)]


def _explain_one(detail: ErrorDetails, *, file: str, line: int | None) -> Problem:
    parts = [str(part) for part in detail["loc"]]
    # Pydantic adds the command's kind to the path, which is no key of the data.
    kinds = {i for i in range(2, len(parts)) if parts[i - 2] == "commands" and parts[i] in COMMAND_KINDS}
    field = ".".join(part for i, part in enumerate(parts) if i not in kinds)
    name = parts[-1] if parts else ""
    text, context = detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            close = difflib.get_close_matches(name, _KEYS, n=1)
            instead = f"correct it to {close[0]!r}" if close else "remove it"
            message = f"Unknown key {name!r}"
            remedy = f"If it is a slip, {instead}; a note of yours begins with 'x-'."
        case "missing":
            message, remedy = f"The key {name!r} is missing", "Add it."
        case "string_too_long" if name == "text":
            message = f"The text has {len(text):,} characters; {MAX_TEXT:,} are the limit"
            remedy = "Shorten the text, or leave the conversation out."
        case "string_too_short" | "value_error" if name == "text":
            message, remedy = "The text is empty", "Write what was said, or remove the turn."
        case "union_tag_invalid" | "union_tag_not_found":
            tag = context.get("tag")
            message = f"Unknown command {tag!r}" if tag else "A command has no type"
            remedy = f"Use one of: {', '.join(COMMAND_KINDS)}."
        case _:
            message = detail["msg"].removeprefix("Value error, ")
            remedy = "Correct this field; datasets/schema.json shows its form."
    return Problem(severity="error", file=file, line=line, field=field, message=message, remedy=remedy)
