"""CANARD: questions about a Wikipedia section in a conversation, with their rewrites; a JSON list of questions."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.datasets.importers.importer import assistant, importer, user
from jazzmine_dspy.datasets.importers.source_reader import SourceReader, named_files, one_file
from jazzmine_dspy.datasets.schema import LabelledConversation, LabelledTurn, StateBefore
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.turn import EntityView


@importer(
    "canard",
    title="CANARD",
    source="github.com/aagohary/canard (data/release)",
    licence="CC BY-SA 4.0",
    derived=(
        "One conversation for each QuAC dialogue; a question is a message, its rewrite the label enhanced, and the "
        "answers between are the assistant's messages.",
        "before.entities: the title of the page, with the section's title as its attribute.",
    ),
    left_out=("No flows, commands, intents or sentiments: the source labels rewrites alone.",),
    layout=named_files(".json"),
)
def canard(reader: SourceReader) -> Sequence[Flow]:
    """Read lists of questions with their history."""
    for part in reader.parts:
        path = one_file(part, ".json")
        chats: dict[str, list[LabelledTurn]] = {}
        for line, item in reader.elements(path):
            with reader.row(path, line):
                title, section, *history = item["History"]
                before = StateBefore(entities=(EntityView(name=title, attributes=(section,)),))
                question = user(item["Question"], before, enhanced=item["Rewrite"])
                turns = chats.setdefault(item["QuAC_dialog_id"], [])
                turns += [assistant(history[-1]), question] if turns and history else [question]
        for name, turns in chats.items():
            reader.add(part, LabelledConversation(id=f"canard-{part.name}-{name}", turns=tuple(turns)))
    return []
