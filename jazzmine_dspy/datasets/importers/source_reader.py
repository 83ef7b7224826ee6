"""The parts of a source, and the reader of their files, which leaves out and counts each row that it cannot read."""

from __future__ import annotations

import contextlib
import csv
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from pydantic import ValidationError

from jazzmine_dspy.datasets.schema import LabelledConversation, explain
from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.errors import DatasetError, reading

PartName = Literal["train", "dev", "dev_a", "dev_b", "test"]
PARTS: tuple[PartName, ...] = get_args(PartName)
"""Names of a source's parts; ``dev`` is divided into ``dev_a`` and ``dev_b``."""

_LONGEST_RECORD = 200
"""Lines that one CSV record may span; a quote that is still open after them was never closed."""


Line = tuple[int, str]
"""A line of a file with its number, from 1."""


class Part(NamedTuple):
    """A part of a source: its name, and the file or folder that contains it."""

    name: PartName
    path: Path


def named_parts(named: Iterable[tuple[str, str | Path]]) -> list[Part]:
    """The parts that were named, in the order of :data:`PARTS`.

    Raises:
        DatasetError: there is none, a name is unknown or given twice, or a file does not exist.
    """
    parts: dict[PartName, Path] = {}
    for name, path in named:
        where = f"--split {name}"
        if name not in PARTS:
            raise DatasetError(f"Unknown split {name!r}", where=where, remedy=f"Use: {', '.join(PARTS)}.")
        if name in parts:
            raise DatasetError(f"The split {name!r} is named twice", where=where, remedy="Name it once.")
        parts[name] = existing(path, where)
    if not parts:
        raise DatasetError(
            "No source is named",
            where="SRC",
            remedy="Name the source, or its parts: --split train=PATH.",
        )
    if "dev" in parts and {"dev_a", "dev_b"} & set(parts):
        raise DatasetError(
            "The split 'dev' is named next to dev_a or dev_b",
            where="--split dev",
            remedy="Name dev, which is divided into both, or these two.",
        )
    return [Part(name, parts[name]) for name in PARTS if name in parts]


def existing(path: str | Path, where: str) -> Path:
    """The path of something that exists.

    Raises:
        DatasetError: it does not.
    """
    if not Path(path).exists():
        raise DatasetError(f"There is no {path}", where=where, remedy="Name a file or folder of the source.")
    return Path(path)


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
        bad_rows: The rows left out.
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
        self.bad_rows: list[BadRow] = []
        self.opened: dict[Path, str] = {}

    # --- results ---------------------------------------------------------------------------------------

    def add(self, part: Part, conversation: LabelledConversation) -> None:
        """Add a conversation to a part."""
        self.conversations[part.name].append(conversation)

    def bad(self, path: Path, line: int, cause: str) -> None:
        """Note a row that is left out."""
        self.bad_rows.append(BadRow(file=str(path), line=line, cause=cause))

    @contextlib.contextmanager
    def row(self, path: Path, line: int) -> Iterator[None]:
        """Read one row: an error inside leaves out this row alone."""
        try:
            yield
        except ValidationError as error:
            self.bad(path, line, explain(error, file=str(path), line=line)[0].message)
        except KeyError as error:
            self.bad(path, line, f"The key {error.args[0]!r} is missing or unknown")
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            form = (
                "" if isinstance(error, BadRowError) else "The row has another form than this kind of data: "
            )
            self.bad(path, line, f"{form}{error}")

    # --- files -----------------------------------------------------------------------------------------

    def bytes(self, path: Path) -> bytes:
        """The content of a file.

        Raises:
            DatasetError: it cannot be read.
        """
        with reading(path, "Cannot read the file", "Name a file of the source.", DatasetError):
            raw = path.read_bytes()
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
        self, path: Path, lines: Iterable[Line], delimiter: str = ","
    ) -> Iterator[tuple[int, list[str]]]:
        """The CSV records of some lines, blank ones aside, each with its first line's number.

        A quote that is never closed costs its own line, not the rest of the file.
        """
        source, again = iter(lines), deque[Line]()

        def pull() -> Line | None:
            return again.popleft() if again else next(source, None)

        while True:
            taken: list[Line] = []
            try:
                cells = next(csv.reader(_texts(pull, taken), delimiter=delimiter, strict=True), None)
            except csv.Error as error:
                long = "limit" in str(error)
                self.bad(
                    path,
                    taken[0][0],
                    f"A cell has over {csv.field_size_limit():,} characters; shorten it"
                    if long
                    else f"A quote is not closed within {_LONGEST_RECORD} lines, or stands inside a quoted text; "
                    "close it, or double it",
                )
                again.extendleft([] if long else reversed(taken[1:]))
            else:
                if cells is None:
                    return
                if any(cell.strip() for cell in cells):
                    yield taken[0][0], cells


def _texts(pull: Callable[[], Line | None], taken: list[Line]) -> Iterator[str]:
    """The lines of one record, which go to ``taken`` as they are read."""
    while len(taken) < _LONGEST_RECORD and (line := pull()) is not None:
        taken.append(line)
        yield f"{line[1]}\n"
