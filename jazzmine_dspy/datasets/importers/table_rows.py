"""The rows of a table, CSV in any encoding and with any delimiter or lines of JSON; and their order, by a column of
numbers or of times."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.datasets.importers.source_reader import SourceReader
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.parsing import MalformedError, from_json

_NUMBERS, _CLOCK = "numbers", "times without a date"
_FORMS = {
    " ".join(filter(None, (date, time))) + zone: ("times" if date else _CLOCK)
    + ", with a time zone" * bool(zone)
    + ", with AM or PM" * time.endswith("%p")
    for date, time, zone in product(
        ("%Y-%m-%d", ""), ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p"), ("", "%z")
    )
} | {"%Y-%m-%d": "dates"}  # fmt: skip
_LOCAL_DATE = re.compile(r"(\d\d?([-/.])\d\d?\2\d\d(?:\d\d)?)(?: (.+))?")
"""A date whose first number may be the day or the month."""


class Place(NamedTuple):
    """Where a row stands among others of the same kind.

    Args:
        kind: What the cell holds; cells of two kinds cannot be compared.
        key: Sorts the rows of one kind.
        decimals: Of a number, as it is written.
    """

    kind: str
    key: Any
    decimals: str = ""


class OrderError(ValueError):
    """The order of the rows is unknown; ``row`` is the position of the one that cannot be placed."""

    def __init__(self, problem: str, row: int) -> None:
        super().__init__(problem)
        self.row = row


def place_of(value: Any) -> Place | None:
    """The place that a cell names, or None where it is neither a number nor a time.

    A date whose first number is not the year may be read in two ways. It becomes part of the kind, so that only rows
    of the same day are compared.

    Example:
        >>> place_of("9:58 pm").kind
        'times without a date, with AM or PM'
        >>> place_of("soon")
    """
    if isinstance(value, bool):
        return None
    for number in (int, float):
        # Whole numbers first: ids of 17 digits and more are not told apart as decimals.
        with suppress(TypeError, ValueError, OverflowError):
            found = value if isinstance(value, int) else number(value)
            if math.isfinite(found):
                return Place(_NUMBERS, found, str(value).partition(".")[2])
    text = re.sub(r"(?<=\d)T(?=\d)|,?\s+", " ", value) if isinstance(value, str) else ""
    text = re.sub(r" ?([AaPp])\.?[Mm]\.?$", r" \1m", re.sub(r" ?(UTC|GMT)$", "Z", text))
    if local := _LOCAL_DATE.fullmatch(text):
        place = place_of(local[3]) if local[3] else Place("dates", timedelta())
        return place and place._replace(kind=f"{place.kind.removesuffix(' without a date')} of {local[1]}")
    text = re.sub(r"(\.\d{6})\d+", r"\1", re.sub(r"^(\d{4})[/.](\d\d?)[/.]", r"\1-\2-", text))
    for form, kind in _FORMS.items():
        with suppress(ValueError):
            return Place(kind, datetime.strptime(text.replace(" +", "+").replace(" Z", "Z"), form))
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
    reordered = order != list(range(len(places)))
    if reordered and places[0].kind.startswith(_CLOCK):
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
            problem = "number the rows anew, or rename one conversation"
            raise OrderError(f"the place is that of line {lines[one]} already; {problem}", other)
    return order


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
            data = from_json(line)
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
