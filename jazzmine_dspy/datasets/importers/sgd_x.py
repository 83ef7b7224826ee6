"""SGD-X: the dialogues of SGD over its paraphrased schemas, whose services, intents and slots have other names."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers import sgd
from jazzmine_dspy.datasets.importers.importer import importer
from jazzmine_dspy.datasets.importers.source_reader import SourceReader
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow

_SCHEMA = "schema.json"

Names = dict[str, tuple[str, Mapping[str, str]]]
"""For each service of SGD its name in the variant, and there the names of its intents and slots."""


@importer(
    "sgd_x",
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
def read(reader: SourceReader) -> Sequence[Flow]:
    """Read the schemas of a variant, and the dialogues of SGD three folders above, as the source publishes them."""
    flows: dict[str, Flow] = {}
    names: Names = {}
    originals = [_original(part.path) for part in reader.parts]
    for part, original in zip(reader.parts, originals, strict=True):
        schemas = [reader.document(path / _SCHEMA) for path in (original, part.path)]
        names |= _names(schemas[0], schemas[1], part.path)
        flows |= {flow.name: flow for flow in sgd.schema_flows(part.path / _SCHEMA, reader)}
    translate = functools.partial(_translated, names=names)
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


def _names(schema: Sequence[Any], variant: Sequence[Any], path: Path) -> Names:
    try:
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
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetError(
            f"The variant's schema is not of the same services as SGD's ({error})",
            where=str(path / _SCHEMA),
            remedy="Restore the source's schema.",
        ) from error


def _translated(turns: Sequence[Any], names: Names) -> list[Any]:
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
