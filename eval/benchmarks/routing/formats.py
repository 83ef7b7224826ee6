"""Reading and writing the sources' own formats, so that the parts go through the importers as anybody's would."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from routing.parts import Row

BANKING = ("text", "category")
HINT3 = ("sentence", "label")
NOTHING_FITS = "NO_NODES_DETECTED"
"""HINT3's label of a message that no flow is meant for."""


def read_csv(path: Path, columns: tuple[str, str]) -> list[Row]:
    """A CSV file with a column of texts and one of labels."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [Row(found[columns[0]], found[columns[1]].strip()) for found in csv.DictReader(stream)]


def write_csv(path: Path, columns: tuple[str, str], rows: Iterable[Row]) -> Path:
    """The same, written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def read_clinc(path: Path, *keys: str) -> list[Row]:
    """Pairs of a text and an intent under some of the file's keys."""
    held = json.loads(path.read_text("utf-8"))
    return [Row(text, label) for name in keys for text, label in held.get(name, ())]


def write_clinc(path: Path, **keys: Sequence[Row]) -> Path:
    """A file of CLINC150's format, with the keys that have rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({name: [list(row) for row in rows] for name, rows in keys.items() if rows}), "utf-8"
    )
    return path


def copied(files: Iterable[Path], folder: Path) -> Path:
    """Copies of files in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in files:
        shutil.copy(file, folder / file.name)
    return folder
