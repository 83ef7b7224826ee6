"""Reads the files of a source. A row that cannot be read is counted and left out; the rest of the file is read on."""

from __future__ import annotations

import contextlib
import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from pydantic import ValidationError

from jazzmine_dspy.datasets.schema import LabelledConversation, explain
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.errors import DatasetError

PartName = Literal["train", "dev", "dev_a", "dev_b", "test"]
PARTS: tuple[PartName, ...] = get_args(PartName)
"""Names of a source's parts; ``dev`` is divided into ``dev_a`` and ``dev_b``."""

REPORTED = 20
"""Rows left out that a report lists; further ones are only counted."""

_LONGEST_RECORD = 200
"""Lines that one CSV record may span; a quote that is still open after them was never closed."""


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
        columns: Of a table, the column for each name.
        encoding: Of a table; detected where None.
        flows: The ``flows.yaml`` that the labels refer to.

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
        *,
        columns: Mapping[str, str] = MappingProxyType({}),
        encoding: str | None = None,
        flows: Path | None = None,
    ) -> None:
        self.parts = parts
        self.columns, self.encoding, self.flows = columns, encoding, flows
        self.conversations: dict[PartName, list[LabelledConversation]] = {part.name: [] for part in parts}
        self.notes: list[str] = []
        self.left_out = 0
        self.bad_rows: list[BadRow] = []
        self.opened: dict[Path, str] = {}

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
            DatasetError: it cannot be read.
        """
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise DatasetError(
                f"Cannot read the file: {error.strerror}",
                where=str(path),
                remedy="Name a file of the source.",
            ) from error
        self.opened[path] = hashlib.sha256(raw).hexdigest()
        return raw

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
