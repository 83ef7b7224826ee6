"""STAR: talks of a user with a wizard who carries out tasks; one JSON file a dialogue, one folder a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers._star_turns import Tasks, label_turns
from jazzmine_dspy.datasets.importers.intake import BadRowError, Intake
from jazzmine_dspy.datasets.importers.kinds import importer
from jazzmine_dspy.datasets.importers.source import Gathered, PartName, Source, words
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow, Slot
from jazzmine_dspy.models.parsing import MalformedError, from_json

_ONLY_ABLE = "I am only able to "
_TYPES = {
    "Boolean": "boolean",
    "Date": "date",
    "Integer": "number",
    "Time": "time",
}


def layout(src: Path) -> dict[PartName, Path]:
    """The source has no parts: all dialogues are for training."""
    inner = src / "dialogues"
    return {"train": inner if inner.is_dir() else src}


@importer(
    "star",
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
    layout=layout,
)
def star(source: Source, intake: Intake) -> Gathered:
    """Read folders of dialogues; the folder ``tasks`` near them says which tasks there are."""
    folder = source.beside("tasks")
    if folder is None:
        raise DatasetError(
            "There is no folder 'tasks' near the dialogues",
            where=source.where,
            remedy="Name the folder that holds it as SRC.",
        )
    files = sorted(
        path for path in folder.glob("*/*.json") if path.name not in ("responses.json", "template.json")
    )
    described = {path.parent.name: (path, intake.document(path)) for path in files}
    replies: dict[str, dict[str, str]] = {}
    for name, (path, data) in described.items():
        if not isinstance(data, dict) or not isinstance(data.get("replies"), dict):
            raise DatasetError(
                "The task has no replies", where=str(path), remedy="Restore the source's file."
            )
        replies[name] = data["replies"]
    if not replies:
        raise DatasetError(
            "The folder 'tasks' holds no task", where=str(folder), remedy="Restore the source's folder."
        )
    slots = _slots(source.beside("apis"), intake)
    tasks = Tasks(replies)
    conversations: dict[PartName, list[LabelledConversation]] = {}
    for part in source.parts:
        rows = conversations.setdefault(part.name, [])
        for path in _dialogues(part.path):
            text = intake.text(path)
            try:
                data = from_json(text)
            except MalformedError as error:
                intake.bad(path, error.line or 1, "The dialogue is not JSON")
                continue
            with intake.row(path, 1):
                if not isinstance(data, dict) or not isinstance(data.get("Events"), list):
                    raise BadRowError("The file is no dialogue: it has no Events")
                turns = label_turns(data, tasks)
                rows.append(LabelledConversation(id=f"star-{part.name}-{path.stem}", turns=turns))
    flows = [
        Flow(
            name=name,
            description=_description(name, replies[name]),
            category=name.partition("_")[0],
            slots=slots.get(name, ()),
        )
        for name in sorted(replies)
    ]
    return Gathered(flows, conversations)


def _dialogues(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inner = path / "dialogues"
    files = (inner if inner.is_dir() else path).glob("*.json")
    return sorted(files, key=lambda file: (len(file.stem), file.stem))


def _description(name: str, replies: dict[str, str]) -> str:
    """What the task says of itself where it refuses anything else, or its name as words."""
    _, found, able = str(replies.get("out_of_scope", "")).partition(_ONLY_ABLE)
    able = able.strip().removeprefix("help you with ").removeprefix("help you to ").removeprefix("help you ")
    return able[:1].upper() + able[1:] if found and able else words(name)


def _slots(folder: Path | None, intake: Intake) -> dict[str, tuple[Slot, ...]]:
    found: dict[str, tuple[Slot, ...]] = {}
    for path in sorted(folder.rglob("*.json")) if folder else ():
        with intake.row(path, 1):
            data = intake.document(path)
            required = set(data.get("required", ()))
            found[path.stem] = tuple(_slot(item, required) for item in data["input"])
    return found


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
