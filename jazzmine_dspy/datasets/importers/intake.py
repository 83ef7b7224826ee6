"""Reading the files of a source: what cannot be read is counted and left out, and the rest goes on (D7)."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jazzmine_dspy.datasets.problems import explain
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.parsing import MalformedError, from_json

SHOWN = 20
"""Rows left out that a report shows; the others are counted alone."""

_LONGEST_RECORD = 50
"""Lines that one CSV record may span; a quote that is still open then was never closed."""


class BadRow(Value):
    """A row that was left out. ``line`` counts from 1 and is that of the row's beginning."""

    file: str
    line: int
    cause: str


class BadRowError(ValueError):
    """Raised inside :meth:`Intake.row`: the row at hand is to be left out for this cause."""


class Intake:
    """Opens the files of one import, and keeps the count of what was left out.

    Attributes:
        left_out: Number of rows left out.
        bad_rows: The first 20 of them.
        opened: SHA-256 of every file opened, in the order of opening.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self.bad_rows: list[BadRow] = []
        self.opened: dict[Path, str] = {}

    def bad(self, path: Path, line: int, cause: str) -> None:
        """Count a row that is left out."""
        self.left_out += 1
        if len(self.bad_rows) < SHOWN:
            self.bad_rows.append(BadRow(file=str(path), line=line, cause=cause))

    @contextlib.contextmanager
    def row(self, path: Path, line: int) -> Iterator[None]:
        """Whatever makes the row inside unreadable ends that row alone."""
        try:
            yield
        except ValidationError as error:
            self.bad(path, line, explain(error, file=str(path), line=line)[0].message)
        except BadRowError as error:
            self.bad(path, line, str(error))
        except KeyError as error:
            self.bad(path, line, f"The key {error.args[0]!r} is missing or unknown")
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            self.bad(path, line, f"The row has another form than this kind of data ({error})")

    def bytes(self, path: Path) -> bytes:
        """The content of a file.

        Raises:
            DatasetError: it cannot be read, or is a workbook.
        """
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise DatasetError(
                f"Cannot read the file: {error.strerror}",
                where=str(path),
                remedy="Name a file of the source.",
            ) from error
        _check_no_workbook(raw, path)
        self.opened[path] = hashlib.sha256(raw).hexdigest()
        return raw

    def text(self, path: Path) -> str:
        """The content of a file as text.

        Raises:
            DatasetError: it cannot be read, or is not UTF-8.
        """
        try:
            return self.bytes(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DatasetError(
                "The file is not UTF-8", where=str(path), remedy="Name a file as its source publishes it."
            ) from error

    def lines(self, path: Path) -> Iterator[tuple[int, str]]:
        """The lines of a file with their numbers, line ends taken off; one that is not UTF-8 is left out."""
        for number, raw in enumerate(self.bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            try:
                yield number, raw.decode().removesuffix("\r")
            except UnicodeDecodeError:
                self.bad(path, number, "The line is not UTF-8")

    def records(self, path: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The named columns of a CSV file's records, with the line that each begins at.

        A quote that is never closed costs its own line, not the rest of the file.

        Raises:
            DatasetError: the file cannot be read, or its first line lacks a column.
        """
        lines = list(self.lines(path))
        header = [name.strip().casefold() for name in next(csv.reader([lines[0][1]]), [])] if lines else []
        for column in columns:
            if column not in header:
                raise DatasetError(
                    f"The column {column!r} is missing",
                    where=f"{path}:1",
                    remedy=f"Name a CSV file whose first line has: {', '.join(columns)}.",
                )
        places = [header.index(column) for column in columns]
        at = 1
        while at < len(lines):
            number = lines[at][0]
            fields, taken = _record([text for _, text in lines[at : at + _LONGEST_RECORD]])
            at += taken
            if fields is None:
                self.bad(path, number, "A quote is not closed, or stands inside a quoted field")
            elif not any(field.strip() for field in fields):
                continue
            elif len(fields) <= max(places):
                self.bad(path, number, f"The row has {len(fields)} fields; {max(places) + 1} are needed")
            else:
                yield number, tuple(fields[place] for place in places)

    def elements(self, path: Path) -> Iterator[tuple[int, Any]]:
        """The elements of a JSON list with their lines; where the JSON breaks off, so does the reading.

        Raises:
            DatasetError: the file cannot be read, or holds no list.
        """
        scanner = _Scanner(self, path)
        if scanner.symbol() != "[":
            raise DatasetError("The file holds no JSON list", where=f"{path}:1", remedy=_AS_PUBLISHED)
        yield from scanner.elements()

    def members(self, path: Path) -> dict[str, list[tuple[int, Any]]]:
        """The lists of a JSON object by key, each element with its line.

        Raises:
            DatasetError: the file cannot be read, or holds no object of lists.
        """
        scanner = _Scanner(self, path)
        if scanner.symbol() != "{":
            raise DatasetError("The file holds no JSON object", where=f"{path}:1", remedy=_AS_PUBLISHED)
        return scanner.members()

    def document(self, path: Path) -> Any:
        """The whole of a JSON file without which nothing else can be read, such as a schema.

        Raises:
            DatasetError: it cannot be read, or is no JSON.
        """
        try:
            return from_json(self.text(path))
        except MalformedError as error:
            raise DatasetError(
                f"The file is not JSON: {error.problem}",
                where=f"{path}:{error.line or 1}",
                remedy=_AS_PUBLISHED,
            ) from error


_AS_PUBLISHED = "Name a file as its source publishes it; docs/guide/datasets-import.md shows the forms."
_BLANK = re.compile(r"\s*")


def _check_no_workbook(raw: bytes, path: Path) -> None:
    """Refuse an Excel or OpenDocument workbook, and any other ZIP archive."""
    if raw.startswith(b"\xd0\xcf\x11\xe0"):
        what = "an Excel workbook"
    elif raw.startswith(b"PK\x03\x04"):
        what = "a workbook" if b"xl/" in raw or b"opendocument.spreadsheet" in raw else "a ZIP archive"
    else:
        return
    remedy = "Save the sheet as CSV (UTF-8), and name that file."
    if what == "a ZIP archive":
        remedy = "Unpack it, and name the file inside."
    raise DatasetError(f"The file is {what}, not a text", where=str(path), remedy=remedy)


def _record(lines: Sequence[str]) -> tuple[list[str] | None, int]:
    """The fields of the record that the first line begins, and how many lines it takes."""
    for taken in range(1, len(lines) + 1):
        try:
            return next(csv.reader(["\n".join(lines[:taken])], strict=True), []), taken
        except csv.Error as error:
            if "unexpected end" not in str(error):
                break
    return None, 1


class _Scanner:
    """Walks through a JSON text element by element, so that a broken end does not spoil the beginning."""

    def __init__(self, intake: Intake, path: Path) -> None:
        self._intake, self._path = intake, path
        self._text = intake.text(path)
        self._ends = [match.start() for match in re.finditer("\n", self._text)]
        self._decoder = json.JSONDecoder()
        self._at = 0
        self._broken = False

    def symbol(self) -> str:
        """The next character that is not blank, passed over; empty at the end."""
        self._skip()
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def elements(self) -> Iterator[tuple[int, Any]]:
        """The elements of the list whose bracket was passed over."""
        self._skip()
        if self._text[self._at : self._at + 1] == "]":
            self._at += 1
            return
        while True:
            self._skip()
            line = self._line()
            try:
                value, self._at = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                return self._break(line)
            yield line, value
            self._skip()
            line = self._line()
            match self.symbol():
                case ",":
                    continue
                case "]":
                    return None
                case _:
                    return self._break(line)

    def members(self) -> dict[str, list[tuple[int, Any]]]:
        """The lists of the object whose brace was passed over; what is no list is passed over too."""
        found: dict[str, list[tuple[int, Any]]] = {}
        while not self._broken:
            self._skip()
            line = self._line()
            try:
                key, self._at = self._decoder.raw_decode(self._text, self._at)
                if self.symbol() != ":" or not isinstance(key, str):
                    raise ValueError(key)
                self._skip()
                if self._text[self._at : self._at + 1] == "[":
                    self._at += 1
                    found[key] = list(self.elements())
                else:
                    _, self._at = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                self._break(line)
                break
            if not self._broken and self.symbol() != ",":
                break
        return found

    def _skip(self) -> None:
        match = _BLANK.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _line(self) -> int:
        return bisect_right(self._ends, self._at - 1) + 1

    def _break(self, line: int) -> None:
        self._broken = True
        self._intake.bad(self._path, line, "The JSON breaks off here; nothing after it can be read")
