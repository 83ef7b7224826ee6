"""Disfl-QA: questions in which the speaker corrects himself, and the questions meant; a JSON object of pairs."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.datasets.importers.importer import importer, single
from jazzmine_dspy.datasets.importers.source_reader import SourceReader, named_files, one_file
from jazzmine_dspy.datasets.schema import Labels
from jazzmine_dspy.models.flows import Flow


@importer(
    "disfl_qa",
    title="Disfl-QA",
    source="github.com/google-research-datasets/Disfl-QA",
    licence="CC BY 4.0",
    derived=(
        "One conversation of one message for each pair: the disfluent question, and as enhanced the original.",
    ),
    left_out=("No flows, commands, intents or sentiments, which the source does not label.",),
    layout=named_files(".json"),
)
def disfl_qa(reader: SourceReader) -> Sequence[Flow]:
    """Read objects of pairs by the id of their question in SQuAD."""
    for part in reader.parts:
        path = one_file(part, ".json")
        for name, rows in reader.members(path).items():
            for line, pair in rows:
                with reader.row(path, line):
                    labels = Labels(enhanced=pair["original"].strip())
                    reader.add(
                        part, single(f"disfl_qa-{part.name}-{name}", pair["disfluent"].strip(), labels)
                    )
    return []
