"""Which plots a document gives: picks the data out, and leaves most of the drawing to the charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jazzmine_dspy.eval.reliability import CRASHED, NONE
from jazzmine_dspy.eval.report import charts
from jazzmine_dspy.eval.report.charts import Dot, Scale, svg, text
from jazzmine_dspy.eval.report.markup import Markup, tag
from jazzmine_dspy.eval.report.shown import PANELS, STAGE_NAMES, bounded, by_source, explanation, label

Document = dict[str, Any]

_OUTCOMES = (("right", "o-right"), ("wrong", "o-wrong"), ("degraded", "o-degraded"), ("crashed", "o-crashed"))


def colour(data: Document, system: int) -> str:
    """The class of a system's colour; the shipped choice has its own."""
    if system == data["shipped"]:
        return "ship"
    others = [i for i in range(len(data["systems"])) if i != data["shipped"]]
    return f"s{others.index(system) % 6}"


def legend_of_systems(data: Document) -> Markup:
    """Systems beside their colours."""
    return charts.legend([(one["name"], colour(data, i)) for i, one in enumerate(data["systems"])])


def panels(data: Document) -> Iterator[Markup]:
    """One interval plot for each headline metric that some system has."""
    for metric in PANELS:
        rows = [
            _dot(data, i, one["name"], one["metrics"][metric])
            for i, one in enumerate(data["systems"])
            if metric in one["metrics"]
        ]
        if rows:
            plot = charts.dots(f"{label(metric)}, percent, by system", rows)
            yield _panel(label(metric), explanation(metric), plot)


def costs(data: Document) -> Iterator[Markup]:
    """Prompt tokens per turn against quality."""
    for metric in ("flow_set_exact", "commands_exact"):
        points = [
            replace(_dot(data, i, one["name"], score), x=one["usage"]["prompt_tokens_per_turn"])
            for i, one in enumerate(data["systems"])
            if (score := one["metrics"].get(metric)) and one["usage"]["prompt_tokens_per_turn"] is not None
        ]
        if points:
            title = f"{label(metric)} against prompt tokens per turn"
            up = f"{label(metric).lower()}, %"
            plot = charts.scatter(title, points, across="prompt tokens per turn", up=up)
            yield _panel(label(metric), "", plot)


def outcomes(data: Document) -> Markup:
    """Right, wrong, degraded and crashed turns of each system."""
    rows = [
        (one["name"], [(name, cls, one["outcomes"][name] / max(1, one["n"])) for name, cls in _OUTCOMES])
        for one in data["systems"]
        if one["outcomes"]
    ]
    plot = charts.wide(charts.shares("Outcomes by system, percent of turns", rows, width=1060))
    return tag("div", charts.legend([(name, cls) for name, cls in _OUTCOMES]), plot)


def gains(data: Document) -> Markup:
    """Paired differences around zero; empty where there are none."""
    found = [gain["difference"] for gain in data["gains"]]
    if not found:
        return Markup("")
    ends = [end for one in found for end in (one["value"], one["low"], one["high"]) if end is not None]
    reach = max(0.05, *map(abs, ends)) * 1.05
    low = min(0.0, *ends) * 1.05
    rows = [
        Dot(
            f"{gain['name']} · {label(gain['metric']).lower()}",
            one["value"],
            one["low"],
            one["high"],
            _verdict(one),
            bounded(one, "points"),
        )
        for gain, one in zip(data["gains"], found, strict=True)
    ]
    span = (min(low, -0.02), reach)
    names = 40 + 6.4 * max(len(row.name) for row in rows)
    return charts.wide(
        charts.compact(
            "Gains in points",
            rows,
            span=span,
            tick=lambda value: f"{100 * value:+g}" if value else "0",
            width=1060,
            names=names,
        )
    )


def _verdict(one: dict[str, float]) -> str:
    """The colour of a difference: surely a gain, surely a loss, or neither."""
    if one["low"] is None:
        return "s1"
    return "ship" if one["lower_bound_one_sided"] > 0 else "o-wrong" if one["high"] < 0 else "s1"


def legend_of_sources(data: Document) -> Markup:
    """Sources that answered anything, beside their colours."""
    held = {name for shares in data["systems"][data["shipped"]]["sources"].values() for name in shares}
    return charts.legend(by_source(held))


def sources(data: Document) -> Markup:
    """Who answered each stage of the shipped choice."""
    held = data["systems"][data["shipped"]]["sources"]
    rows = [
        (STAGE_NAMES.get(stage, stage), [(name, colour, shares[name]) for name, colour in by_source(shares)])
        for stage, shares in held.items()
    ]
    plot = charts.shares("Share of turns by source, percent", rows, width=520, names=100)
    return _panel("Share of turns", "percent, by stage", plot)


def latencies(data: Document) -> Markup | None:
    """Latency by stage and source of the shipped choice."""
    rows = [
        (f"{STAGE_NAMES.get(stage, stage)} · {source}", colour, held[source]["p50"], held[source]["p95"])
        for stage, held in data["systems"][data["shipped"]]["latency_by_source"].items()
        for source, colour in by_source(held)
    ]
    if not rows:
        return None
    return _panel(
        "Latency", "median · 95th percentile, logarithmic", charts.spans("Latency by source", rows, width=520)
    )


def kinds(data: Document) -> Markup:
    """F1 of each kind of command, most frequent first; empty where there are none."""
    metrics = data["systems"][data["shipped"]]["metrics"]
    held = [(name, one) for name, one in metrics.items() if name.startswith("command_f1/")]
    rows = [
        Dot(
            name.removeprefix("command_f1/"),
            one["value"],
            one["low"],
            one["high"],
            "ship",
            f"{bounded(one, 'share')} n = {one['n']}",
        )
        for name, one in sorted(held, key=lambda pair: -pair[1]["n"])
    ]
    plot = charts.compact("F1 by kind of command, percent", rows, width=1060) if rows else None
    return charts.wide(plot) if plot else Markup("")


def _dot(data: Document, system: int, name: str, held: dict[str, float]) -> Dot:
    figure = bounded(held, "share")
    strong = system == data["shipped"]
    return Dot(name, held["value"], held["low"], held["high"], colour(data, system), figure, strong)


def _panel(title: str, note: str, plot: Markup) -> Markup:
    return tag("figure", tag("figcaption", tag("b", title), tag("small", note) if note else None), plot)


def learning(data: Document, width: float = 520.0) -> Markup:
    """The score against the number of labelled conversations, with its interval; empty where there are none."""
    points = data["learning"]
    if not points:
        return Markup("")
    scores = [one["score"] for one in points]
    low, high = charts.domain([v for s in scores for v in (s["value"], s["low"], s["high"]) if v is not None])
    left, top, bottom = 44.0, 14.0, 250.0
    most = max(1, *(one["conversations"] for one in points))
    x, y = Scale(0, most, left, width - 16), Scale(low, high, bottom, top)
    parts = charts.levels(y, charts.ticks(low, high, 5), left, width - 16)
    for one in points:
        at, score = x(one["conversations"]), one["score"]
        parts.append(text(at, bottom + 18, str(one["conversations"]), "k", "middle"))
        if score["low"] is not None:
            parts.append(
                tag(
                    "line",
                    cls="ship",
                    x1=at,
                    x2=at,
                    y1=y(score["low"]),
                    y2=y(score["high"]),
                    stroke="var(--c)",
                )
            )
        parts.append(tag("circle", cls="ship", cx=at, cy=y(score["value"]), r=4, fill="var(--c)"))
    places = " ".join(f"{x(one['conversations']):.1f},{y(one['score']['value']):.1f}" for one in points)
    line = tag("polyline", points=places, fill="none", stroke="var(--c)", stroke_width=2)
    parts.append(tag("g", line, cls="ship"))
    parts.append(text(width - 16, bottom + 36, "labelled conversations", "k", "end"))
    label_of = "Score by number of labelled conversations, percent"
    return tag("div", svg(width, bottom + 44, label_of, *parts))


_MOST = 24


def confusion(label: str, counts: Sequence[Mapping[str, Any]]) -> Markup:
    """Wanted flows down, answered flows across, shaded by their share of the row; right answers are the
    diagonal. Empty without counts."""
    if not counts:
        return Markup("")
    names = _flow_names(counts)
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


def _flow_names(counts: Sequence[Mapping[str, Any]]) -> list[str]:
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
    """How sure against how often right, with Wilson's intervals; below, how many turns were how sure. Empty without
    bins."""
    if not bins:
        return Markup("")
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
