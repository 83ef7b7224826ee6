"""GECOR: restaurant dialogues (CamRest676) whose messages leave something out, with the complete messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.importers.importer import assistant, importer, running, slot_command, user
from jazzmine_dspy.datasets.importers.source_reader import PartName, SourceReader
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn
from jazzmine_dspy.models.commands import Ask, Command, StartFlow
from jazzmine_dspy.models.flows import Flow, Slot

FLOW = "find_restaurant"
_SLOTS = {"food": "Kind of food", "area": "Part of town", "pricerange": "Price range"}
_ANY = "dontcare"
_VARIANTS = ("transcript_with_ellipsis", "transcript_with_coreference")


def layout(src: Path) -> dict[PartName, Path]:
    """The source has one file: all dialogues are for training."""
    return {"train": src / "CamRest676_annotated.json" if src.is_dir() else src}


@importer(
    "gecor",
    title="GECOR (CamRest676)",
    source="github.com/terryqj0107/GECOR",
    licence="CC BY 4.0",
    derived=(
        "One conversation for each dialogue. A message is its variant with an ellipsis or with a coreference: of two "
        "the first in even turns, the second in odd ones; without any it is the transcript. enhanced is the complete "
        "message.",
        f"One flow, {FLOW}, with the slots food, area and pricerange as texts; it starts with the first value.",
        "before: the flow once it has started, and its values. Commands: values set, corrected or skipped (dontcare), "
        "and ask for each requested slot.",
    ),
    left_out=(
        "Messages without any of these commands have no commands: the source does not label yes, no and thanks.",
        "A value that a state no longer lists; sentiments and intents.",
    ),
    layout=layout,
)
def gecor(reader: SourceReader) -> Sequence[Flow]:
    """Read lists of dialogues."""
    for part in reader.parts:
        for line, data in reader.elements(part.path):
            with reader.row(part.path, line):
                turns: list[LabelledTurn] = []
                values: dict[str, str] = {}
                for item in data["dial"]:
                    turns.append(_user(item["usr"], item["turn"], values))
                    turns += [assistant(item["sys"]["sent"])] if item["sys"]["sent"].strip() else []
                name = f"gecor-{part.name}-{data['dialogue_id']}"
                reader.add(part, LabelledConversation(id=name, turns=tuple(turns)))
    slots = tuple(
        Slot(name=name, type="text", description=text, required=False) for name, text in _SLOTS.items()
    )
    return [Flow(name=FLOW, description="Find a restaurant.", slots=slots)]


def _user(item: Mapping[str, Any], number: int, values: dict[str, str]) -> LabelledTurn:
    """A message with its labels; adds its values to those of the dialogue."""
    variants = [item[name] for name in _VARIANTS if item[name].strip()]
    text = variants[number % len(variants)] if variants else item["transcript"]
    given = {value for act in item["slu"] if act["act"] == "inform" for value in map(tuple, act["slots"])}
    asked = [value for act in item["slu"] if act["act"] == "request" for _, value in act["slots"]]
    new = {name: value for name, value in sorted(given) if name in _SLOTS and values.get(name) != value}
    current = {name: value for name, value in values.items() if value != _ANY}
    before = running(FLOW if values else None, current)
    commands: list[Command] = [StartFlow(flow=FLOW)] if new and not values else []
    commands += [slot_command(name, None if value == _ANY else value, current) for name, value in new.items()]
    commands += [Ask(topic=slot) for slot in dict.fromkeys(asked) if slot != _ANY]
    flows = (FLOW,) if new and not values else ()
    values.update(new)
    enhanced = item["transcript_complete"].strip()
    return user(text, before, enhanced=enhanced, flows=flows, commands=tuple(commands) or None)
