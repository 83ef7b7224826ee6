"""Tables of other people's making: CSV in whatever encoding and delimiter, and lines of JSON, as rows by column."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.datasets.importers.intake import Intake
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.parsing import MalformedError, from_json

_DELIMITERS = ",;\t|"
_DELIMITER_LINE = re.compile(r'"?sep=(?P<sign>[^\w\s"]|\t)"?[,;\t|]*\s*', re.IGNORECASE)
"""First line of a table that Excel wrote for another country: ``sep=;``."""
_LONGEST = 200
"""Lines that one record may span; a quote that is still open then was never closed."""


class Row(NamedTuple):
    """A row: the line it begins at, and its cells by the name of their column."""

    line: int
    cells: dict[str, Any]


def decoded(intake: Intake, path: Path, encoding: str | None = None) -> str:
    """The text of a file: in the encoding named, else UTF-8 or UTF-16, told by their marks.

    Raises:
        DatasetError: it cannot be read, is in neither, or not in the encoding named.
    """
    raw = intake.bytes(path)
    found = encoding or _encoding(raw)
    try:
        return raw.decode(found).removeprefix("\ufeff")
    except LookupError as error:
        raise DatasetError(
            f"Unknown encoding {found!r}", where="--encoding", remedy="Give such as utf-8, cp1252 or latin-1."
        ) from error
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        remedy = "Say --encoding cp1252 (Excel in western Europe) or the one it is in, or save it as UTF-8."
        raise DatasetError(
            f"The file is not {found.upper().removesuffix('-SIG')}", where=f"{path}:{line}", remedy=remedy
        ) from error
    except ValueError as error:
        # Codecs for other things than files: punycode, undefined.
        raise DatasetError(
            f"The file cannot be read as {found!r}",
            where="--encoding",
            remedy="Give such as utf-8, cp1252 or latin-1.",
        ) from error


def _encoding(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    # Text of western letters without its mark: each second byte is empty.
    head = raw[:200]
    if len(head) > 3 and head[1::2].count(0) > len(head) // 4:
        return "utf-16-le"
    if len(head) > 3 and head[::2].count(0) > len(head) // 4:
        return "utf-16-be"
    return "utf-8-sig"


def csv_rows(intake: Intake, path: Path, text: str) -> tuple[list[str], Iterator[Row]]:
    """The columns of a CSV file's first line, and its rows; what is no row is left to the intake."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    named = _DELIMITER_LINE.fullmatch(lines[first])
    if named:
        first = next((number for number, line in enumerate(lines) if number > first and line.strip()), first)
    delimiter = max(_DELIMITERS, key=lambda sign: (lines[first].count(sign), -_DELIMITERS.index(sign)))
    delimiter = named["sign"] if named else delimiter
    header = [name.strip() for name in next(csv.reader([lines[first]], delimiter=delimiter), [])]
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        raise DatasetError(
            f"The column {twice!r} is there twice",
            where=f"{path}:{first + 1}",
            remedy="Rename one of the two.",
        )

    def rows() -> Iterator[Row]:
        at = first + 1
        while at < len(lines):
            line = at + 1
            cells, taken, cause = _record(lines, at, delimiter)
            at += taken
            if cause:
                intake.bad(path, line, cause)
            elif len(cells) > len(header):
                intake.bad(
                    path, line, f"The row has {len(cells)} cells, and there are {len(header)} columns; "
                    f"put a text that holds {delimiter!r} in quotes"
                )  # fmt: skip
            elif any(cell.strip() for cell in cells):
                yield Row(line, dict(zip(header, cells, strict=False)))

    return header, rows()


def _record(lines: list[str], at: int, delimiter: str) -> tuple[list[str], int, str]:
    """The cells of the record that begins at a line, how many lines it takes, and why it is none."""
    cause = (
        f"A quote is not closed within {_LONGEST} lines; close it, or double the quotes inside a quoted text"
    )
    quotes = 0
    for taken in range(1, min(_LONGEST, len(lines) - at) + 1):
        quotes += lines[at + taken - 1].count('"')
        if quotes % 2:
            continue
        try:
            record = "\n".join(lines[at : at + taken])
            return next(csv.reader([record], delimiter=delimiter, strict=True), []), taken, ""
        except csv.Error as error:
            if "limit" in str(error):
                return [], taken, f"A cell has over {csv.field_size_limit():,} characters; shorten it"
            if "unexpected end" not in str(error):
                return [], taken, "A quote stands inside a quoted text; double it"
    return [], 1, cause


def json_rows(intake: Intake, path: Path, text: str) -> tuple[list[str], Iterator[Row]]:
    """The keys of all objects, one a line, and the rows; a line that is no object is left to the intake."""
    found: list[Row] = []
    for line, raw in enumerate(text.split("\n"), start=1):
        if not raw.strip():
            continue
        try:
            data = from_json(raw, unique=True)
        except MalformedError as error:
            intake.bad(path, line, f"The line is not JSON: {error.problem}; write one object a line")
            continue
        if not isinstance(data, dict):
            intake.bad(path, line, "The line is no JSON object; write one object a line")
        else:
            found.append(Row(line, data))
    return list(dict.fromkeys(key for row in found for key in row.cells)), iter(found)
