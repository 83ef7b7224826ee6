"""The order of a conversation's rows: by a column of numbers or of times."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

_NUMBERS = "numbers"
_TIMES = "times without a date"
_NOON = 12

_TIME = re.compile(
    r"(?P<date>(?P<year>\d{4})[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)|\d\d?(?P<sign>[-/.])\d\d?(?P=sign)\d\d(?:\d\d)?)?"
    r"(?:(?(date)(?:,?\s+|T))(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?"
    r"(?:\s*(?P<half>[ap])\.?m\.?)?(?:\s*(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?)?",
    re.IGNORECASE,
)
_MIXED = "write all as numbers, or all as 2026-03-02T10:15:00"


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
    """The order of the rows is unknown.

    Args:
        problem: Why, and what to write instead.
        rows: Positions of the two rows that cannot be ordered.
        same: Whether they share a place.
    """

    def __init__(self, problem: str, rows: tuple[int, int], same: bool = False) -> None:
        super().__init__(problem)
        self.rows, self.same = rows, same


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
    match = _TIME.fullmatch(value) if isinstance(value, str) and value else None
    try:
        return _time(match) if match else None
    except (ValueError, OverflowError):  # no such day or hour
        return None


def _time(match: re.Match[str]) -> Place:
    hour = int(match["hour"] or 0)
    if match["half"]:
        if not 1 <= hour <= _NOON:
            raise ValueError(hour)
        hour = hour % _NOON + (_NOON if match["half"].lower() == "p" else 0)
    day = [int(match[part]) for part in ("year", "month", "day")] if match["year"] else [2000, 1, 1]
    at = datetime(day[0], day[1], day[2], hour, int(match["minute"] or 0), int(match["second"] or 0))
    at -= _offset(match["zone"])
    date = "times" if match["year"] else f"times of {match['date']}" if match["date"] else _TIMES
    kind = date if match["hour"] else date.replace("times", "dates", 1)
    if match["zone"]:
        kind += ", with a time zone"
    if match["half"]:
        kind += ", with AM or PM"
    key = at if match["year"] else at - datetime(2000, 1, 1)
    return Place(kind, (key, (match["fraction"] or "").rstrip("0")))


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone[0] not in "+-":
        return timedelta()
    return datetime.strptime(zone if len(zone) > 3 else f"{zone}00", "%z").utcoffset() or timedelta()


def in_order(places: Sequence[Place]) -> list[int]:
    """The positions of the rows in the order of their places; times that are the same stay in the order of the file.

    Raises:
        OrderError: two rows cannot be compared, share a number, may lie on two days, or have numbers that may be read
            in two ways.
    """
    for number, place in enumerate(places):
        if place.kind != places[0].kind:
            raise OrderError(f"{places[0].kind} and {place.kind} are mixed; {_MIXED}", (0, number))
    _check_decimals(places)
    order = sorted(range(len(places)), key=lambda number: places[number].key)
    reordered = order != list(range(len(places)))
    if reordered and places[0].kind.startswith(_TIMES):
        _check_same_day(places)
    for one, other in pairwise(order):
        if places[one].key == places[other].key and (reordered or places[one].kind == _NUMBERS):
            raise OrderError("", (one, other), same=True)
    return order


def _check_decimals(places: Sequence[Place]) -> None:
    """Refuse numbers such as 1.9 and 1.10, or 999 and 1.000, which may be no decimals: those are as long as others or
    end with no 0."""
    for number, place in enumerate(places):
        if len(place.decimals) > 1 and place.decimals.endswith("0"):
            other = next(
                (at for at, each in enumerate(places) if len(each.decimals) < len(place.decimals)), None
            )
            if other is not None:
                raise OrderError(
                    "decimals, or two numbers with a dot between them? write whole numbers, or all with as many "
                    "decimals",
                    (other, number),
                )


def _check_same_day(places: Sequence[Place]) -> None:
    """Refuse a time that lies so far before the row above it that it may be of the next day (23:58, 0:02)."""
    times = [place.key[0] for place in places]
    half = timedelta(hours=_NOON)
    if "AM or PM" not in places[0].kind and all(
        timedelta(hours=1) <= time < half + timedelta(hours=1) for time in times
    ):
        half /= 2  # 12:58, 1:02: a clock of twelve hours
    for number, (above, below) in enumerate(pairwise(times)):
        if above - below > half:
            raise OrderError(
                "the time goes back by hours and may be of another day; write the date as well, such as "
                "2026-03-02T10:15:00",
                (number, number + 1),
            )
