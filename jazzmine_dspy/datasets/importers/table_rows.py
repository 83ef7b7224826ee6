"""The rows of a table, CSV in any encoding and with any delimiter or JSON; its columns and cells; and the order and the
days of its rows, by a column of numbers or of times."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.datasets.importers.source_reader import SourceReader
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.parsing import MalformedError, from_json

COLUMNS = ("conversation", "role", "text", "flow", "slots", "commands", "order", "date")
"""What a map may name; all but ``text`` may be missing from the table."""
ROLES = ("user", "assistant", "system", "colleague_assistant")
"""Roles that a map may give further words for, as ``user=patient,guest``."""

_MISSING = {"", "nan", "NaN", "NaT", "<NA>"}
"""What pandas writes for an empty cell, and nobody says."""
_NO_VALUE = {"", "nan", "nat", "<na>", "null", "na", "n/a", "#n/a"}
"""What pandas, R and spreadsheets write for one, in any case; people may say it."""

_NUMBERS, _CLOCK = "numbers", "times without a date"
_FORMS = {
    " ".join(filter(None, (date, time))) + zone: ("times" if date else _CLOCK)
    + ", with a time zone" * bool(zone)
    + ", with AM or PM" * time.endswith("%p")
    for date, time, zone in product(
        ("%Y-%m-%d", "%d.%m.%Y", ""),
        ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p"),
        ("", "%z"),
    )
} | {"%Y-%m-%d": "dates", "%d.%m.%Y": "dates"}  # fmt: skip
_LOCAL_DATE = re.compile(r"((\d\d?)([-/.])(\d\d?)\3(\d\d(?:\d\d)?))(?: (.+))?")
"""A date whose first number may be the day or the month. With dots and four digits it is the day: a form of above."""
_EPOCH = ((10**9, 2 * 10**9, 1), (10**12, 2 * 10**12, 1000))
"""Numbers from and below which are seconds and milliseconds since 1970, of 2001 to 2033; and how many make a second."""


class Place(NamedTuple):
    """Where a row stands among others of the same kind.

    Args:
        kind: What the cell holds; cells of two kinds cannot be compared.
        key: Sorts the rows of one kind.
        decimals: Of a number, as it is written.
        day: Of a time; None where it names none, or one of two. Of a number the day in UTC, if it may count from 1970.
    """

    kind: str
    key: Any
    decimals: str = ""
    day: date | None = None


class OrderError(ValueError):
    """The order of the rows is unknown: why, and the position of the one that cannot be placed."""


def place_of(value: Any) -> Place | None:
    """The place that a cell names, or None where it is neither a number nor a time.

    A date whose first number is not the year may be read in two ways. It becomes part of the kind, so that only rows
    of the same day are compared.

    Example:
        >>> place_of("9:58 pm").kind
        'times without a date, with AM or PM'
        >>> place_of("soon")
    """
    if value is None or isinstance(value, bool):
        return None
    for number in (int, float):
        # Whole numbers first: ids of 17 digits and more are not told apart as decimals.
        with suppress(TypeError, ValueError, OverflowError):
            found = value if isinstance(value, int) else number(value)
            if math.isfinite(found):
                seconds = next((found / unit for low, high, unit in _EPOCH if low <= found < high), None)
                return Place(
                    _NUMBERS,
                    found,
                    str(value).partition(".")[2],
                    None if seconds is None else datetime.fromtimestamp(seconds, UTC).date(),
                )
    text = re.sub(r"(?<=\d)T(?=\d)|,?\s+", " ", value) if isinstance(value, str) else ""
    text = re.sub(r" ?([AaPp])\.?[Mm]\.?$", r" \1m", re.sub(r" ?(UTC|GMT)$", "Z", text))
    if (local := _LOCAL_DATE.fullmatch(text)) and not (local[3] == "." and len(local[5]) == 4):
        place = place_of(local[6]) if local[6] else Place("dates", timedelta())
        kind = f"{place.kind.removesuffix(' without a date')} of {local[1]}" if place else ""
        low, high, year = *sorted(map(int, local.group(2, 4))), int(local[5])
        # Two days, unless one number is no month, or both are the same.
        with suppress(ValueError):
            return place and place._replace(
                kind=kind, day=date(year, low, high) if year > 999 and (high > 12 or high == low) else None
            )
    text = re.sub(r"(\.\d{6})\d+", r"\1", re.sub(r"^(\d{4})[/.](\d\d?)[/.]", r"\1-\2-", text))
    for form, kind in _FORMS.items():
        with suppress(ValueError):
            time = datetime.strptime(text.replace(" +", "+").replace(" Z", "Z"), form)
            return Place(kind, time, day=None if kind.startswith(_CLOCK) else time.date())
    return None


def in_order(places: Sequence[Place], lines: Sequence[int]) -> list[int]:
    """The positions of the rows in the order of their places; times that are the same stay in the order of the file.

    Args:
        places: Of the rows.
        lines: Their lines in the file, for errors.

    Raises:
        OrderError: two rows cannot be compared, share a number, may lie on two days, or have numbers that may be read
            in two ways.
    """
    fewest = min(len(place.decimals) for place in places)
    for number, place in enumerate(places):
        if place.kind != places[0].kind:
            mixed = f"{places[0].kind} and {place.kind} are mixed"
            raise OrderError(f"{mixed}; write all as numbers, or all as 2026-03-02T10:15:00", number)
        if len(place.decimals) > max(1, fewest) and place.decimals.endswith("0"):
            problem = (
                "decimals, or two numbers with a dot between them? write whole numbers, or all with as many "
            )
            raise OrderError(f"{problem}decimals", number)
    order = sorted(range(len(places)), key=lambda number: places[number].key)
    if (reordered := order != list(range(len(places)))) and places[0].kind.startswith(_CLOCK):
        # 23:58, 0:02; without AM or PM also 12:58, 1:02.
        longest = timedelta(hours=12 if "AM or PM" in places[0].kind else 6)
        for number, (above, below) in enumerate(pairwise(places), start=1):
            if above.key - below.key > longest:
                problem = (
                    "the time goes back by hours and may be of another day; write the date as well, such as "
                )
                raise OrderError(f"{problem}2026-03-02T10:15:00", number)
    for one, other in pairwise(order):
        if places[one].key == places[other].key and (reordered or places[one].kind == _NUMBERS):
            problem = "number the rows again, or rename one conversation"
            raise OrderError(f"the place is that of line {lines[one]} already; {problem}", other)
    return order


_DELIMITERS = ",;\t|"
_DELIMITER_LINE = re.compile(r'"?sep=(?P<sign>[^\w\s"]|\t)"?[,;\t|]*\s*', re.IGNORECASE)
"""First line of a table that Excel wrote for another country: ``sep=;``."""


class Row(NamedTuple):
    """A row: its first line, its cells by what they hold, and its place and day as far as the table has them."""

    line: int
    cells: Mapping[str, Any]
    place: Place | None = None
    day: date | None = None


Rows = tuple[list[str], Iterable[tuple[int, Mapping[str, Any]]]]
"""The columns of a table, and its rows: the line of each, and its cells by column."""


def csv_rows(reader: SourceReader, path: Path) -> Rows:
    """The columns of a CSV file's first line, and its rows."""
    lines = enumerate(re.split(r"\r\n|\r|\n", _decoded(reader, path)), start=1)
    filled = (line for line in lines if line[1].strip())
    first = next(filled, (1, ""))
    named = _DELIMITER_LINE.fullmatch(first[1])
    first = next(filled, first) if named else first
    delimiter = named["sign"] if named else max(_DELIMITERS, key=first[1].count)
    records = reader.records(path, chain([first], lines), delimiter)
    header = [name.strip() for name in next(records, (1, []))[1]]
    # A comma at the end of the first line makes no column.
    columns = max((number for number, name in enumerate(header, start=1) if name), default=0)

    def rows() -> Iterator[tuple[int, Mapping[str, Any]]]:
        for number, cells in records:
            if len(cells) > len(header) or any(cell.strip() for cell in cells[columns:]):
                reader.bad(
                    path, number, f"The row has {len(cells)} cells, and there are {columns} columns; "
                    f"put a text that holds {delimiter!r} in quotes"
                )  # fmt: skip
            else:
                yield number, dict(zip(header, cells, strict=False))

    return header, rows()


def json_rows(reader: SourceReader, path: Path) -> Rows:
    """The keys of all objects, one a line or in one list, and the rows; those of a list have its numbers for lines."""
    text, listed = _decoded(reader, path), None
    if text.lstrip().startswith("["):
        with suppress(MalformedError):
            listed = from_json(text)
    rows: list[tuple[int, Mapping[str, Any]]] = []
    for number, item in enumerate(text.split("\n") if listed is None else listed, start=1):
        data, problem = item, "no JSON object"
        if listed is None:
            if not item.strip():
                continue
            try:
                data = from_json(item)
            except MalformedError as error:
                problem = f"not JSON: {error.problem}"
        if isinstance(data, dict):
            rows.append((number, data))
        else:
            reader.bad(
                path, number, f"The line is {problem}; write one object a line, and null for an empty cell"
            )
    return list(dict.fromkeys(key for _, cells in rows for key in cells)), rows


def columns_of(header: Sequence[str], named: Mapping[str, str], path: Path) -> dict[str, str]:
    """The table's column for each of :data:`COLUMNS` that it has.

    Args:
        header: The table's columns.
        named: What a map says of them.
        path: The table, for errors.

    Raises:
        DatasetError: the map names what there is not, a column may be one of two, or there is none of texts.
    """
    if unknown := [what for what in named if what not in (*COLUMNS, *ROLES)]:
        raise DatasetError(
            f"Unknown {unknown[0]!r} in the map",
            where=f"--map {unknown[0]}={named[unknown[0]]}",
            remedy=f"Use: {', '.join((*COLUMNS, *ROLES))}.",
        )
    columns: dict[str, str] = {}
    for what in COLUMNS:
        column, where = named.get(what, what), f"{path}:1"
        alike = [name for name in header if name.casefold() == column.casefold()]
        alike = [name for name in alike if name == column] or alike
        if len(alike) > 1:
            raise DatasetError(f"The column {column!r} is there twice", where=where, remedy="Rename one.")
        if alike:
            columns[what] = alike[0]
        elif what in named or what == "text":
            raise DatasetError(
                f"The column {column!r} is missing",
                where=where,
                remedy=f"{'Correct' if what in named else 'Name the column with the messages:'} --map "
                f"{what}={named.get(what, 'COLUMN')}; the columns are: {', '.join(filter(None, header))}.",
            )
    return columns


def cell_value(what: str, value: Any) -> Any:
    """The value of a cell; None where it is empty, or says so in the words of pandas, R or a spreadsheet.

    Args:
        what: The one of :data:`COLUMNS` that it holds. A text may be "None" or "NA".
        value: As it was read.
    """
    if not isinstance(value, str):
        return value
    value = value.strip()
    missing = value in _MISSING if what == "text" else value == "None" or value.casefold() in _NO_VALUE
    return None if missing else value


def _decoded(reader: SourceReader, path: Path) -> str:
    """The text of a file: in the encoding named, else UTF-8 or UTF-16, detected by their marks."""
    raw = reader.bytes(path)
    encoding = reader.encoding or json.detect_encoding(raw)
    try:
        return raw.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DatasetError(
            f"The file is not {encoding.upper().removesuffix('-SIG')}",
            where=f"{path}:{line}",
            remedy="Use --encoding cp1252 (Excel in western Europe) or the one it is in, or save it as UTF-8.",
        ) from error
    except (LookupError, ValueError) as error:
        # Also codecs for other things than files: punycode, undefined.
        raise DatasetError(
            f"No file can be read as {encoding!r}",
            where="--encoding",
            remedy="Use an encoding such as utf-8, cp1252 or latin-1.",
        ) from error
