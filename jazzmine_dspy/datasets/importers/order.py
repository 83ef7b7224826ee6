"""The order of a conversation's rows: by a column of numbers or of times."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise, product
from typing import Any, NamedTuple

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
