"""TREC CAsT 2019 and 2020: questions on a topic, one after the other, with their rewrites; a JSON list of topics."""

from __future__ import annotations

from collections.abc import Sequence

from jazzmine_dspy.datasets.importers.importer import importer, user
from jazzmine_dspy.datasets.importers.source_reader import SourceReader, one_part
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.models.flows import Flow

_RESOLVED = "evaluation_topics_annotated_resolved_v1.0.tsv"


@importer(
    "treccast",
    title="TREC CAsT",
    source="github.com/daltonj/treccastweb",
    licence="MIT",
    derived=(
        "One conversation for each topic; its questions are the messages.",
        "enhanced: the manual rewrite, of 2020 from the topic, of 2019 from the file of resolved questions.",
    ),
    left_out=(
        "The answers: the source names documents, so the assistant says nothing.",
        "No flows, commands, intents or sentiments, which the source does not label.",
    ),
    layout=one_part(),
)
def treccast(reader: SourceReader) -> Sequence[Flow]:
    """Read files of topics, of 2019 with the file of resolved questions near them."""
    path = reader.beside(_RESOLVED)
    pairs = (line.partition("\t") for _, line in reader.lines(path)) if path else ()
    resolved = {number: text.strip() for number, _, text in pairs}
    for part in reader.parts:
        for path in sorted(part.path.glob("*topics*.json")) if part.path.is_dir() else [part.path]:
            for line, topic in reader.elements(path):
                with reader.row(path, line):
                    turns = tuple(
                        user(
                            item["raw_utterance"],
                            enhanced=item.get("manual_rewritten_utterance")
                            or resolved[f"{topic['number']}_{item['number']}"],
                        )
                        for item in topic["turn"]
                    )
                    reader.add(
                        part, LabelledConversation(id=f"treccast-{part.name}-{topic['number']}", turns=turns)
                    )
    return []
