"""End-to-end tests of a Rasa CALM assistant: YAML with what a user says, and the flows and slots that follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jazzmine_dspy.datasets.importers.importer import (
    assistant,
    importer,
    labels_in,
    running,
    slot_command,
    text_slots,
    user,
    words,
)
from jazzmine_dspy.datasets.importers.rasa_nlu import elements, members, yaml_files, yaml_node
from jazzmine_dspy.datasets.importers.source_reader import BadRowError, SourceReader, one_part
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.commands import Command, StartFlow
from jazzmine_dspy.models.flows import Flow

_FINISHED = ("flow_completed", "flow_cancelled")


@importer(
    "calm_e2e",
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
def calm_e2e(reader: SourceReader) -> Sequence[Flow]:
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
        flows = [_name(node) for kind, node in asserted if kind == "flow_started"]
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


def _name(node: Any) -> str:
    return str(members(node)["flow_id"].value if members(node) else node.value)


def _values(node: Any) -> Iterator[tuple[str, str]]:
    """Names and values of slots, as ``name: value`` or as ``{name: …, value: …}``."""
    for element in elements(node):
        facts = members(element)
        if {"name", "value"} <= set(facts):
            yield facts["name"].value, facts["value"].value
        else:
            yield from ((name, value.value) for name, value in facts.items() if name != "name")
