"""The rows of a table: CSV in any encoding and with any delimiter, or lines of JSON."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.datasets.importers.order import Place
from jazzmine_dspy.datasets.importers.source_reader import SourceReader
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.parsing import MalformedError, from_json

_DELIMITERS = ",;\t|"
_DELIMITER_LINE = re.compile(r'"?sep=(?P<sign>[^\w\s"]|\t)"?[,;\t|]*\s*', re.IGNORECASE)
"""First line of a table that Excel wrote for another country: ``sep=;``."""


class Row(NamedTuple):
    """A row: its first line, its cells by the name of their column, and its place where a column orders the rows."""

    line: int
    cells: Mapping[str, Any]
    place: Place | None = None


def csv_rows(reader: SourceReader, path: Path) -> tuple[list[str], list[Row]]:
    """The columns of a CSV file's first line, and its rows."""
    text = _decoded(reader, path).replace("\r\n", "\n").replace("\r", "\n")
    lines = list(enumerate(text.split("\n"), start=1))
    filled = [pair for pair in lines if pair[1].strip()] or [(1, "")]
    named = _DELIMITER_LINE.fullmatch(filled[0][1])
    first, line = filled[1] if named and len(filled) > 1 else filled[0]
    delimiter = named["sign"] if named else max(_DELIMITERS, key=lambda sign: line.count(sign))
    header = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        raise DatasetError(
            f"The column {twice!r} is there twice", where=f"{path}:{first}", remedy="Rename one of the two."
        )
    rows = []
    for number, cells in reader.records(path, lines[first:], delimiter):
        if len(cells) > len(header):
            reader.bad(
                path, number, f"The row has {len(cells)} cells, and there are {len(header)} columns; "
                f"put a text that holds {delimiter!r} in quotes"
            )  # fmt: skip
        else:
            rows.append(Row(number, dict(zip(header, cells, strict=False))))
    return header, rows


def json_rows(reader: SourceReader, path: Path) -> tuple[list[str], list[Row]]:
    """The keys of all objects, one a line, and the rows."""
    rows: list[Row] = []
    for number, line in enumerate(_decoded(reader, path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            data = from_json(line, unique=True)
        except MalformedError as error:
            reader.bad(path, number, f"The line is not JSON: {error.problem}; write one object a line")
            continue
        if isinstance(data, dict):
            rows.append(Row(number, data))
        else:
            reader.bad(path, number, "The line is no JSON object; write one object a line")
    return list(dict.fromkeys(key for row in rows for key in row.cells)), rows


def _decoded(reader: SourceReader, path: Path) -> str:
    """The text of a file: in the encoding named, else UTF-8 or UTF-16, detected by their marks."""
    raw = reader.bytes(path)
    encoding = reader.encoding or _encoding(raw)
    try:
        return raw.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DatasetError(
            f"The file is not {encoding.upper().removesuffix('-SIG')}",
            where=f"{path}:{line}",
            remedy="Say --encoding cp1252 (Excel in western Europe) or the one it is in, or save it as UTF-8.",
        ) from error
    except (LookupError, ValueError) as error:
        # Also codecs for other things than files: punycode, undefined.
        raise DatasetError(
            f"No file can be read as {encoding!r}",
            where="--encoding",
            remedy="Give such as utf-8, cp1252 or latin-1.",
        ) from error


def _encoding(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    # Text of western letters without its mark: each second byte is empty.
    head = raw[:200]
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) > 3 and head[start::2].count(0) > len(head) // 4:
            return encoding
    return "utf-8-sig"
