"""MultiWOZ 2.2: dialogues over hotels, trains and other services, in SGD's form without the acts of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.datasets.importers import sgd
from jazzmine_dspy.datasets.importers.importer import importer
from jazzmine_dspy.datasets.importers.source_reader import SourceReader
from jazzmine_dspy.models.flows import Flow


@importer(
    "multiwoz22",
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
def multiwoz22(reader: SourceReader) -> Sequence[Flow]:
    """Read folders of dialogues; ``schema.json`` lies in the folder above."""
    flows = sgd.flows_of(reader)
    for part in reader.parts:
        sgd.read_dialogues(reader, part, part.path, flows, prefix="multiwoz22", translate=_translated)
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


def _translated(turns: Sequence[Any]) -> list[Any]:
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
