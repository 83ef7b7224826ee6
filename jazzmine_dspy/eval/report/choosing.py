"""How the selection of flows was fitted: recall, confidence, open set."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.eval.report import matrices
from jazzmine_dspy.eval.report.markup import Markup, join, tag
from jazzmine_dspy.eval.report.shown import pointer
from jazzmine_dspy.eval.report.tables import Figure, Scored, Table

Document = dict[str, Any]

_AT = "choosing"


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


def told(data: Document) -> Markup:
    """The decisions as a list."""
    return tag("ul", *(tag("li", text) for text in held(data)["words"]))


def calibration(figure: Markup) -> Markup:
    """The line above the diagram."""
    return join(
        "Each turn judged by a model that saw no turn of its conversation. Expected calibration error: ",
        figure,
        " points.",
    )
