"""HINT3: messages to three real bots; CSV with ``sentence`` and ``label``, one bot an import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jazzmine_dspy.datasets.importers.importer import (
    importer,
    label_flows,
    labels_in,
    of_label,
    only_file,
    single,
)
from jazzmine_dspy.datasets.importers.source_reader import BadRowError, PartName, SourceReader
from jazzmine_dspy.models.flows import Flow

NOTHING_FITS = "NO_NODES_DETECTED"


def layout(src: Path) -> dict[PartName, Path]:
    """A bot's training file, and its test file in the folder ``test`` beside ``train``."""
    inner = src / "train"
    train = _one_bot(inner if inner.is_dir() else src)
    test = train.parent.parent / "test" / train.name.replace("_train", "_test")
    there: dict[PartName, Path] = {"train": train}
    return there | ({"test": test} if test.is_file() and test != train else {})


def _one_bot(path: Path) -> Path:
    return only_file(
        path, "*.csv", "Name one bot's file: each is another bot, and bots do not share their labels."
    )


@importer(
    "hint3",
    title="HINT3, one bot",
    source="github.com/hellohaptik/HINT3 (dataset)",
    licence="ODbL 1.0, contents DbCL 1.0",
    derived=(
        "One conversation of one message for each row; the message's flow and its intent are the row's label.",
        f"The label {NOTHING_FITS} means that no flow is meant: flows is empty, and the intent out_of_scope.",
        "One flow for each label; its description is the label as words.",
    ),
    left_out=("No slots, commands, rewrites or sentiments, which the source does not label.",),
    layout=layout,
    # About half of what users wrote to the three bots, the published test parts, fits none of the intents; the
    # training parts were written by those who built the bots, and have no such message.
    out_of_scope_share=0.5,
)
def hint3(reader: SourceReader) -> Sequence[Flow]:
    """Read CSV files of one bot; the label NO_NODES_DETECTED means that no flow is wanted."""
    for part in reader.parts:
        path = _one_bot(part.path)
        for line, (text, raw) in reader.csv(path, ("sentence", "label")):
            with reader.row(path, line):
                label = raw.strip()
                if not label:
                    raise BadRowError("No label")
                labels = of_label(None if label == NOTHING_FITS else label)
                reader.add(part, single(f"hint3-{part.name}-{line:05d}", text, labels))
    return label_flows(labels_in(reader))
