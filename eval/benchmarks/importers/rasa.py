"""Rasa projects: NLU training data with marked entities, and end-to-end tests of CALM assistants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from importers.labels import assistant, labels_in, of_label, running, single, slot_command, text_slots, user
from importers.source import PublicReader, one_part, source
from jazzmine_dspy.datasets.importers.source_reader import BadRowError
from jazzmine_dspy.datasets.importers.writer import words
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.commands import Command, SetSlot, StartFlow
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.parsing import from_json

_ENTITY = re.compile(r"\[(?P<text>[^\]]+)\](?:\((?P<name>[^)]+)\)|(?P<facts>\{[^}]+\}))")
_NO_FLOW = {"out_of_scope", "nlu_fallback"}


@source(
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
def rasa_nlu(reader: PublicReader) -> Sequence[Flow]:
    """Read YAML files; files without the key ``nlu`` are passed over."""
    slots: dict[str, set[str]] = {}
    for part in reader.parts:
        for path in yaml_files(part.path):
            for number, (line, intent, raw) in enumerate(_examples(reader, path), start=1):
                with reader.row(path, line):
                    text, values = _ENTITY.sub(r"\g<text>", raw), dict(map(_entity, _ENTITY.finditer(raw)))
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


def yaml_node(reader: PublicReader, path: Path) -> Any:
    """A YAML file as a tree of nodes, which know their lines; a file that is not YAML is left out."""
    try:
        return yaml.compose(reader.bytes(path), Loader=yaml.SafeLoader)
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


def _examples(reader: PublicReader, path: Path) -> Iterator[tuple[int, str, str]]:
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


def _entity(match: re.Match[str]) -> tuple[str, str]:
    if match["facts"] is None:
        name, _, value = match["name"].partition(":")
        return name, value or match["text"]
    facts = from_json(match["facts"])
    return facts["entity"], facts.get("value", match["text"])


_FINISHED = ("flow_completed", "flow_cancelled")


@source(
    title="Rasa CALM end-to-end tests",
    source="a Rasa project (e2e_tests)",
    licence="the project's own",
    derived=(
        "One conversation for each test case; messages of the user, and those of the bot that are written out.",
        "before: the flow that is asserted to run, and its values. flows and commands of a message: the flows that it "
        "is asserted to start (flow_started), then the slots that are asserted to be set until the next message "
        "(slot_was_set).",
        "One flow for each that is started, described by its name as words; its slots are those set while it runs, as "
        "texts that may be missing.",
    ),
    left_out=(
        "A message without such an assertion has no labels: a test need not assert all that happens.",
        "Responses that are named and not written out, fixtures, metadata and other assertions.",
        "Which flows are paused; rewrites, sentiments and intents.",
    ),
    layout=one_part("e2e_tests", "tests"),
)
def calm_e2e(reader: PublicReader) -> Sequence[Flow]:
    """Read YAML files; files without the key ``test_cases`` are passed over."""
    slots: dict[str, set[str]] = {}
    for part in reader.parts:
        for path in yaml_files(part.path):
            for case in elements(members(yaml_node(reader, path)).get("test_cases")):
                with reader.row(path, case.start_mark.line + 1):
                    facts = members(case)
                    turns = tuple(_turns(elements(facts["steps"]), slots))
                    if not any(turn.role == "user" for turn in turns):
                        raise BadRowError("The user says nothing")
                    name = f"calm_e2e-{part.name}-{path.stem}-{words(facts['test_case'].value)}"
                    reader.add(part, LabelledConversation(id=name.replace(" ", "-"), turns=turns))
    return [
        Flow(name=name, description=words(name), slots=text_slots(slots.get(name, ())))
        for name in sorted(labels_in(reader))
    ]


def _turns(steps: Sequence[Any], slots: dict[str, set[str]]) -> Iterator[LabelledTurn]:
    """The messages of a test case; adds the slots that are set to those of the running flow."""
    flow: str | None = None
    current: dict[str, str] = {}
    while steps:
        facts, *steps = [members(steps[0]), *steps[1:]]
        if "bot" in facts:
            yield assistant(facts["bot"].value)
        if "user" not in facts:
            continue
        # What is asserted of a message stands in its step, or in the steps up to the next message.
        later = 0
        while later < len(steps) and not {"user", "bot"} & set(members(steps[later])):
            later += 1
        asserted = [
            (kind, node)
            for step in [*elements(facts.get("assertions")), *steps[:later]]
            for kind, node in members(step).items()
        ]
        flows = [
            str((members(node)["flow_id"] if members(node) else node).value)
            for kind, node in asserted
            if kind == "flow_started"
        ]
        values = {
            name: value for kind, node in asserted if kind == "slot_was_set" for name, value in _values(node)
        }
        before = running(flow, current)
        if flows:
            flow, current = flows[-1], {}
        commands: list[Command] = [StartFlow(flow=name) for name in flows]
        if flow is not None:
            commands += [slot_command(name, value, current) for name, value in values.items()]
            slots.setdefault(flow, set()).update(values)
            current = current | values
        labels = {"flows": tuple(flows), "commands": tuple(commands)} if commands else {}
        yield user(facts["user"].value, before, **labels)
        if any(kind in _FINISHED for kind, _ in asserted):
            flow, current = None, {}


def _values(node: Any) -> Iterator[tuple[str, str]]:
    """Names and values of slots, as ``name: value`` or as ``{name: …, value: …}``."""
    for element in elements(node):
        facts = members(element)
        if {"name", "value"} <= set(facts):
            yield facts["name"].value, facts["value"].value
        else:
            yield from ((name, value.value) for name, value in facts.items() if name != "name")
