"""Conversations with what is expected of each turn: read from files, and checked against their flows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from jazzmine_dspy.datasets.load import append_opening
from jazzmine_dspy.models.base import Text, Value, sha256
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import StepKind
from jazzmine_dspy.models.errors import InputError, reading
from jazzmine_dspy.models.flows import Flow, Status
from jazzmine_dspy.models.parsing import from_yaml, read_file, yaml_line
from jazzmine_dspy.models.registry import FlowRegistry, reading_context
from jazzmine_dspy.models.slots import call_type
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


CONVERSATIONS = ".conversations.yaml"
UNSEEN_FILE = "unseen.txt"


def load_suite(path: str | Path, *, only: Collection[str] = (), seen: bool = False) -> Suite:
    """Read a suite and check it.

    Conversations stand in ``NAME.conversations.yaml``, their flows beside it in ``NAME.yaml``, or for all in
    ``flows.yaml``. ``unseen.txt`` may name registries that are kept apart, one a line.

    Args:
        path: A folder, or one file of conversations.
        only: Names of registries, kinds, or ids of conversations; all where empty.
        seen: Leave out unseen registries, whose files are then not read.

    Raises:
        InputError: a file cannot be read, or says what cannot be, with its line, the conversation's id and a remedy;
            or nothing is left.
        FlowError: the flows are malformed.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    beside = path.with_name(path.stem + CONVERSATIONS)
    one = beside if beside.is_file() and not path.name.endswith(CONVERSATIONS) else path
    files = sorted(path.glob(f"*{CONVERSATIONS}")) if path.is_dir() else [one]
    unseen = unseen_registries(folder)
    names = {file.name.removesuffix(CONVERSATIONS): file for file in files}
    if seen:
        names = {name: file for name, file in names.items() if name not in unseen}
    if any(name in only for name in names):
        # Others are not opened for nothing; a kind named besides narrows what is left.
        names = {name: file for name, file in names.items() if name in only}
    registries: dict[str, FlowRegistry] = {}
    found: list[SuiteConversation] = []
    places: dict[str, str] = {}
    for name, file in names.items():
        own = file.with_name(f"{name}.yaml")
        registries[name] = FlowRegistry.from_yaml(own if own.is_file() else file.with_name("flows.yaml"))
        for conversation in _read(file, name):
            place = f"{file}:{conversation.line}"
            if conversation.id in places:
                raise InputError(
                    f"The id {conversation.id!r} is taken",
                    where=f"{place}, also {places[conversation.id]}",
                    remedy="Give every conversation an id of its own.",
                )
            places[conversation.id] = place
            _check(conversation, registries[name], file)
            found.append(conversation)
    narrow = [word for word in only if word not in names]
    if not (found := [each for each in found if not narrow or each.kind in narrow or each.id in narrow]):
        raise InputError(
            f"Nothing in the suite is named {', '.join(only)}" if only else "The suite has no conversation",
            where=str(path),
            remedy=f"Write NAME{CONVERSATIONS}; --only takes registries, kinds and ids.",
        )
    used = {each.registry for each in found}
    return Suite(
        path, {n: flows for n, flows in registries.items() if n in used}, tuple(found), unseen & used
    )


def unseen_registries(folder: str | Path) -> frozenset[str]:
    """The registries that ``unseen.txt`` of a suite's folder names; lines that begin with # are notes."""
    file = Path(folder) / UNSEEN_FILE
    lines = read_file(file).splitlines() if file.is_file() else []
    return frozenset(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


def log_opening(suite: Suite, reason: str) -> Path | None:
    """Log that conversations of unseen registries were opened, in the suite's folder, as the opening of a test part is.

    Returns:
        The log; None where no unseen registry is among them, or where it could not be written, which also warns.
    """
    if not suite.unseen:
        return None
    folder = suite.path if suite.path.is_dir() else suite.path.parent
    opened = [each.model_dump(mode="json") for each in suite.conversations if each.registry in suite.unseen]
    return append_opening(
        folder,
        {
            "reason": reason,
            "suite": str(suite.path),
            "registries": sorted(suite.unseen),
            "conversations": len(opened),
            "fingerprint": sha256(opened),
        },
    )


def _read(file: Path, registry: str) -> Iterator[SuiteConversation]:
    remedy = "Name a readable YAML file, in UTF-8; quote texts with ':' or '#'."
    with reading(file, "Cannot read the suite", remedy, InputError):
        text = read_file(file)
        data = from_yaml(text)
    if not isinstance(data, list):
        raise InputError(
            "No list of conversations",
            where=str(file),
            remedy="Begin each with '- id:', 'kind:' and 'date:'.",
        )
    for number, item in enumerate(data):
        line = yaml_line(text, [number])
        if not isinstance(item, dict):
            raise InputError(
                "A conversation is not a mapping",
                where=f"{file}:{line}",
                remedy="Give it id, kind, date, turns.",
            )
        turns = item.get("turns")
        if isinstance(turns, list) and all(isinstance(turn, dict) for turn in turns):
            turns = [
                {**turn, "line": yaml_line(text, [number, "turns", at])} for at, turn in enumerate(turns)
            ]
        try:
            yield SuiteConversation.model_validate(
                {**item, "turns": turns, "registry": registry, "line": line}
            )
        except ValidationError as error:
            raise _malformed(
                error,
                f"{file}:{yaml_line(text, [number, *error.errors()[0]['loc'][:2]])}",
                str(item.get("id")),
            ) from error


def _malformed(error: ValidationError, place: str, name: str) -> InputError:
    first = error.errors(include_url=False)[0]
    message, remedy = first["msg"].removeprefix("Value error, "), "Correct this field."
    if first["type"] == "extra_forbidden":
        remedy = f"Remove it, or correct its name: {', '.join(Expect.model_fields)} may be expected."
    elif first["type"] == "string_type":
        remedy = "Put it into quotes: in YAML, bare yes, no and numbers are not texts."
    field = ".".join(str(part) for part in first["loc"])
    return InputError(message, where=f"{place}, conversation {name!r}, field {field}", remedy=remedy)


def _check(conversation: SuiteConversation, flows: FlowRegistry, file: Path) -> None:
    at = reading_context(flows, conversation.date, conversation.locale)
    running: str | None = None
    for turn in conversation.turns:
        expect, given = turn.expect, turn.expect.model_fields_set
        where = f"{file}:{turn.line}, conversation {conversation.id!r}"
        said = [name for each in expect.commands if isinstance(name := getattr(each, "flow", None), str)]
        for name in (*((expect.flow,) if expect.flow else ()), *expect.paused, *expect.ran, *said):
            if name not in flows:
                raise InputError(
                    f"There is no flow {name!r}", where=where, remedy=f"Use one of: {', '.join(flows)}."
                )
        running = expect.flow if "flow" in given else running
        named = [*expect.slots, *((expect.awaiting,) if expect.awaiting else ())]
        # Where the running flow is not certain, a slot of any flow may be meant.
        owners: list[Flow] = [flows[running]] if running else list(flows.values())
        for name in named:
            slot = next((slot for owner in owners if (slot := owner.slot(name))), None)
            if slot is None:
                known = ", ".join(dict.fromkeys(each.name for owner in owners for each in owner.slots))
                of = f" of {running!r}" if running else ""
                raise InputError(
                    f"There is no slot {name!r}{of}", where=where, remedy=f"Use one of: {known or 'none'}."
                )
            for value in one_of(expect.slots[name]) if name in expect.slots else ():
                if reason := call_type(slot, "check", value, "", at):
                    raise InputError(
                        f"{value!r} is not a value of slot {name!r}: {reason}",
                        where=where,
                        remedy=f"Write its normal form ({slot.kind.example or slot.type}).",
                    )
