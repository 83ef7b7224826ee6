"""Two programs next to each other: paired differences, slices, outcomes, and the turns that changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jazzmine_dspy.eval.report.shown import (
    DASH,
    Column,
    Figure,
    Section,
    figure,
    first_of,
    kind_of,
    label,
    listed,
    numbered,
)

_MOST = 20

NOTE = (
    "Differences on the same turns, with 95 % intervals over conversations. p: how often chance alone shows as much, "
    "from swapping the programs in whole conversations; that of further metrics and of slices is adjusted for their "
    "number (Holm). Under 10 conversations there is neither."
)


def comparison(data: dict[str, Any]) -> Sequence[Section]:
    """The sections of a comparison; none where nothing was compared."""
    if not (found := data.get("comparison")):
        return ()
    a, b = found["names"]
    metrics = [("/comparison/main", found["main"]), *numbered(data, "/comparison/others")]
    slices = numbered(data, "/comparison/slices")
    outcomes = numbered(data, "/comparison/outcomes")
    texts: Iterable[tuple[str, Column]] = (
        ("Message", "message"),
        ("State", "state"),
        ("Expected", "expected"),
        (a, "before"),
        (b, "after"),
    )
    return (
        Section(
            f"{b} against {a}",
            f"{found['verdict']} {NOTE}",
            tables=[
                listed(
                    "comparison",
                    [(at, one | {"name": label(one["metric"]), "tested": True}) for at, one in metrics],
                    *_columns("Metric", a, b),
                    strong=0,
                )
            ],
        ),
        Section(
            f"{b} against {a}, by slice",
            f"By {found['objective']}.",
            tables=[
                listed(
                    "comparison-slices",
                    [
                        (
                            f"{at}/found",
                            one["found"] | {"name": f"{one['kind']}: {one['name']}", "tested": one["tested"]},
                        )
                        for at, one in slices
                    ],
                    *_columns("Slice", a, b),
                )
            ],
        ),
        Section(
            "Outcomes that changed",
            "Crashes stand apart from wrong answers.",
            tables=[
                listed(
                    "comparison-outcomes",
                    [(at, one) for at, one in outcomes if one["before"] != one["after"]],
                    (a, "before"),
                    (b, "after"),
                    ("Turns", figure("turns", "count")),
                    texts=2,
                )
            ],
        ),
        *(
            Section(
                f"Turns {which} by {b}",
                note,
                tables=[listed(f"comparison-{which}", turns, *texts, texts=5)],
            )
            for which in ("gained", "lost")
            for turns, note in (first_of(numbered(data, f"/comparison/{which}"), _MOST, "turn"),)
        ),
    )


def _columns(heading: str, a: str, b: str) -> list[tuple[str, Column]]:
    return [
        (heading, "name"),
        (f"{a}, %", lambda one: figure("before", kind_of(one["metric"]))),
        (f"{b}, %", lambda one: figure("after", kind_of(one["metric"]))),
        ("Difference, points", Figure("points", ("difference", "low", "high"))),
        (
            "p",
            lambda one: (
                figure("p" if one["adjusted"] is None else "adjusted", "error") if one["tested"] else DASH
            ),
        ),
        ("Gained", figure("gained", "count")),
        ("Lost", figure("lost", "count")),
        ("Detectable, points", figure("detectable", "share")),
        ("Turns", figure("n", "count")),
    ]
