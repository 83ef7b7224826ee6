"""Which plots a document gives: picks the data out, and leaves the drawing to the charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from jazzmine_dspy.eval.reliability import CRASHED, NONE
from jazzmine_dspy.eval.report.charts import Dot, domain, draw
from jazzmine_dspy.eval.report.shown import (
    PANELS,
    bounded,
    by_source,
    counted,
    explanation,
    label,
)

_OUTCOMES = ("right", "wrong", "degraded", "crashed", "unanswered")
_OTHERS = "(others)"
_MOST = 40
_PANEL = 8


def results(data: dict[str, Any]) -> Markup:
    """Systems next to their colours, and an interval plot for each headline metric that some system has."""
    systems = [(one["name"], _colour(data, place)) for place, one in enumerate(data["systems"])]
    panels = [
        draw(
            "panel",
            label(metric),
            explanation(metric),
            draw("dots", f"{label(metric)}, percent, by system", rows),
        )
        for metric in PANELS
        if (rows := _dots(data, metric))
    ]
    return draw("legend", systems if systems[1:] else ()) + draw("panels", panels, "grid3")


def costs(data: dict[str, Any]) -> Markup:
    """Prompt tokens per turn against quality; nothing where no system sends any, or none can be compared."""
    panels: list[Markup] = []
    tokens = {one["name"]: one["usage"]["prompt_tokens_per_turn"] for one in data["systems"]}
    for metric in ("flow_set_exact", "commands_exact"):
        dots = [dot for dot in _dots(data, metric) if tokens[dot.name] is not None]
        points = [replace(dot, x=tokens[dot.name]) for dot in dots]
        if len(points) > 1 and any(point.x for point in points):
            plot = draw(
                "scatter",
                f"{label(metric)} against prompt tokens per turn",
                points,
                "prompt tokens per turn",
                f"{label(metric).lower()}, %",
            )
            panels.append(draw("panel", label(metric), "", plot))
    return draw("panels", panels, "grid2")


def _dots(data: dict[str, Any], metric: str) -> list[Dot]:
    """The score of each system that has the metric."""
    return [
        _dot(one["name"], score, _colour(data, place), "share", strong=place == data["shipped"])
        for place, one in enumerate(data["systems"])
        if (score := one["metrics"].get(metric))
    ]


def _dot(name: str, score: Mapping[str, Any], colour: str, kind: str, **more: Any) -> Dot:
    return Dot(name, score["value"], score["low"], score["high"], colour, bounded(score, kind), **more)


def _colour(data: dict[str, Any], system: int) -> str:
    """The class of a system's colour; the shipped choice has its own."""
    if system == data["shipped"]:
        return "ship"
    others = [i for i in range(len(data["systems"])) if i != data["shipped"]]
    return f"s{others.index(system) % 6}"


def outcomes(data: dict[str, Any]) -> Markup:
    """The turns of each system by outcome; nothing where no system has any."""
    rows = [
        (
            one["name"],
            counted(one["n"], "turn"),
            [(name, f"o-{name}", n / one["n"]) for name, n in parts.items()],
        )
        for one in data["systems"]
        if (parts := one["outcomes"]) and one["n"]
    ]
    seen = {name for _, _, parts in rows for name, _, share in parts if share}
    legend = draw("legend", [(name, f"o-{name}") for name in _OUTCOMES if name in seen])
    return legend + draw("shares", "Outcomes by system, percent of turns", rows) if rows else Markup()


def gains(data: dict[str, Any]) -> Markup:
    """Paired differences around zero, by metric; nothing where nothing was compared."""
    panels: list[Markup] = []
    for metric in dict.fromkeys(gain["metric"] for gain in data["gains"]):
        rows = [
            _dot(gain["name"], one, _verdict(one), "points")
            for gain in data["gains"]
            if (one := gain["difference"]) and gain["metric"] == metric
        ]
        ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
        span = (min(1.05 * min(0.0, *ends), -0.02), 1.05 * max(0.05, *map(abs, ends)))
        plot = draw("dots", f"Gains in points, {label(metric).lower()}", rows, span, _points)
        panels.append(draw("panel", label(metric), "", plot))
    return draw("panels", panels, "grid2")


def _points(value: float) -> str:
    return f"{100 * value:+g}" if value else "0"


def _verdict(one: dict[str, float]) -> str:
    """The colour of a difference: surely a gain, surely a loss, or neither."""
    if one["low"] is None:
        return "s1"
    return "ship" if one["lower_bound_one_sided"] > 0 else "o-wrong" if one["high"] < 0 else "s1"


def sources(data: dict[str, Any]) -> Markup:
    """Who answered each stage of the shipped choice, and its latency by stage and source; nothing without a stage."""
    system = data["systems"][data["shipped"]]
    rows = [
        (
            stage.capitalize(),
            "",
            [(name, colour, shares[name]) for name, colour in by_source(shares)],
        )
        for stage, shares in system["sources"].items()
    ]
    times = [
        (f"{stage.capitalize()} · {source}", colour, found[source]["p50"], found[source]["p95"])
        for stage, found in system["latency_by_source"].items()
        for source, colour in by_source(found)
    ]
    panels = [
        draw("panel", "Share of turns", "percent, by stage", draw("shares", "Share of turns by source, percent", rows)),
        draw(
            "panel", "Latency", "milliseconds: median · 95th percentile, logarithmic",
            draw("spans", "Latency by source", times),
        ),
    ]  # fmt: skip
    answered = {name for shares in system["sources"].values() for name in shares}
    return draw("legend", by_source(answered)) + draw("panels", panels, "grid2") if times else Markup()


def kinds(data: dict[str, Any]) -> Markup:
    """F1 of each kind of command, most frequent first."""
    metrics = data["systems"][data["shipped"]]["metrics"].items()
    scores = [(name.removeprefix("command_f1/"), one) for name, one in metrics if "command_f1/" in name]
    dots = [
        replace(dot := _dot(name, one, "ship", "share"), text=f"{dot.text}, {counted(one['n'], 'turn')}")
        for name, one in sorted(scores, key=lambda pair: -pair[1]["n"])
    ]
    panels = [
        draw(
            "panel",
            "",
            "",
            draw("dots", "F1 by kind of command, percent", dots[at : at + _PANEL], domain(dots)),
        )
        for at in range(0, len(dots), _PANEL)
    ]
    return draw("panels", panels, "grid2")


def learning(data: dict[str, Any]) -> Markup:
    """The score against the number of labelled conversations, with its interval; nothing for one number."""
    points = [_dot("", one["score"], "ship", "share", x=one["conversations"]) for one in data["learning"]]
    return (
        draw("learning", "Score by number of labelled conversations, percent", points)
        if points[1:]
        else Markup()
    )


def confusion(title: str, pairs: Sequence[Mapping[str, Any]]) -> Markup:
    """Expected and answered flows: the most frequent ones, rare ones as one; (none) and (crashed) last.

    Nothing where each answer is the expected one.
    """
    seen: Counter[str] = Counter()
    for one in pairs:
        seen.update(dict.fromkeys({one["wanted"], one["answered"]}, one["n"]))
    flows = sorted(seen.keys() - {NONE, CRASHED}, key=lambda name: (-seen[name], name))
    names = [*flows[:_MOST], *[_OTHERS] * (len(flows) > _MOST), *(n for n in (NONE, CRASHED) if n in seen)]
    counts: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    for one in pairs:
        wanted, answered = (name if name in names else _OTHERS for name in (one["wanted"], one["answered"]))
        counts[wanted, answered] += one["n"]
        totals[wanted] += one["n"]
    columns = [name for name in names if name != CRASHED or any(key[1] == CRASHED for key in counts)]
    rows = [name for name in names if totals[name]]
    wrong = any(one["wanted"] != one["answered"] for one in pairs)
    return draw("confusion", title, rows, columns, counts, totals) if wrong else Markup()


def reliability(title: str, bins: Sequence[Mapping[str, float]]) -> Markup:
    """How sure against how often right; nothing for one bin, which no curve goes through."""
    return draw("reliability", title, bins) if bins[1:] else Markup()
