"""Reading a dataset's files line by line; every fault is handed to the caller, who stops or goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jazzmine_dspy.datasets.label_checks import catalogue, unknown_names
from jazzmine_dspy.datasets.schema import (
    CONVERSATIONS_FILE,
    FLOWS_FILE,
    ROLES,
    SPLITS_FILE,
    LabelledConversation,
    Problem,
    Role,
    Splits,
    explain,
)
from jazzmine_dspy.datasets.split import assign_roles, roles_hash
from jazzmine_dspy.models.errors import DatasetError, FlowError
from jazzmine_dspy.models.parsing import MalformedError, from_json, lines_of, read_file
from jazzmine_dspy.models.registry import FlowRegistry

Report = Callable[[Problem], None]


@dataclass
class Reading:
    """What was read; ``registry`` is None where the flows are broken, ``notes`` say what was assumed.

    ``derived`` are the conversations whose states were derived from their labels.
    """

    path: Path
    registry: FlowRegistry | None = None
    conversations: list[LabelledConversation] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    derived: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def read(path: str | Path, report: Report) -> Reading:
    """Read a dataset folder. ``report`` may raise, which ends the reading.

    Raises:
        DatasetError: the folder does not exist.
    """
    reading = Reading(Path(path))
    if not reading.path.is_dir():
        raise DatasetError(
            "No such dataset folder",
            where=str(path),
            remedy=f"Name a folder with {FLOWS_FILE} and {CONVERSATIONS_FILE}.",
        )
    reading.registry = _flows(reading.path / FLOWS_FILE, report)
    _roles(reading, _conversations(reading, report), report)
    return reading


# --- flows -----------------------------------------------------------------------------------------


def _flows(path: Path, report: Report) -> FlowRegistry | None:
    try:
        return FlowRegistry.from_yaml(path)
    except FlowError as error:
        for each in (error, *error.others):
            # Such as "flows.yaml:3, flow 'refund', field slots".
            number, place = re.findall(r"(?s)^(?::(\d+))?(?:, )?(.*)", each.where.removeprefix(str(path)))[0]
            line = int(number) if number else None
            report(_fault(path, line, each.message, each.remedy, place.replace(", field ", ", ")))
    return None


# --- conversations ---------------------------------------------------------------------------------


def _conversations(reading: Reading, report: Report) -> set[str]:
    """Fill in the sound conversations; returns the ids of all, so that a broken one is not called missing."""
    from jazzmine_dspy.datasets.replay import with_states

    path = reading.path / CONVERSATIONS_FILE
    known = None if reading.registry is None else catalogue(reading.registry)
    first: dict[str, int] = {}
    for number, data in _lines(path, report):
        name = data.get("id") if isinstance(data, dict) else None
        if isinstance(name, str) and name:
            if name in first:
                message = f"Conversation id {name!r} is already that of line {first[name]}"
                report(_fault(path, number, message, "Rename or remove one of the two.", "id"))
                continue
            first[name] = number
        try:
            conversation = LabelledConversation.model_validate(data)
        except ValidationError as error:
            for problem in explain(error, file=str(path), line=number):
                report(problem)
            continue
        if reading.registry is not None:
            stated, conversation = conversation, with_states(conversation, reading.registry)
            if conversation is not stated:
                reading.derived.add(conversation.id)
        for fault in unknown_names(conversation, known) if known is not None else ():
            report(_fault(path, number, fault.message, fault.remedy, fault.field))
        reading.conversations.append(conversation)
        reading.lines[conversation.id] = number
    if not first:
        report(_fault(path, None, "There is no conversation", "Write one conversation a line."))
    return set(first)


def _lines(path: Path, report: Report) -> Iterator[tuple[int, Any]]:
    try:
        for number, raw in lines_of(path):
            try:
                data = from_json(raw)
            except MalformedError as error:
                message = f"The line is not JSON: {error.problem}"
                remedy = "Write one JSON object a line; quotes inside texts need a backslash."
                report(_fault(path, number, message, remedy))
            else:
                yield number, data
    except (OSError, MalformedError) as error:
        what, line = _why(error)
        message = f"Cannot read the conversations: {what}"
        report(_fault(path, line, message, "Write one conversation a line."))


def _why(error: OSError | MalformedError) -> tuple[str | None, int | None]:
    """What is wrong with a file, and in which line of it."""
    return (error.problem, error.line) if isinstance(error, MalformedError) else (error.strerror, None)


# --- splits ----------------------------------------------------------------------------------------


def _roles(reading: Reading, ids: set[str], report: Report) -> None:
    path = reading.path / SPLITS_FILE
    if not path.exists():
        reading.roles = assign_roles(reading.conversations, seed=0)
        reading.notes.append(f"{path} does not exist: roles are decided in memory, with seed 0")
        return
    try:
        text = read_file(path)
        splits = Splits.model_validate(from_json(text))
    except ValidationError as error:
        for problem in explain(error, file=str(path), line=None):
            report(problem)
        return
    except (OSError, MalformedError) as error:
        what, line = _why(error)
        message = f"The splits cannot be read: {what}"
        report(_fault(path, line, message, "Write them again with `datasets split`."))
        return
    if splits.sha256 != roles_hash(splits.roles):
        message = "The hash does not fit: the splits were edited by hand"
        report(
            _fault(
                path,
                _line(text, "sha256"),
                message,
                "Undo the edit, or write them again with `datasets split`.",
            )
        )
    found: dict[str, Role] = {}
    for role in ROLES:
        for name in splits.roles.get(role, ()):
            if name in found or name not in ids:
                message = f"{name!r} has two roles" if name in found else f"There is no conversation {name!r}"
                remedy = "Write the splits again with `datasets split`."
                report(_fault(path, _line(text, name), message, remedy, f"roles.{role}"))
            # A conversation of the test part stays there, whatever else is said of it.
            found[name] = role if role == "test" else found.get(name, role)
    for name in sorted(ids - found.keys()):
        file, line = reading.path / CONVERSATIONS_FILE, reading.lines.get(name)
        report(
            _fault(
                file,
                line,
                f"Conversation {name!r} has no role",
                f"Run jazzmine-dspy datasets split {reading.path}.",
                "id",
            )
        )
    reading.roles = {c.id: found[c.id] for c in reading.conversations if c.id in found}


def _line(text: str, name: str) -> int | None:
    quoted = json.dumps(name, ensure_ascii=False)
    return next((number for number, line in enumerate(text.splitlines(), start=1) if quoted in line), None)


def _fault(path: Path, line: int | None, message: str, remedy: str, place: str = "") -> Problem:
    return Problem(severity="error", file=str(path), line=line, field=place, message=message, remedy=remedy)
