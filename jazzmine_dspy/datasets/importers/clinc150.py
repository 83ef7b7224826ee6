"""CLINC150: one of 150 intents, or none; a JSON object with lists of [text, intent] for each part."""

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
from jazzmine_dspy.datasets.schema import Labels
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow

_LISTS = {"train": "train", "dev": "val", "dev_a": "val", "dev_b": "val", "test": "test"}
"""The list of each part; the one of the same name with ``oos_`` before it has what is out of scope."""
_NOTHING_FITS = "oos"
_FILES = ("data_full.json", "data_small.json", "data_imbalanced.json", "data_oos_plus.json")


def layout(src: Path) -> dict[PartName, Path]:
    """All parts that one file holds."""
    path = _one(src)
    lists = SourceReader().members(path)
    names: tuple[PartName, ...] = ("train", "dev", "test")
    return {name: path for name in names if lists.get(_LISTS[name]) or lists.get(f"oos_{_LISTS[name]}")}


def _one(src: Path) -> Path:
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
    layout=layout,
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
        path = _one(part.path)
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
    said = labels_in(reader)
    return label_flows(domains or said, domains)


def _labelled(row: object, known: dict[str, str]) -> tuple[str, Labels]:
    if not isinstance(row, list) or len(row) != 2 or not all(isinstance(item, str) for item in row):
        raise BadRowError("The row is no pair of a text and an intent")
    text, label = row
    if not label:
        raise BadRowError("No intent")
    if known and label not in known and label != _NOTHING_FITS:
        raise BadRowError(f"Unknown intent {label!r}: domains.json has none such")
    return text, of_label(None if label == _NOTHING_FITS else label)
