"""Imports tables of your own, and candidates exported from service, into dataset folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from jazzmine_dspy.datasets.importers import candidates, table, writer
from jazzmine_dspy.datasets.importers.source_reader import SourceReader, existing, named_parts
from jazzmine_dspy.datasets.importers.table_rows import csv_rows, json_rows
from jazzmine_dspy.datasets.importers.writer import DEV_SHARE, ImportReport, Provenance
from jazzmine_dspy.datasets.schema import FLOWS_FILE
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.flows import Flow

__all__ = ["KINDS", "ImportReport", "import_dataset"]

KINDS: Mapping[str, tuple[Provenance, Callable[[SourceReader], Sequence[Flow]]]] = {
    "csv": (table.PROVENANCE, partial(table.read, csv_rows)),
    "jsonl": (table.PROVENANCE, partial(table.read, json_rows)),
    "candidates": (candidates.PROVENANCE, candidates.read),
}
"""What can be imported: the facts for its card, and the function that reads it."""


def import_dataset(
    kind: str,
    src: str | Path | None = None,
    *,
    out: str | Path,
    splits: Sequence[tuple[str, str | Path]] = (),
    seed: int = 0,
    dev_share: float = DEV_SHARE,
    replace: bool = False,
    columns: Mapping[str, str] = MappingProxyType({}),
    encoding: str | None = None,
    flows: str | Path | None = None,
) -> ImportReport:
    """Import a table or candidates into a dataset folder.

    Args:
        kind: ``csv``, ``jsonl`` or ``candidates``.
        src: The file. Alone it is divided among all four roles; next to ``splits`` it is the training part.
        out: Folder to write ``card.md``, ``flows.yaml``, ``conversations.jsonl`` and ``splits.json`` to.
        splits: Names (``train``, ``dev``, ``dev_a``, ``dev_b``, ``test``) and files of these parts.
        seed: Of the division of dev, or of train where there is no dev part. The same input and seed give
            the same bytes.
        dev_share: Share of train that is divided between dev_a and dev_b where there is no dev part.
        replace: Also write where a dataset is already.
        columns: Columns of the table, by what they hold; see ``docs/guide/datasets-import.md``.
        encoding: Of the table; detected where None.
        flows: The ``flows.yaml`` that the labels refer to, copied as it is; that in ``out`` where None.

    Raises:
        DatasetError: the kind or a name is unknown, a name is given twice, a file cannot be read, a part has
            no readable row, or the folder cannot be written. A row that cannot be read is left out and counted.
    """
    if kind not in KINDS:
        raise DatasetError(
            f"Unknown kind {kind!r}",
            where="KIND",
            remedy=f"Use one of: {', '.join(KINDS)}. For public datasets and Rasa projects, run the script in the "
            "repository: python eval/benchmarks/importers --help",
        )
    provenance, read = KINDS[kind]
    parts = named_parts([*([] if src is None else [("train", src)]), *splits])
    folder = Path(out)
    if (listed := _flows_file(folder, flows)) is None and kind == "candidates":
        listed = candidates.flows_file(parts)
    writer.claim(folder, replace=replace, flows=listed)
    reader = SourceReader(parts, columns=columns, encoding=encoding, flows=listed)
    made = read(reader)
    return writer.write_dataset(
        folder,
        reader,
        listed or made,
        kind=kind,
        provenance=provenance,
        seed=seed,
        dev_share=dev_share,
        whole=not splits,
    )


def _flows_file(out: Path, flows: str | Path | None) -> Path | None:
    """The file of the flows that the labels refer to; None where they are made from the labels."""
    if flows is not None:
        path = existing(flows, "--flows")
        return path / FLOWS_FILE if path.is_dir() else path
    return out / FLOWS_FILE if (out / FLOWS_FILE).is_file() else None
