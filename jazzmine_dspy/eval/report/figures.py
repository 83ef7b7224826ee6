"""Which plots a document gives: picks the data out, and leaves the drawing to the charts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jazzmine_dspy.eval.report import charts
from jazzmine_dspy.eval.report.charts import Dot
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
    """Paired differences around zero."""
    found = [gain["difference"] for gain in data["gains"]]
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


def kinds(data: Document) -> Markup | None:
    """F1 of each kind of command, most frequent first."""
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
    return charts.wide(charts.compact("F1 by kind of command, percent", rows, width=1060)) if rows else None


def _dot(data: Document, system: int, name: str, held: dict[str, float]) -> Dot:
    figure = bounded(held, "share")
    strong = system == data["shipped"]
    return Dot(name, held["value"], held["low"], held["high"], colour(data, system), figure, strong)


def _panel(title: str, note: str, plot: Markup) -> Markup:
    return tag("figure", tag("figcaption", tag("b", title), tag("small", note) if note else None), plot)


def learning(data: Document, width: float = 520.0) -> Markup:
    """The score against the number of labelled conversations, with its interval."""
    points = data["learning"]
    scores = [one["score"] for one in points]
    low, high = charts.domain([v for s in scores for v in (s["value"], s["low"], s["high"]) if v is not None])
    left, top, bottom = 44.0, 14.0, 250.0
    most = max(1, *(one["conversations"] for one in points))
    x, y = charts.Scale(0, most, left, width - 16), charts.Scale(low, high, bottom, top)
    parts = charts.levels(y, charts.ticks(low, high, 5), left, width - 16)
    for one in points:
        at, score = x(one["conversations"]), one["score"]
        parts.append(charts.text(at, bottom + 18, str(one["conversations"]), "k", "middle"))
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
    parts.append(charts.text(width - 16, bottom + 36, "labelled conversations", "k", "end"))
    label_of = "Score by number of labelled conversations, percent"
    return tag("div", charts.svg(width, bottom + 44, label_of, *parts))
