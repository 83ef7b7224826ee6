"""SGD: dialogues over services; a schema of services with intents and slots, and JSON lists of dialogues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers._sgd_turns import flow_name, label_turns
from jazzmine_dspy.datasets.importers.intake import BadRowError, Intake
from jazzmine_dspy.datasets.importers.kinds import importer
from jazzmine_dspy.datasets.importers.source import Gathered, PartName, Source
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow, Slot

_SCHEMA = "schema.json"


def layout(src: Path) -> dict[PartName, Path]:
    """The folders ``train``, ``dev`` and ``test``; a folder of dialogues alone is for training."""
    if src.is_dir():
        names: tuple[PartName, ...] = ("train", "dev", "test")
        there: dict[PartName, Path] = {name: src / name for name in names if (src / name).is_dir()}
        if there:
            return there
    return {"train": src}


@importer(
    "sgd",
    title="Schema-Guided Dialogue",
    source="github.com/google-research-datasets/dstc8-schema-guided-dialogue",
    licence="CC BY-SA 4.0",
    derived=(
        "One conversation for each dialogue.",
        "One flow for each intent of each service, named SERVICE.INTENT, with the schema's descriptions; required "
        "and optional slots as the schema has them: those with listed values as choices, or as yes or no where the "
        "values are True and False, all others as texts.",
        "before: the active intent of the user's turn before, the slot that the system asked for, the values held, "
        "and the confirmation that is open; the values that the system proposes in it count as held.",
        "flows: the intent that became active with the message; empty where it stayed.",
        "Commands: affirm and deny of an open confirmation; the start of a flow, with all the values that the "
        "dialogue's state gives its slots; values set, corrected, taken back, and skipped (dontcare); ask for each "
        "slot that the user asks about; small talk for mere thanks and farewells.",
        "A value is written as in the message where the state lists several spellings.",
    ),
    left_out=(
        "Values of slots that the active intent does not have, such as a result that was chosen, until an intent that "
        "has them starts; a message that only sets such values, or asks for other results, has no commands.",
        "Which flows are paused or finished; the date of a dialogue; rewrites, sentiments and intents.",
        "No message is out of scope: an empty list of flows means that the running intent goes on, or none.",
    ),
    layout=layout,
)
def sgd(source: Source, intake: Intake) -> Gathered:
    """Read folders of dialogues, each with its schema; services of the same name are the same service."""
    paths = {path: None for part in source.parts if (path := Source([part], None).beside(_SCHEMA))}
    if not paths and (path := source.beside(_SCHEMA)):
        paths[path] = None
    if not paths:
        raise DatasetError(
            f"There is no {_SCHEMA} beside the dialogues",
            where=source.where,
            remedy="Put the schema into the folder of the dialogues, as its source has it.",
        )
    flows: dict[str, Flow] = {}
    for path in paths:
        for flow in _flows(path, intake):
            if flows.setdefault(flow.name, flow) != flow:
                raise DatasetError(
                    f"The schemas define {flow.name!r} differently",
                    where=str(path),
                    remedy="Import parts of one version of the schema.",
                )
    conversations: dict[PartName, list[LabelledConversation]] = {}
    unlabelled = 0
    for part in source.parts:
        rows = conversations.setdefault(part.name, [])
        seen: set[str] = set()
        for path in _files(part.path):
            for line, data in intake.elements(path):
                with intake.row(path, line):
                    if not isinstance(data, dict) or not isinstance(data.get("turns"), list):
                        raise BadRowError("The element is no dialogue: it has no turns")
                    name = str(data["dialogue_id"])
                    if name in seen:
                        raise BadRowError(f"The dialogue {name!r} was read already")
                    turns = label_turns(data["turns"], flows)
                    conversation = LabelledConversation(id=f"sgd-{part.name}-{name}", turns=turns)
                    rows.append(conversation)
                    seen.add(name)
                    unlabelled += sum(
                        turn.labels is not None and turn.labels.commands is None for turn in turns
                    )
    note = f"Messages without the label commands, since no command says what they do: {unlabelled}."
    return Gathered(list(flows.values()), conversations, [note])


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.glob("*.json") if file.name != _SCHEMA) if path.is_dir() else [path]


def _flows(path: Path, intake: Intake) -> list[Flow]:
    try:
        return [_flow(service, intent) for service in intake.document(path) for intent in service["intents"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DatasetError(
            f"The schema is no list of services with intents and slots ({error})",
            where=str(path),
            remedy="Restore the source's schema.",
        ) from error


def _flow(service: dict[str, Any], intent: dict[str, Any]) -> Flow:
    slots = {slot["name"]: slot for slot in service["slots"]}
    required, optional = list(intent["required_slots"]), list(intent["optional_slots"])
    return Flow(
        name=flow_name(service["service_name"], intent["name"]),
        description=intent["description"],
        category=service["service_name"],
        slots=tuple(_slot(slots[name], name in required) for name in (*required, *optional)),
    )


def _slot(slot: dict[str, Any], required: bool) -> Slot:
    options = tuple(slot["possible_values"]) if slot["is_categorical"] else ()
    if set(options) == {"True", "False"}:
        kind, options = "boolean", ()
    else:
        kind = "choice" if options else "text"
    return Slot(
        name=slot["name"], type=kind, description=slot["description"], required=required, options=options
    )
