"""Rasa NLU training data: YAML with the examples of each intent, and entities marked inside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from jazzmine_dspy.datasets.importers.importer import importer, labels_in, of_label, single, text_slots, words
from jazzmine_dspy.datasets.importers.source_reader import SourceReader, one_part
from jazzmine_dspy.models.commands import Command, SetSlot, StartFlow
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.parsing import from_json

_ENTITY = re.compile(r"\[(?P<text>[^\]]+)\](?:\((?P<name>[^)]+)\)|(?P<facts>\{[^}]+\}))")
_NO_FLOW = {"out_of_scope", "nlu_fallback"}


@importer(
    "rasa_nlu",
    title="Rasa NLU training data",
    source="a Rasa project (data/nlu.yml)",
    licence="the project's own",
    derived=(
        "One conversation of one message for each example of an intent; its flow and its intent are the intent, before "
        "a slash where it has one.",
        "The intents out_of_scope and nlu_fallback mean that no flow is meant: flows is empty.",
        "One flow for each other intent, described by its name as words; its slots are the entities that its examples "
        "mark, as texts that may be missing. Commands: the start of the flow, then the entities' values.",
    ),
    left_out=(
        "Synonyms, lookup tables, regular expressions, roles and groups of entities.",
        "No rewrites, sentiments and states, which the source does not label.",
    ),
    layout=one_part("data"),
)
def rasa_nlu(reader: SourceReader) -> Sequence[Flow]:
    """Read YAML files; files without the key ``nlu`` are passed over."""
    slots: dict[str, set[str]] = {}
    for part in reader.parts:
        for path in yaml_files(part.path):
            for number, (line, intent, raw) in enumerate(_examples(reader, path), start=1):
                with reader.row(path, line):
                    text, values = _ENTITY.sub(r"\g<text>", raw), dict(map(_value, _ENTITY.finditer(raw)))
                    labels = of_label(None if intent in _NO_FLOW else intent)
                    commands: list[Command] = [StartFlow(flow=flow) for flow in labels.flows or ()]
                    commands += [
                        SetSlot(name=name, value=value) for name, value in values.items() if commands
                    ]
                    labels = labels.model_copy(update={"commands": tuple(commands) or None})
                    reader.add(part, single(f"rasa_nlu-{part.name}-{path.stem}-{number:05d}", text, labels))
                    slots.setdefault(intent, set()).update(values)
    return [
        Flow(name=name, description=words(name), slots=text_slots(slots[name]))
        for name in sorted(labels_in(reader))
    ]


def yaml_files(path: Path) -> list[Path]:
    """A file, or the YAML files in a folder."""
    return sorted([*path.rglob("*.yml"), *path.rglob("*.yaml")]) if path.is_dir() else [path]


def yaml_node(reader: SourceReader, path: Path) -> Any:
    """A YAML file as a tree of nodes, which know their lines; a file that is not YAML is left out."""
    try:
        return yaml.compose(reader.text(path), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reader.bad(
            path, mark.line + 1 if mark else 1, f"The file is not YAML: {getattr(error, 'problem', error)}"
        )
        return None


def members(node: Any) -> dict[str, Any]:
    """The values of a mapping by key; empty for any other node."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {str(key.value): value for key, value in pairs}


def elements(node: Any) -> list[Any]:
    """The elements of a list; empty for any other node."""
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _examples(reader: SourceReader, path: Path) -> Iterator[tuple[int, str, str]]:
    """Each example with its line and its intent."""
    for node in elements(members(yaml_node(reader, path)).get("nlu")):
        facts = members(node)
        if "intent" not in facts or "examples" not in facts:
            continue  # synonyms, lookup tables and the like
        intent, block = facts["intent"].value.partition("/")[0], facts["examples"]
        if not isinstance(block, yaml.ScalarNode):
            reader.bad(
                path, block.start_mark.line + 1, f"The examples of {intent!r} are not a text with a line each"
            )
            continue
        for number, raw in enumerate(block.value.splitlines(), start=block.start_mark.line + 2):
            if raw.strip().startswith("-"):
                yield number, intent, raw.strip().removeprefix("-").strip()


def _value(match: re.Match[str]) -> tuple[str, str]:
    if match["facts"] is None:
        name, _, value = match["name"].partition(":")
        return name, value or match["text"]
    facts = from_json(match["facts"])
    return facts["entity"], facts.get("value", match["text"])
