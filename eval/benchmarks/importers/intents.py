"""Messages with one intent each: CLINC150, BANKING77 and HINT3, whose labels become flows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from importers.labels import label_flows, labels_in, of_label, single
from importers.source import PublicReader, named_files, only_file, source
from jazzmine_dspy.datasets.importers.source_reader import BadRowError, Part
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.parsing import from_json

_LISTS = {"train": "train", "dev": "val", "dev_a": "val", "dev_b": "val", "test": "test"}
"""The list of each part; the one of the same name with ``oos_`` before it has what is out of scope."""
_OOS = "oos"


def _clinc150_file(src: Path) -> Path:
    return only_file(src / "data" if (src / "data").is_dir() else src, "data_*.json")


def _clinc150_layout(src: Path) -> dict[str, Path]:
    """All parts that one file holds."""
    path = _clinc150_file(src)
    lists = from_json(path.read_bytes())
    names = ("train", "dev", "test")
    return {name: path for name in names if lists.get(_LISTS[name]) or lists.get(f"oos_{_LISTS[name]}")}


@source(
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
)
def clinc150(reader: PublicReader) -> Sequence[Flow]:
    """Read the lists of each part."""
    listed = reader.near("domains.json", "data")
    domains = reader.document(listed) if listed else {}
    for part in reader.parts:
        path = _clinc150_file(part.path)
        lists = reader.document(path)
        key = _LISTS[part.name]
        for mark, name in (("", key), ("oos-", f"oos_{key}")):
            for number, row in enumerate(lists.get(name, ()), start=1):
                with reader.row(path, number):
                    text, label = row
                    labels = of_label(None if label == _OOS else label)
                    reader.add(part, single(f"clinc150-{part.name}-{mark}{number:05d}", text, labels))
    categories = {name: domain for domain, names in domains.items() for name in names}
    return label_flows({*categories, *labels_in(reader)}, categories)


@source(
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
def banking77(reader: PublicReader) -> Sequence[Flow]:
    """Read CSV files; ``categories.json`` near them lists all categories."""
    listed = reader.near("categories.json", "banking_data")
    for part in reader.parts:
        _read_csv(reader, part, ("text", "category"), "banking77")
    return label_flows({*(reader.document(listed) if listed else ()), *labels_in(reader)})


NOTHING_FITS = "NO_NODES_DETECTED"


def _hint3_layout(src: Path) -> dict[str, Path]:
    """A bot's training file, and its test file in the folder ``test`` next to ``train``."""
    train = only_file(src / "train" if (src / "train").is_dir() else src, "*.csv")
    test = train.parent.parent / "test" / train.name.replace("_train", "_test")
    return {"train": train} | ({"test": test} if test.is_file() and test != train else {})


@source(
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
def hint3(reader: PublicReader) -> Sequence[Flow]:
    """Read CSV files of one bot."""
    for part in reader.parts:
        _read_csv(reader, part, ("sentence", "label"), "hint3")
    return label_flows(labels_in(reader))


def _read_csv(reader: PublicReader, part: Part, columns: tuple[str, str], kind: str) -> None:
    """Add a message for each row."""
    for line, (text, raw) in reader.csv(part.path, columns):
        with reader.row(part.path, line):
            label = raw.strip()
            if not label:
                raise BadRowError("No label")
            labels = of_label(None if label == NOTHING_FITS else label)
            reader.add(part, single(f"{kind}-{part.name}-{line:05d}", text, labels))
