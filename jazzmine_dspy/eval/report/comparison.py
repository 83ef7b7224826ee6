"""Two programs beside each other: paired differences, slices, outcomes, and the turns that changed."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.eval.report.shown import kind_of, label, pointer
from jazzmine_dspy.eval.report.tables import Cell, Figure, Scored, Table

Document = dict[str, Any]

_AT = "comparison"
_MOST = 20

NOTE = (
    "Differences on the same turns, with 95 % intervals over conversations. p: how often chance alone shows as much, "
    "from swapping the programs in whole conversations; that of further metrics and of slices is adjusted for their "
    "number (Holm)."
)


def held(data: Document) -> dict[str, Any]:
    """That part of a document; empty where nothing was compared."""
    return data.get(_AT) or {}


def sections(data: Document) -> list[tuple[str, Table, str]]:
    """Title, table and note of each part; none where nothing was compared."""
    if not held(data):
        return []
    a, b = held(data)["names"]
    return [
        (f"{b} against {a}", metrics(data), f"{held(data)['verdict']} {NOTE}"),
        (f"{b} against {a}, by slice", slices(data), f"By {held(data)['objective']}."),
        (
            f"{b} against {a}: flags",
            flags(data),
            "Turns that one alone has right; McNemar's test, turn by turn.",
        ),
        ("Outcomes that changed", outcomes(data), "Crashes stand apart from wrong answers."),
        (f"Turns gained by {b}", changed(data, "gained"), ""),
        (f"Turns lost by {b}", changed(data, "lost"), ""),
    ]


def metrics(data: Document) -> Table:
    """The objective and further metrics."""
    found = held(data)
    rows = [_compared((_AT, "main"), label(found["main"]["metric"]), found["main"])]
    rows += [
        _compared((_AT, "others", i), label(one["metric"]), one) for i, one in enumerate(found["others"])
    ]
    return Table("comparison", ("Metric", *_header(data)), tuple(rows), strong=0)


def slices(data: Document) -> Table:
    """The objective by place, command and flow."""
    rows = tuple(
        _compared(
            (_AT, "slices", i, "found"), f"{one['kind']}: {one['name']}", one["found"], tested=one["tested"]
        )
        for i, one in enumerate(held(data)["slices"])
    )
    return Table("comparison-slices", ("Slice", *_header(data)), rows)


def flags(data: Document) -> Table:
    """Yes-or-no parts of the decision."""
    rows = tuple(
        (
            one["name"],
            Figure(pointer(_AT, "flags", i, "only_before"), "count"),
            Figure(pointer(_AT, "flags", i, "only_after"), "count"),
            Figure(pointer(_AT, "flags", i, "p"), "error"),
        )
        for i, one in enumerate(held(data)["flags"])
    )
    a, b = held(data)["names"]
    return Table("comparison-flags", ("Flag", f"{a} alone right", f"{b} alone right", "p"), rows)


def outcomes(data: Document) -> Table:
    """Turns by outcome with either program."""
    rows = tuple(
        (one["before"], one["after"], Figure(pointer(_AT, "outcomes", i, "turns"), "count"))
        for i, one in enumerate(held(data)["outcomes"])
        if one["before"] != one["after"]
    )
    return Table("comparison-outcomes", (*held(data)["names"], "Turns"), rows, texts=2)


def changed(data: Document, which: str) -> Table:
    """The first turns gained, or lost, side by side."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one["message"], one["state"], one["expected"], one["before"], one["after"])
        for one in held(data)[which][:_MOST]
    )
    header = ("Message", "State", "Expected", *held(data)["names"])
    return Table(f"comparison-{which}", header, rows, texts=5)


def _header(data: Document) -> tuple[str, ...]:
    a, b = held(data)["names"]
    return (f"{a}, %", f"{b}, %", "Difference, points", "p", "Gained", "Lost", "Detectable, points", "Turns")


def _compared(
    at: tuple[str | int, ...], name: str, one: dict[str, Any], *, tested: bool = True
) -> tuple[Cell, ...]:
    kind = kind_of(one["metric"])
    p = "p" if one["adjusted"] is None else "adjusted"
    return (
        name,
        Figure(pointer(*at, "before"), kind),
        Figure(pointer(*at, "after"), kind),
        Scored(pointer(*at, "difference"), "points", ("../low", "../high")),
        Figure(pointer(*at, p), "error") if tested else "too few",
        Figure(pointer(*at, "gained"), "count"),
        Figure(pointer(*at, "lost"), "count"),
        Figure(pointer(*at, "detectable"), "share"),
        Figure(pointer(*at, "n"), "count"),
    )
