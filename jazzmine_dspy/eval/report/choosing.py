"""How the selection of flows was fitted: recall, confidence, the curve of what sending turns on is worth, open set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.eval.report import charts, matrices
from jazzmine_dspy.eval.report.charts import Scale
from jazzmine_dspy.eval.report.markup import Markup, join, tag
from jazzmine_dspy.eval.report.shown import pointer
from jazzmine_dspy.eval.report.tables import Cell, Figure, Scored, Table

Document = dict[str, Any]

_AT = "choosing"
_SHOWN_SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)


def held(data: Document) -> dict[str, Any]:
    """That part of a document; empty in one that is not of a run."""
    return data.get(_AT) or {}


def words(data: Document) -> Table:
    """What was decided of gates and order."""
    return Table(
        "gates",
        ("", "Decided"),
        tuple((str(i), text) for i, text in enumerate(held(data).get("words", ()), 1)),
        texts=2,
    )


def recall(data: Document) -> Table:
    """Ways to recall that were tried, on turns whose own conversation was left out."""
    rows = tuple(
        (
            one["name"],
            "kept" if one["kept"] else "dropped",
            *(Figure(pointer(_AT, "recall", i, f"recall_at_{k}"), "share") for k in (1, 3, 5)),
            Figure(pointer(_AT, "recall", i, "n"), "count"),
        )
        for i, one in enumerate(held(data).get("recall", ()))
    )
    header = ("Recall", "Verdict", "At 1, %", "At 3, %", "At 5, %", "Turns")
    return Table("recall", header, rows, texts=2)


def trust(data: Document) -> Table:
    """How far the head's confidence can be believed, out of fold, by bin."""
    found = held(data).get("reliability") or {"bins": []}
    at = (_AT, "reliability", "bins")
    rows = tuple(
        (
            Figure(pointer(*at, i, "confidence"), "share"),
            Scored(pointer(*at, i, "accuracy"), "share", ("../low", "../high")),
            Figure(pointer(*at, i, "n"), "count"),
        )
        for i in range(len(found["bins"]))
    )
    return Table("head-reliability", ("Head's confidence, %", "Flows right, %", "Turns"), rows)


def curves(data: Document) -> Table:
    """Quality at some shares of turns that are sent on."""
    rows: list[tuple[Cell, ...]] = []
    for i, one in enumerate(held(data).get("curves", ())):
        points = one["points"]
        nearest = [
            min(range(len(points)), key=lambda j: abs(points[j]["share"] - share)) for share in _SHOWN_SHARES
        ]
        rows += [
            (
                one["name"],
                "assumed" if one["assumed"] else "measured",
                Figure(pointer(_AT, "curves", i, "points", j, "share"), "share"),
                Figure(pointer(_AT, "curves", i, "points", j, "quality"), "share"),
                Figure(pointer(_AT, "curves", i, "n"), "count"),
            )
            for j in dict.fromkeys(nearest)
        ]
    header = ("Sent on to", "Source", "Turns sent on, %", "Flows right, %", "Turns")
    return Table("curves", header, tuple(rows), texts=2)


def open_set(data: Document) -> Table:
    """Scores that tell turns that want a flow from others."""
    found = held(data).get("open_set", ())
    names = list(dict.fromkeys(name for one in found for name in one["figures"]))
    rows = tuple(
        (
            one["name"],
            "kept" if one["kept"] else "dropped",
            *(Figure(pointer(_AT, "open_set", i, "figures", name), "share") for name in names),
        )
        for i, one in enumerate(found)
    )
    return Table("open-set", ("Open-set score", "Verdict", *(f"{name}, %" for name in names)), rows, texts=2)


def reliability(data: Document) -> Markup:
    """The head's confidence against its accuracy, out of fold."""
    bins = held(data)["reliability"]["bins"]
    return matrices.reliability("Confidence of the local head, out of fold", bins)


def curve(data: Document, width: float = 520.0) -> Markup:
    """Quality against the share of turns sent on; a dashed line is of an assumed source."""
    found: Sequence[dict[str, Any]] = held(data)["curves"]
    every = [point["quality"] for one in found for point in one["points"]]
    low, high = charts.domain(every)
    left, top, bottom = 44.0, 14.0, 250.0
    x, y = Scale(0, 1, left, width - 16), Scale(low, high, bottom, top)
    parts: list[Markup] = []
    for value in charts.ticks(low, high, 5):
        parts += [
            tag("line", cls="grid", x1=left, x2=width - 16, y1=y(value), y2=y(value)),
            charts.text(left - 8, y(value) + 4, charts.percent(value), "k", "end"),
        ]
    parts += [
        charts.text(x(value), bottom + 18, charts.percent(value), "k", "middle")
        for value in charts.ticks(0, 1)
    ]
    parts.append(charts.text(width - 16, bottom + 36, "turns sent on, %", "k", "end"))
    for number, one in enumerate(found):
        places = " ".join(f"{x(p['share']):.1f},{y(p['quality']):.1f}" for p in one["points"])
        parts.append(
            tag(
                "g",
                tag("title", one["name"]),
                tag(
                    "polyline",
                    points=places,
                    fill="none",
                    stroke="var(--c)",
                    stroke_width=2.5,
                    stroke_dasharray="5 5" if one["assumed"] else None,
                ),
                cls=_colour(number),
            )
        )
    label = "Flows right, percent, by share of turns sent on from the head"
    names = [
        (one["name"] + (" (assumed)" if one["assumed"] else ""), _colour(i)) for i, one in enumerate(found)
    ]
    return tag("div", charts.svg(width, bottom + 44, label, *parts), charts.legend(names))


def told(data: Document) -> Markup:
    """The decisions as a list."""
    return tag("ul", *(tag("li", text) for text in held(data)["words"]))


def _colour(number: int) -> str:
    return "ship" if not number else f"s{(number - 1) % 6}"


def calibration(figure: Markup) -> Markup:
    """The line above the diagram."""
    return join(
        "Each turn judged by a model that saw no turn of its conversation. Expected calibration error: ",
        figure,
        " points.",
    )
