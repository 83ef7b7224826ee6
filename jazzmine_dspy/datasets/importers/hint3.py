"""HINT3: messages to three real bots; CSV with ``sentence`` and ``label``, one bot an import."""

from __future__ import annotations

from pathlib import Path

from jazzmine_dspy.datasets.importers.intake import BadRowError, Intake
from jazzmine_dspy.datasets.importers.kinds import importer
from jazzmine_dspy.datasets.importers.source import (
    Gathered,
    PartName,
    Source,
    label_flows,
    of_label,
    single,
    unseen,
)
from jazzmine_dspy.datasets.schema import LabelledConversation
from jazzmine_dspy.models.errors import DatasetError

NOTHING_FITS = "NO_NODES_DETECTED"


def layout(src: Path) -> dict[PartName, Path]:
    """A bot's training file, and its test file in the folder ``test`` beside ``train``."""
    inner = src / "train"
    train = _one_bot(inner if inner.is_dir() else src)
    test = train.parent.parent / "test" / train.name.replace("_train", "_test")
    there: dict[PartName, Path] = {"train": train}
    return there | ({"test": test} if test.is_file() and test != train else {})


def _one_bot(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = sorted(path.glob("*.csv"))
    if len(files) != 1:
        raise DatasetError(
            f"The folder has {len(files)} CSV files" + ": each is another bot" * (len(files) > 1),
            where=str(path),
            remedy="Name one bot's file; bots do not share their labels.",
        )
    return files[0]


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
def hint3(source: Source, intake: Intake) -> Gathered:
    """Read CSV files of one bot; the label NO_NODES_DETECTED says that no flow is meant."""
    conversations: dict[PartName, list[LabelledConversation]] = {}
    seen: dict[PartName, set[str]] = {}
    for part in source.parts:
        path = _one_bot(part.path)
        rows = conversations.setdefault(part.name, [])
        labels = seen.setdefault(part.name, set())
        for line, (text, raw) in intake.records(path, ("sentence", "label")):
            with intake.row(path, line):
                label = raw.strip()
                if not label:
                    raise BadRowError("No label")
                nothing = label == NOTHING_FITS
                rows.append(
                    single(f"hint3-{part.name}-{line:05d}", text, of_label(None if nothing else label))
                )
                labels.update(() if nothing else (label,))
    return Gathered(label_flows(set().union(*seen.values())), conversations, unseen(seen))
