"""SGD over other schemas: SGD-X with paraphrased names, and MultiWOZ 2.2 without the acts of a turn."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from importers import sgd
from importers.source import PublicReader, source
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow

_SCHEMA = "schema.json"

Names = dict[str, tuple[str, Mapping[str, str]]]
"""For each service of SGD its name in the variant, and there the names of its intents and slots."""


@source(
    title="SGD-X, one variant",
    source="github.com/google-research-datasets/dstc8-schema-guided-dialogue (sgd_x)",
    licence="CC BY-SA 4.0",
    derived=(
        "Conversations, states and labels as the importer sgd derives them from the dialogues of SGD.",
        "Flows from the variant's schema: names and descriptions of services, intents and slots are those of the "
        "variant; the n-th of each takes the place of SGD's n-th.",
    ),
    left_out=(
        "What the importer sgd leaves out.",
        "The texts do not change with the schema: they are those of SGD.",
    ),
    layout=sgd.layout,
)
def sgd_x(reader: PublicReader) -> Sequence[Flow]:
    """Read the schemas of a variant, and the dialogues of SGD three folders above, as the source publishes them."""
    flows: dict[str, Flow] = {}
    names: Names = {}
    originals = [_original(part.path) for part in reader.parts]
    for part, original in zip(reader.parts, originals, strict=True):
        schemas = [reader.document(path / _SCHEMA) for path in (original, part.path)]
        names |= _names(*schemas)
        flows |= {flow.name: flow for flow in sgd.schema_flows(part.path / _SCHEMA, reader)}
    translate = functools.partial(_in_variant, names=names)
    for part, original in zip(reader.parts, originals, strict=True):
        sgd.read_dialogues(reader, part, original, flows, prefix="sgd_x", translate=translate)
    sgd.note_unlabelled(reader)
    return list(flows.values())


def _original(path: Path) -> Path:
    """The folder of SGD with the dialogues of a part."""
    for folder in path.resolve().parents:
        if (folder / path.name / _SCHEMA).is_file() and any((folder / path.name).glob("dialogues_*.json")):
            return folder / path.name
    raise DatasetError(
        f"The dialogues of SGD's part {path.name!r} are not above the variant",
        where=str(path),
        remedy="Name the folder sgd_x/data/vN inside the source's repository, as it is published.",
    )


def _names(schema: Sequence[Any], variant: Sequence[Any]) -> Names:
    return {
        one["service_name"]: (
            other["service_name"],
            {
                old["name"]: new["name"]
                for kind in ("intents", "slots")
                for old, new in zip(one[kind], other[kind], strict=True)
            },
        )
        for one, other in zip(schema, variant, strict=True)
    }


def _in_variant(turns: Sequence[Any], names: Names) -> list[Any]:
    """The turns with the names of the variant."""
    return [
        turn | {"frames": [_frame(frame, *names[frame["service"]]) for frame in turn["frames"]]}
        for turn in turns
    ]


def _frame(frame: Mapping[str, Any], service: str, names: Mapping[str, str]) -> dict[str, Any]:
    actions = [action | {"slot": names.get(action["slot"], action["slot"])} for action in frame["actions"]]
    changed = {**frame, "service": service, "actions": actions}
    if (state := frame.get("state")) is not None:
        values = {names[slot]: listed for slot, listed in state["slot_values"].items()}
        intent = names.get(state["active_intent"], state["active_intent"])
        changed["state"] = {**state, "active_intent": intent, "slot_values": values}
    return changed


@source(
    title="MultiWOZ 2.2",
    source="github.com/budzianowski/multiwoz (data/MultiWOZ_2.2)",
    licence="MIT",
    derived=(
        "One conversation for each dialogue; one flow for each intent of each service, named SERVICE.INTENT, with the "
        "schema's descriptions and slots.",
        "before: the active intent of the user's turn before, and the values of its slots.",
        "flows: the intent that became active with the message; empty where it stayed.",
        "Commands: the start of a flow, with the values that the dialogue's state gives its slots; values set, "
        "corrected, taken back, and skipped (dontcare); ask for each requested slot.",
    ),
    left_out=(
        "Messages without any of these commands have no commands: the files do not label yes, no, thanks and small "
        "talk.",
        "The slot that the system asks for, confirmations, and which flows are paused or finished.",
        "Of a message that starts flows of two services the second start; rewrites, sentiments and intents.",
    ),
    layout=sgd.layout,
)
def multiwoz22(reader: PublicReader) -> Sequence[Flow]:
    """Read folders of dialogues; ``schema.json`` lies in the folder above."""
    flows = sgd.flows_of(reader)
    for part in reader.parts:
        sgd.read_dialogues(reader, part, part.path, flows, prefix="multiwoz22", translate=_with_requests)
    for conversations in reader.conversations.values():
        for number, conversation in enumerate(conversations):
            turns = [
                turn.model_copy(update={"labels": turn.labels.model_copy(update={"commands": None})})
                if turn.labels and not turn.labels.commands
                else turn
                for turn in conversation.turns
            ]
            conversations[number] = conversation.model_copy(update={"turns": tuple(turns)})
    sgd.note_unlabelled(reader)
    return list(flows.values())


def _with_requests(turns: Sequence[Any]) -> list[Any]:
    """The turns with the requested slots of the state as acts; a message without frames has those of the one before."""
    frames: list[Any] = []
    translated = []
    for turn in turns:
        if turn["speaker"] != "USER":
            translated.append({**turn, "frames": []})
            continue
        frames = turn["frames"] or [
            {**frame, "state": {**frame["state"], "requested_slots": []}} for frame in frames
        ]
        with_acts = [
            {
                **frame,
                "actions": [{"act": "REQUEST", "slot": slot} for slot in frame["state"]["requested_slots"]],
            }
            for frame in frames
        ]
        translated.append({**turn, "frames": with_acts})
    return translated
