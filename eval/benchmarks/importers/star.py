"""STAR: talks of a user with a wizard who carries out tasks; one JSON file a dialogue, one folder a task."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from importers.labels import OUT_OF_SCOPE, running
from importers.source import PublicReader, one_part, source
from jazzmine_dspy.datasets.importers.source_reader import BadRowError
from jazzmine_dspy.datasets.importers.writer import words
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.messages import MessageRole
from jazzmine_dspy.models.turn import MAX_TEXT

_ONLY_ABLE = "I am only able to "
_TYPES = {
    "Boolean": "boolean",
    "Date": "date",
    "Integer": "number",
    "Time": "time",
}


_REFUSED = "out_of_scope"
_FREE = "custom"
_TALK = {"hello", "anything_else", "goodbye_1", "goodbye_2", _REFUSED, _FREE}
"""Replies that do nothing for a task."""


@source(
    title="STAR",
    source="github.com/RasaHQ/STAR",
    licence="MIT",
    derived=(
        "One conversation for each dialogue, with the user's messages and the wizard's replies in their order.",
        "One flow for each task; its description is what the task's own refusal says that it can do. Its slots are "
        "the inputs of the API of the same name, where the folder apis lies near.",
        "A message's flows: the task that the wizard turned to after it, by selecting it, querying its API or "
        "giving a reply that it alone has; empty where the wizard stayed. In a dialogue of one task any reply "
        "that belongs to the task counts. A reply that several tasks share counts for the one that was chosen next.",
        "before.flow: the task turned to before. Tags: switch (another task ran before), return (to a task that ran "
        "earlier), and out_of_scope (the wizard refused; such a message has no flows and the intent out_of_scope).",
    ),
    left_out=(
        "Messages whose reply the wizard typed freely, where the task is not certain, and those without a "
        "reply have no labels.",
        "The wizard sometimes turns to a task a few messages after it was asked for; the label then stands where "
        "the wizard turned, since nothing in the source says where the user asked.",
        "Which tasks are paused or finished, values of slots, commands, rewrites and sentiments.",
    ),
    layout=one_part("dialogues"),
)
def star(reader: PublicReader) -> Sequence[Flow]:
    """Read folders of dialogues; the folder ``tasks`` near them lists the tasks."""
    files = [
        path
        for path in sorted(reader.required("tasks").glob("*/*.json"))
        if path.name not in ("responses.json", "template.json")
    ]
    replies: dict[str, dict[str, str]] = {
        path.parent.name: reader.document(path)["replies"] for path in files
    }
    slots = _slots(reader.near("apis"), reader)
    owners = _owners(replies)
    for part in reader.parts:
        for path in _dialogues(part.path):
            with reader.row(path, 1):
                turns = _label_turns(reader.document(path), frozenset(replies), owners)
                reader.add(part, LabelledConversation(id=f"star-{part.name}-{path.stem}", turns=turns))
    return [
        Flow(
            name=name,
            description=_description(name, replies[name]),
            category=name.partition("_")[0],
            slots=slots.get(name, ()),
        )
        for name in sorted(replies)
    ]


def _dialogues(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inner = path / "dialogues"
    files = (inner if inner.is_dir() else path).glob("*.json")
    return sorted(files, key=lambda file: (len(file.stem), file.stem))


def _description(name: str, replies: dict[str, str]) -> str:
    """The task's own description from its refusal of anything else, or its name as words."""
    _, able_to, able = str(replies.get("out_of_scope", "")).partition(_ONLY_ABLE)
    able = able.strip().removeprefix("help you with ").removeprefix("help you to ").removeprefix("help you ")
    return able[:1].upper() + able[1:] if able_to and able else words(name)


def _slots(folder: Path | None, reader: PublicReader) -> dict[str, tuple[Slot, ...]]:
    slots: dict[str, tuple[Slot, ...]] = {}
    for path in sorted(folder.rglob("*.json")) if folder else ():
        with reader.row(path, 1):
            data = reader.document(path)
            required = set(data.get("required", ()))
            slots[path.stem] = tuple(_slot(item, required) for item in data["input"])
    return slots


def _slot(item: dict[str, Any], required: set[str]) -> Slot:
    options = tuple(str(option) for option in item.get("Categories") or ())
    kind = "choice" if options else _TYPES.get(item["Type"], "text")
    return Slot(
        name=item["Name"],
        type=kind,
        description=item.get("ReadableName", ""),
        required=item["Name"] in required,
        options=options,
    )


def _owners(replies: Mapping[str, Mapping[str, str]]) -> dict[str, set[str]]:
    """The tasks that each reply works for, of the replies by task that the tasks' files have."""
    owners: dict[str, set[str]] = {}
    for task, held in replies.items():
        for reply in held:
            if reply not in _TALK and not reply.endswith("_bye"):
                owners.setdefault(reply, set()).add(task)
    return owners


@dataclass
class _Said:
    """A user's message, and what the wizard did after it."""

    text: str
    flow: str | None
    begun: list[str] = field(default_factory=list)
    returned: bool = False
    refused: bool = False
    answered: bool = False
    worked: bool = False
    """Whether the wizard gave a known reply or queried an API; else nothing tells what it worked on."""
    shared: set[str] = field(default_factory=set)
    """Tasks that the first reply works for, where it works for several."""
    certain: bool = True


class _Dialogue:
    """Follows the wizard from task to task."""

    def __init__(self, tasks: Collection[str], owners: Mapping[str, set[str]], able: Collection[str]) -> None:
        self._tasks, self._owners, self._able = tasks, owners, set(able)
        self._earlier: set[str] = set()
        self._open: list[_Said] = []  # messages since one that may have asked for the first task
        self.flow: str | None = None

    def hear(self, event: Mapping[str, Any], said: _Said) -> None:
        """Take in what the wizard did after a message."""
        match event["Action"]:
            case "select_task":
                self._begin(event["Task"], said)
            case "query":
                said.worked = True
                if event["APIName"] in self._tasks:
                    self._begin(event["APIName"], said)
            case "pick_suggestion" | "utter":
                self._reply(event.get("ActionLabel") or _FREE, said)

    def _reply(self, reply: str, said: _Said) -> None:
        said.answered = True
        said.worked |= reply != _FREE
        said.refused |= reply == _REFUSED
        owners = self._owners.get(reply, set()) & self._able
        if len(owners) == 1:
            self._begin(next(iter(owners)), said)
        elif owners and not said.shared:
            said.shared = owners

    def move_on(self, said: _Said) -> None:
        """The wizard has done what it does after a message."""
        maybe = said.shared or (said.answered and not said.worked)
        if self.flow is None and (self._open or maybe):
            self._open.append(said)

    def _begin(self, task: str, said: _Said) -> None:
        if task not in self._tasks:
            raise BadRowError(f"Unknown task {task!r}: the folder 'tasks' has none such")
        if task == self.flow:
            return
        place = said
        if self.flow is None and self._open:
            place = self._first(task, said)
        place.returned |= task in self._earlier
        place.begun.append(task)
        self._earlier.add(task)
        self.flow = task

    def _first(self, task: str, said: _Said) -> _Said:
        """The message that the first task began with: where a question was asked that belongs to it."""
        first, *later = self._open
        if first.shared and task not in first.shared:
            return said
        if not first.shared:
            # One of these messages asked for the task, and the source does not say which.
            for other in (*self._open, said):
                other.certain = False
            return said
        for other in (*later, said):
            other.flow = task
        return first


def _label_turns(
    data: Mapping[str, Any], tasks: Collection[str], owners: Mapping[str, set[str]]
) -> tuple[LabelledTurn, ...]:
    """The messages of a dialogue, and the labels of the user's.

    Raises:
        BadRowError: a task is unknown, or nobody says anything.
        KeyError: an event lacks a key.
    """
    able = [item["Task"] for item in data["Scenario"]["WizardCapabilities"]]
    dialogue = _Dialogue(tasks, owners, able)
    order: list[_Said | str] = []
    said: _Said | None = None
    for event in data["Events"]:
        agent, action = event["Agent"], event["Action"]
        text = str(event.get("Text") or "").strip()
        if len(text) > MAX_TEXT:
            raise BadRowError(f"A text has {len(text):,} characters; {MAX_TEXT:,} are the limit")
        if agent == "User" and action == "utter" and text:
            if said is not None:
                dialogue.move_on(said)
            said = _Said(text, dialogue.flow)
            order.append(said)
        elif agent == "Wizard":
            if said is not None:
                dialogue.hear(event, said)
            if action in ("pick_suggestion", "utter") and text:
                order.append(text)
    if said is None:
        raise BadRowError("The user says nothing")
    return tuple(
        LabelledTurn(role=MessageRole.ASSISTANT, text=item)
        if isinstance(item, str)
        else _turn(item, several=len(able) > 1)
        for item in order
    )


def _turn(said: _Said, *, several: bool) -> LabelledTurn:
    before = running(said.flow)
    unknown = not said.worked and not said.begun and (several or said.flow is None)
    doubtful = unknown or not said.certain
    if not said.answered or doubtful:
        return LabelledTurn(role=MessageRole.USER, text=said.text, before=before)
    refused = said.refused and not said.begun
    intent = OUT_OF_SCOPE if refused else (said.begun[0] if said.begun else None)
    tags = ["switch"] * bool(said.begun and said.flow) + ["return"] * said.returned + [OUT_OF_SCOPE] * refused
    labels = Labels(flows=tuple(dict.fromkeys(said.begun)), intent=intent)
    return LabelledTurn(role=MessageRole.USER, text=said.text, before=before, labels=labels, tags=tuple(tags))
