"""Messages with one intent each: CLINC150, BANKING77 and HINT3, whose labels become flows."""

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
from jazzmine_dspy.datasets.importers.source_reader import (
    BadRowError,
    Part,
    PartName,
    SourceReader,
    named_files,
    one_file,
)
from jazzmine_dspy.datasets.schema import Labels
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow

_LISTS = {"train": "train", "dev": "val", "dev_a": "val", "dev_b": "val", "test": "test"}
"""The list of each part; the one of the same name with ``oos_`` before it has what is out of scope."""
_OOS = "oos"
_FILES = ("data_full.json", "data_small.json", "data_imbalanced.json", "data_oos_plus.json")


def _clinc150_layout(src: Path) -> dict[PartName, Path]:
    """All parts that one file holds."""
    path = _clinc150_file(src)
    lists = SourceReader().members(path)
    names: tuple[PartName, ...] = ("train", "dev", "test")
    return {name: path for name in names if lists.get(_LISTS[name]) or lists.get(f"oos_{_LISTS[name]}")}


def _clinc150_file(src: Path) -> Path:
    folder = src / "data" if (src / "data").is_dir() else src
    return only_file(folder, "data_*.json", f"Name the one that you mean, such as {_FILES[1]}.")


@importer(
    "clinc150",
    title="CLINC150",
    source="github.com/clinc/oos-eval (data)",
    licence="CC BY 3.0",
    derived=(
        "One conversation of one message for each pair; the message's flow and its intent are the pair's intent.",
        "The intent oos means that no flow is meant: flows is empty, and the intent out_of_scope.",
        "One flow for each intent; its description is the intent as words, its category the domain, where "
        "domains.json lies near.",
    ),
    left_out=("No slots, commands, rewrites or sentiments, which the source does not label.",),
    layout=_clinc150_layout,
    # Its messages out of scope were collected apart, so their number says nothing of a share: a fifth is assumed.
    out_of_scope_share=0.2,
    many_in_one=True,
)
def clinc150(reader: SourceReader) -> Sequence[Flow]:
    """Read the lists of each part; with ``domains.json`` near them, an intent that is not in it is a fault."""
    listed = reader.beside("domains.json", "data")
    domains = (
        {str(name): key for key, rows in reader.members(listed).items() for _, name in rows} if listed else {}
    )
    files: dict[Path, dict[str, list[tuple[int, object]]]] = {}
    for part in reader.parts:
        path = _clinc150_file(part.path)
        if path not in files:  # read once: what is broken in it counts once
            files[path] = reader.members(path)
        key, lists = _LISTS[part.name], files[path]
        if key not in lists and f"oos_{key}" not in lists:
            raise DatasetError(
                f"The file holds neither {key!r} nor 'oos_{key}'",
                where=str(path),
                remedy=f"Name a file that has the part {part.name!r}; this one has: {', '.join(lists) or 'none'}.",
            )
        for mark, name in (("", key), ("oos-", f"oos_{key}")):
            for number, (line, row) in enumerate(lists.get(name, ()), start=1):
                with reader.row(path, line):
                    text, labels = _labelled(row, domains)
                    reader.add(part, single(f"clinc150-{part.name}-{mark}{number:05d}", text, labels))
    used = labels_in(reader)
    return label_flows(domains or used, domains)


def _labelled(row: object, known: dict[str, str]) -> tuple[str, Labels]:
    if not isinstance(row, list) or len(row) != 2 or not all(isinstance(item, str) for item in row):
        raise BadRowError("The row is no pair of a text and an intent")
    text, label = row
    if not label:
        raise BadRowError("No intent")
    if known and label not in known and label != _OOS:
        raise BadRowError(f"Unknown intent {label!r}: domains.json has none such")
    return text, of_label(None if label == _OOS else label)


@importer(
    "banking77",
    title="BANKING77",
    source="github.com/PolyAI-LDN/task-specific-datasets (banking_data)",
    licence="CC BY 4.0",
    derived=(
        "One conversation of one message for each row; the message's flow and its intent are the row's category.",
        "One flow for each category; its description is the category as words.",
    ),
    left_out=(
        "No message is out of scope: the source has none such.",
        "No slots, commands, rewrites or sentiments, which the source does not label.",
    ),
    layout=named_files(".csv", "banking_data"),
    out_of_scope_share=0.0,
)
def banking77(reader: SourceReader) -> Sequence[Flow]:
    """Read CSV files; with ``categories.json`` near them, a label that is not in it is a fault of its row."""
    listed = reader.beside("categories.json", "banking_data")
    known = {str(name) for _, name in reader.elements(listed)} if listed else set()
    for part in reader.parts:
        _read_csv(reader, part, one_file(part, ".csv"), ("text", "category"), "banking77", known)
    used = labels_in(reader)
    return label_flows(known or used)


NOTHING_FITS = "NO_NODES_DETECTED"


def _hint3_layout(src: Path) -> dict[PartName, Path]:
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
    layout=_hint3_layout,
    # About half of what users wrote to the three bots, the published test parts, fits none of the intents; the
    # training parts were written by those who built the bots, and have no such message.
    out_of_scope_share=0.5,
)
def hint3(reader: SourceReader) -> Sequence[Flow]:
    """Read CSV files of one bot; the label NO_NODES_DETECTED means that no flow is wanted."""
    for part in reader.parts:
        _read_csv(reader, part, _one_bot(part.path), ("sentence", "label"), "hint3", set())
    return label_flows(labels_in(reader))


def _read_csv(
    reader: SourceReader, part: Part, path: Path, columns: tuple[str, str], kind: str, known: set[str]
) -> None:
    """Add a message for each row; with known labels, another one is a fault of its row."""
    for line, (text, raw) in reader.csv(path, columns):
        with reader.row(path, line):
            label = raw.strip()
            if not label:
                raise BadRowError("No label")
            if known and label not in known:
                raise BadRowError(f"Unknown label {label!r}: categories.json has none such")
            labels = of_label(None if label == NOTHING_FITS else label)
            reader.add(part, single(f"{kind}-{part.name}-{line:05d}", text, labels))
