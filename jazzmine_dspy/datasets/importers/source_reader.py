"""Reads the files of a source. A row that cannot be read is counted and left out; the rest of the file is read on."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from pydantic import ValidationError

from jazzmine_dspy.datasets.schema import LabelledConversation, explain
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.parsing import MalformedError, from_json

PartName = Literal["train", "dev", "dev_a", "dev_b", "test"]
PARTS: tuple[PartName, ...] = get_args(PartName)
"""Names of a source's parts; ``dev`` is divided into ``dev_a`` and ``dev_b``."""

REPORTED = 20
"""Rows left out that a report lists; further ones are only counted."""

_LONGEST_RECORD = 200
"""Lines that one CSV record may span; a quote that is still open after them was never closed."""
_AS_PUBLISHED = "Name a file as its source publishes it; docs/guide/datasets-import.md shows the forms."
_BLANK = re.compile(r"\s*")
_KEY = re.compile(r'[\s,]*"((?:[^"\\]|\\.)*)"\s*:\s*')
_DECODER = json.JSONDecoder()


class Part(NamedTuple):
    """A part of a source: its name, and the file or folder that contains it."""

    name: PartName
    path: Path


class BadRow(Value):
    """A row that was left out. ``line`` counts from 1 and is the row's first line."""

    file: str
    line: int
    cause: str


class BadRowError(ValueError):
    """Raised inside :meth:`SourceReader.row`: the current row is left out for this cause."""


class SourceReader:
    """Opens the files of one import, and collects its conversations and what was left out.

    Args:
        parts: The parts to read.
        path: The source's own file or folder, where one was named.
        columns: For tables of the user's own: their column for each name.
        encoding: For such tables: their encoding; detected where None.
        flows: For such tables: the ``flows.yaml`` that their labels refer to.

    Attributes:
        conversations: The conversations of each part, in the order of :meth:`add`.
        notes: Facts about this import, for its card and its report.
        left_out: Number of rows left out.
        bad_rows: The first 20 of them.
        opened: SHA-256 of every file opened, in the order of opening.
    """

    def __init__(
        self,
        parts: Sequence[Part] = (),
        path: Path | None = None,
        *,
        columns: Mapping[str, str] = MappingProxyType({}),
        encoding: str | None = None,
        flows: Path | None = None,
    ) -> None:
        self.parts, self.path = parts, path
        self.columns, self.encoding, self.flows = columns, encoding, flows
        self.conversations: dict[PartName, list[LabelledConversation]] = {part.name: [] for part in parts}
        self.notes: list[str] = []
        self.left_out = 0
        self.bad_rows: list[BadRow] = []
        self.opened: dict[Path, str] = {}

    # --- the source ------------------------------------------------------------------------------------

    def beside(self, name: str, *inner: str, parts: Sequence[Part] | None = None) -> Path | None:
        """A file or folder that parts share: in the source or a part, or in the folder above.

        Args:
            name: Of the file or folder.
            inner: Folders of the published source in which it may also lie.
            parts: Look near these parts alone.
        """
        own = [self.path] if self.path is not None and parts is None else []
        named = [*own, *(part.path for part in (self.parts if parts is None else parts))]
        for folder in (path if path.is_dir() else path.parent for path in named):
            for place in (folder, folder.resolve().parent):
                for path in (place / name, *(place / within / name for within in inner)):
                    if path.exists():
                        return path
        return None

    @property
    def where(self) -> str:
        """The paths of the parts, for an error."""
        return ", ".join(str(part.path) for part in self.parts)

    # --- results ---------------------------------------------------------------------------------------

    def add(self, part: Part, conversation: LabelledConversation) -> None:
        """Add a conversation to a part."""
        self.conversations[part.name].append(conversation)

    def bad(self, path: Path, line: int, cause: str) -> None:
        """Count a row that is left out."""
        self.left_out += 1
        if len(self.bad_rows) < REPORTED:
            self.bad_rows.append(BadRow(file=str(path), line=line, cause=cause))

    @contextlib.contextmanager
    def row(self, path: Path, line: int) -> Iterator[None]:
        """Read one row: an error inside leaves out this row alone."""
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

    # --- files -----------------------------------------------------------------------------------------

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
        """The lines of a file with their numbers, without line ends; a line that is not UTF-8 is left out."""
        for number, raw in enumerate(self.bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            try:
                yield number, raw.decode().removesuffix("\r")
            except UnicodeDecodeError:
                self.bad(path, number, "The line is not UTF-8")

    def records(
        self, path: Path, lines: Sequence[tuple[int, str]], delimiter: str = ","
    ) -> Iterator[tuple[int, list[str]]]:
        """The CSV records of some lines, blank ones aside, each with its first line's number.

        A quote that is never closed costs its own line, not the rest of the file.
        """
        at = 0
        while at < len(lines):
            number = lines[at][0]
            reader = csv.reader(
                (f"{text}\n" for _, text in islice(lines, at, at + _LONGEST_RECORD)),
                delimiter=delimiter,
                strict=True,
            )
            try:
                cells = next(reader)
            except csv.Error as error:
                long = "limit" in str(error)
                if long:
                    cause = f"A cell has over {csv.field_size_limit():,} characters; shorten it"
                elif reader.line_num == 1 and "unexpected end" not in str(error):
                    cause = "A quote stands inside a quoted text; double it"
                else:
                    cause = (
                        f"A quote is not closed within {_LONGEST_RECORD} lines; close it, or double the quotes "
                        "inside a quoted text"
                    )
                at += reader.line_num if long else 1
                self.bad(path, number, cause)
            else:
                at += reader.line_num
                if any(cell.strip() for cell in cells):
                    yield number, cells

    def csv(
        self, path: Path, columns: Sequence[str], delimiter: str = ","
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The named columns of a CSV file's rows, each with its first line's number.

        Raises:
            DatasetError: the file cannot be read, or its first line lacks a column.
        """
        rows = self.records(path, list(self.lines(path)), delimiter)
        header = [name.strip().casefold() for name in next(rows, (1, []))[1]]
        for column in columns:
            if column not in header:
                raise DatasetError(
                    f"The column {column!r} is missing",
                    where=f"{path}:1",
                    remedy=f"Name a CSV file whose first line has: {', '.join(columns)}.",
                )
        places = [header.index(column) for column in columns]
        for number, cells in rows:
            if len(cells) <= max(places):
                self.bad(path, number, f"The row has {len(cells)} fields; {max(places) + 1} are needed")
            else:
                yield number, tuple(cells[place] for place in places)

    def document(self, path: Path) -> Any:
        """The whole of a JSON file without which nothing else can be read, such as a schema.

        Raises:
            DatasetError: it cannot be read, or is not JSON.
        """
        try:
            return from_json(self.text(path))
        except MalformedError as error:
            raise DatasetError(
                f"The file is not JSON: {error.problem}",
                where=f"{path}:{error.line or 1}",
                remedy=_AS_PUBLISHED,
            ) from error

    def elements(self, path: Path) -> list[tuple[int, Any]]:
        """The elements of a JSON list with their lines; where the JSON breaks off, so does the reading.

        Raises:
            DatasetError: the file cannot be read, or does not contain a list.
        """
        text, at = self._json(path, "[", "list")
        return self._list(path, text, at)[0]

    def members(self, path: Path) -> dict[str, list[tuple[int, Any]]]:
        """The lists of a JSON object by key, each element with its line; another value counts as a list of one.

        Raises:
            DatasetError: the file cannot be read, or does not contain an object.
        """
        text, at = self._json(path, "{", "object")
        lists: dict[str, list[tuple[int, Any]]] = {}
        while at is not None and (match := _KEY.match(text, at)):
            at = match.end()
            if text.startswith("[", at):
                lists[match[1]], at = self._list(path, text, at + 1)
            else:
                line, (value, at) = text.count("\n", 0, at) + 1, self._value(path, text, at)
                lists[match[1]] = [(line, value)] if at is not None else []
        if at is not None and not text.startswith("}", _skip(text, at)):
            self._break(path, text, at)
        return lists

    def _json(self, path: Path, sign: str, what: str) -> tuple[str, int | None]:
        text = self.text(path)
        at = _skip(text, 0)
        if not text.startswith(sign, at):
            raise DatasetError(f"The file holds no JSON {what}", where=f"{path}:1", remedy=_AS_PUBLISHED)
        return text, at + 1

    def _list(self, path: Path, text: str, start: int | None) -> tuple[list[tuple[int, Any]], int | None]:
        """The elements of the list that begins at a position, and its end; None where the JSON breaks off."""
        rows: list[tuple[int, Any]] = []
        at, line, counted = start, 1, 0
        while at is not None and not text.startswith("]", at := _skip(text, at)):
            line, counted = line + text.count("\n", counted, at), at
            value, at = self._value(path, text, at)
            if at is not None:
                rows.append((line, value))
                at = _skip(text, at)
                if text.startswith(",", at):
                    at += 1
                elif not text.startswith("]", at):
                    self._break(path, text, at)
                    at = None
        return rows, None if at is None else at + 1

    def _value(self, path: Path, text: str, at: int) -> tuple[Any, int | None]:
        try:
            return _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            self._break(path, text, at)
            return None, None

    def _break(self, path: Path, text: str, at: int) -> None:
        line = text.count("\n", 0, at) + 1
        self.bad(path, line, "The JSON breaks off here; nothing after it can be read")


def named_files(suffix: str, *inner: str) -> Callable[[Path], dict[PartName, Path]]:
    """The layout of sources with one file or folder for each part: ``train``, ``dev`` and ``test`` with a suffix.

    Args:
        suffix: Such as ``.csv``; empty for folders.
        inner: Folders inside the source in which the files may lie.
    """

    def layout(src: Path) -> dict[PartName, Path]:
        if src.is_file():
            return {"train": src}
        names: Iterable[PartName] = ("train", "dev", "test")
        for folder in (src, *(src / name for name in inner)):
            files = {name: path for name in names if (path := folder / f"{name}{suffix}").exists()}
            if files:
                return files
        return {}

    return layout


def one_part(*inner: str) -> Callable[[Path], dict[PartName, Path]]:
    """The layout of sources without parts: all of it is for training, from the first of some folders that is there.

    Args:
        inner: Folders inside the source.
    """
    return lambda src: {"train": next((src / name for name in inner if (src / name).is_dir()), src)}


def one_file(part: Part, suffix: str) -> Path:
    """The file of a part: the path itself, or in its folder the file of that name.

    Raises:
        DatasetError: the folder does not have it.
    """
    if not part.path.is_dir():
        return part.path
    path = part.path / f"{part.name.partition('_')[0]}{suffix}"
    if not path.is_file():
        raise DatasetError(
            f"The folder has no {path.name}",
            where=str(part.path),
            remedy=f"Name the file: --split {part.name}=FILE{suffix}.",
        )
    return path


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _check_no_workbook(raw: bytes, path: Path) -> None:
    """Refuse an Excel or OpenDocument workbook, and any other ZIP archive."""
    what, remedy = "", "Save the sheet as CSV (UTF-8), and name that file."
    if raw.startswith(b"\xd0\xcf\x11\xe0"):
        what = "an Excel workbook"
    elif raw.startswith(b"PK\x03\x04"):
        what = "a workbook" if b"xl/" in raw or b"opendocument.spreadsheet" in raw else "a ZIP archive"
        remedy = remedy if what == "a workbook" else "Unpack it, and name the file inside."
    if what:
        raise DatasetError(f"The file is {what}, not a text", where=str(path), remedy=remedy)
