"""Conversations with what is expected of each turn."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from jazzmine_dspy.models.base import Text, Value
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import StepKind
from jazzmine_dspy.models.flows import Status
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import MAX_TEXT

Kind = Literal[
    "cancellation", "chitchat", "correction", "digression", "disambiguation", "happy_path",
    "input_validation", "knowledge", "negation", "repetition", "skip_question", "resume", "replay",
]  # fmt: skip
"""What a conversation is mainly about; ``replay`` is one of a labelled dataset."""


def one_of(wanted: Any) -> list[Any]:
    """The values that are right: those under ``one_of``, or the one that is given.

    Example:
        >>> one_of({"one_of": ["ice", "some ice"]}), one_of("ice")
        (['ice', 'some ice'], ['ice'])
    """
    return list(wanted["one_of"]) if isinstance(wanted, dict) else [wanted]


class Expect(Value):
    """What is to be so after a turn. Only the keys that are written are checked.

    Args:
        flow: The running flow, None for none.
        status, awaiting: What the conversation waits for, and the slot just asked for.
        slots: All values of the running flow, in normal form; ``{"one_of": [...]}`` where several are right.
        paused: Flows set aside, the newest last.
        ran: The flow that the turn ran to its end, several in their order; None for none.
        next: The kind of next step, or several of which one is right.
        reply: What the reply contains, without case; of several texts, all.
        commands: The commands, in order.
    """

    flow: str | None = None
    status: Status = "idle"
    awaiting: str | None = None
    slots: dict[str, Any] = Field(default_factory=dict)
    paused: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
    next: tuple[StepKind, ...] = ()
    reply: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()

    @field_validator("ran", "next", "reply", mode="before")
    @classmethod
    def _listed(cls, data: Any) -> Any:
        return () if data is None else [data] if isinstance(data, str) else data

    @field_validator("slots")
    @classmethod
    def _choices_are_lists(cls, data: dict[str, Any]) -> dict[str, Any]:
        for name, wanted in data.items():
            listed = not isinstance(wanted, dict) or (
                set(wanted) == {"one_of"} and isinstance(wanted["one_of"], list) and wanted["one_of"]
            )
            if not listed:
                raise ValueError(f"slot {name!r} is neither a value nor {{one_of: [...]}}")
        return data


class SuiteTurn(Value):
    """One message of the user, and what is expected after it. ``line`` is the message's in the file."""

    user: Text = Field(min_length=1, max_length=MAX_TEXT)
    expect: Expect
    line: int = 0

    @field_validator("user")
    @classmethod
    def _not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("the message is empty")
        return text

    @field_validator("expect")
    @classmethod
    def _says_something(cls, expect: Expect) -> Expect:
        if not expect.model_fields_set:
            raise ValueError("nothing is expected")
        return expect


class SuiteConversation(Value):
    """A conversation on one day, which begins idle unless ``start`` says in which state.

    ``registry`` and ``line`` are where it stands.
    """

    id: str = Field(min_length=1, max_length=200)
    kind: Kind
    date: dt.date
    locale: str = "en"
    start: Expect | None = None
    turns: tuple[SuiteTurn, ...] = Field(min_length=1)
    registry: str = ""
    line: int = 0


@dataclass(frozen=True)
class Suite:
    """Conversations over one or more registries. Made by :func:`load_suite`.

    Attributes:
        path: The folder or file that it was loaded from.
        registries: Flows, by the name of their file.
        conversations: In file order, file by file.
        unseen: Registries that nothing may be fitted, prompted or phrased on.
    """

    path: Path
    registries: dict[str, FlowRegistry]
    conversations: tuple[SuiteConversation, ...]
    unseen: frozenset[str] = frozenset()
