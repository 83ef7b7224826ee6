"""Two programs beside each other: paired differences, slices, outcomes, and the turns that changed."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.eval.report.shown import (
    Cell,
    Column,
    Figure,
    Table,
    figure,
    kind_of,
    label,
    listed,
    numbered,
)

_MOST = 20

NOTE = (
    "Differences on the same turns, with 95 % intervals over conversations. p: how often chance alone shows as much, "
    "from swapping the programs in whole conversations; that of further metrics and of slices is adjusted for their "
    "number (Holm)."
)


def sections(data: dict[str, Any]) -> list[tuple[str, Table, str]]:
    """Title, table and note of each part; none where nothing was compared."""
    comparison = data.get("comparison")
    if not comparison:
        return []
    a, b = comparison["names"]
    return [
        (f"{b} against {a}", _metrics(comparison), f"{comparison['verdict']} {NOTE}"),
        (f"{b} against {a}, by slice", _slices(comparison), f"By {comparison['objective']}."),
        (
            f"{b} against {a}: flags",
            _flags(comparison),
            "Turns that one alone has right; McNemar's test, turn by turn.",
        ),
        ("Outcomes that changed", _outcomes(comparison), "Crashes stand apart from wrong answers."),
        (f"Turns gained by {b}", _changed(comparison, "gained"), ""),
        (f"Turns lost by {b}", _changed(comparison, "lost"), ""),
    ]


def _metrics(comparison: dict[str, Any]) -> Table:
    """The objective and further metrics."""
    metrics = [
        ("/comparison/main", comparison["main"]),
        *numbered("/comparison/others", comparison["others"]),
    ]
    items = [(at, one | {"name": label(one["metric"]), "tested": True}) for at, one in metrics]
    return listed("comparison", items, *_columns("Metric", *comparison["names"]), strong=0)


def _slices(comparison: dict[str, Any]) -> Table:
    """The objective by place, command and flow."""
    items = (
        (f"{at}/found", {**one["found"], "name": f"{one['kind']}: {one['name']}", "tested": one["tested"]})
        for at, one in numbered("/comparison/slices", comparison["slices"])
    )
    return listed("comparison-slices", items, *_columns("Slice", *comparison["names"]))


def _columns(heading: str, a: str, b: str) -> list[tuple[str, Column]]:
    return [
        (heading, "name"),
        (f"{a}, %", lambda one: figure("before", kind_of(one["metric"]))),
        (f"{b}, %", lambda one: figure("after", kind_of(one["metric"]))),
        ("Difference, points", Figure("points", ("difference", "low", "high"))),
        ("p", _chance),
        ("Gained", figure("gained", "count")),
        ("Lost", figure("lost", "count")),
        ("Detectable, points", figure("detectable", "share")),
        ("Turns", figure("n", "count")),
    ]


def _chance(one: dict[str, Any]) -> Cell:
    return figure("p" if one["adjusted"] is None else "adjusted", "error") if one["tested"] else "too few"


def _flags(comparison: dict[str, Any]) -> Table:
    """Yes-or-no parts of the decision."""
    a, b = comparison["names"]
    return listed(
        "comparison-flags",
        numbered("/comparison/flags", comparison["flags"]),
        ("Flag", "name"),
        (f"{a} alone right", figure("only_before", "count")),
        (f"{b} alone right", figure("only_after", "count")),
        ("p", figure("p", "error")),
    )


def _outcomes(comparison: dict[str, Any]) -> Table:
    """Turns by outcome with either program."""
    a, b = comparison["names"]
    items = numbered("/comparison/outcomes", comparison["outcomes"])
    moved = ((at, one) for at, one in items if one["before"] != one["after"])
    columns = ((a, "before"), (b, "after"), ("Turns", figure("turns", "count")))
    return listed("comparison-outcomes", moved, *columns, texts=2)


def _changed(comparison: dict[str, Any], which: str) -> Table:
    """The first turns gained, or lost, side by side."""
    a, b = comparison["names"]
    columns = (
        ("Message", "message"),
        ("State", "state"),
        ("Expected", "expected"),
        (a, "before"),
        (b, "after"),
    )
    return listed(f"comparison-{which}", numbered("", comparison[which][:_MOST]), *columns, texts=5)
