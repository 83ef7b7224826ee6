"""Plots of selection: which flow is taken for which, and whether confidence is to be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jazzmine_dspy.eval.reliability import CRASHED, NONE
from jazzmine_dspy.eval.report.charts import Scale, svg, text
from jazzmine_dspy.eval.report.markup import Markup, tag

_MOST = 24


def confusion(label: str, counts: Sequence[Mapping[str, Any]]) -> Markup:
    """Wanted flows down, answered flows across, shaded by their share of the row; right answers are the
    diagonal."""
    names = _names(counts)
    held: dict[tuple[str, str], int] = {}
    for one in counts:
        wanted, answered = (
            name if name in names else "(others)" for name in (one["wanted"], one["answered"])
        )
        held[wanted, answered] = held.get((wanted, answered), 0) + one["n"]
    columns = [name for name in names if name != CRASHED or any(key[1] == CRASHED for key in held)]
    rows = [name for name in names if any(key[0] == name for key in held)]
    totals = {row: sum(n for key, n in held.items() if key[0] == row) for row in rows}
    cell, left, top = 25.0, 148.0, 112.0
    width, height = left + cell * len(columns) + 70, top + cell * len(rows) + 8
    parts = [
        text(
            left + cell * i + 16,
            top - 8,
            name,
            "k",
            "start",
            transform=f"rotate(-50 {left + cell * i + 16:g} {top - 8:g})",
        )
        for i, name in enumerate(columns)
    ]
    for r, row in enumerate(rows):
        y = top + cell * r
        parts.append(text(left - 8, y + 16.5, row, "t small", "end"))
        for c, column in enumerate(columns):
            n = held.get((row, column), 0)
            parts.append(_cell(left + cell * c, y, cell, row, column, n, n / totals[row]))
    return svg(width, height, label, *parts)


def _cell(x: float, y: float, size: float, row: str, column: str, n: int, share: float) -> Markup:
    if not n:
        return tag("rect", cls="blank", x=x + 0.75, y=y + 0.75, width=size - 1.5, height=size - 1.5, rx=3)
    right = row == column
    opacity = 0.14 + 0.86 * share
    said = f"{row} answered as {column}: {n} ({100 * share:.0f} %)"
    box = tag(
        "rect",
        cls="hit" if right else "miss",
        x=x + 0.75,
        y=y + 0.75,
        width=size - 1.5,
        height=size - 1.5,
        rx=3,
        fill_opacity=f"{opacity:.2f}",
    )
    number = text(x + size / 2, y + size / 2 + 4, str(n), "oncell" if opacity > 0.55 else "cell", "middle")
    return tag("g", tag("title", said), box, number)


def _names(counts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Flows by how often they are wanted or answered, rare ones as one; (none) and (crashed) last."""
    seen: dict[str, int] = {}
    for one in counts:
        for name in {one["wanted"], one["answered"]}:
            seen[name] = seen.get(name, 0) + one["n"]
    flows = sorted(
        (name for name in seen if name not in (NONE, CRASHED)), key=lambda name: (-seen[name], name)
    )
    kept = flows[:_MOST]
    others = ["(others)"] if len(flows) > _MOST else []
    return kept + others + [name for name in (NONE, CRASHED) if name in seen]


def reliability(label: str, bins: Sequence[Mapping[str, float]], width: float = 400.0) -> Markup:
    """How sure against how often right, with Wilson's intervals; below, how many turns were how sure."""
    left, top, side, low = 44.0, 10.0, width - 60.0, 64.0
    bottom = top + side * 0.78
    x, y = Scale(0, 1, left, left + side), Scale(0, 1, bottom, top)
    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts += [
            tag("line", cls="grid", x1=left, x2=left + side, y1=y(tick), y2=y(tick)),
            text(left - 8, y(tick) + 4, f"{100 * tick:g}", "k", "end"),
            text(x(tick), bottom + low + 34, f"{100 * tick:g}", "k", "middle"),
        ]
    parts.append(tag("line", cls="ideal", x1=x(0), x2=x(1), y1=y(0), y2=y(1)))
    most = max(one["n"] for one in bins)
    base = bottom + low + 18
    for one in bins:
        place = x(one["confidence"])
        long = low * one["n"] / most
        said = f"{one['n']} turns, {100 * one['confidence']:.0f} % sure, {100 * one['accuracy']:.0f} % right"
        parts.append(
            tag(
                "g",
                tag("title", said),
                tag("line", cls="gap", x1=place, x2=place, y1=y(one["confidence"]), y2=y(one["accuracy"])),
                tag("line", cls="whisker", x1=place, x2=place, y1=y(one["low"]), y2=y(one["high"])),
                tag("circle", cls="dot", cx=place, cy=y(one["accuracy"]), r=5.2),
                tag("rect", cls="bar", x=place - 8, y=base - long, width=16.0, height=max(1.0, long), rx=2),
                cls="ship",
            )
        )
    parts += [
        tag("line", cls="axis", x1=left, x2=left + side, y1=base, y2=base),
        text(left + side, bottom + low + 52, "confidence, % · bars: number of turns", "k", "end"),
        text(left + 6, top + 12, "flows right, %", "k"),
    ]
    return svg(width, bottom + low + 60, label, *parts)
