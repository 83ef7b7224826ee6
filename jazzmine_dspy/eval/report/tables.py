"""The tables of a report. A cell with a figure points into the document, so that HTML and Markdown cannot
differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jazzmine_dspy.eval.evaluation import SLICE_METRICS
from jazzmine_dspy.eval.report.shown import (
    DASH,
    HEADLINE,
    STAGE_NAMES,
    explanation,
    kind_of,
    label,
    ordered,
    pointer,
    resolve,
)

Document = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One figure of the document; ``kind`` as in :func:`shown`."""

    path: str
    kind: str


@dataclass(frozen=True)
class Scored:
    """A value with its bounds, all three below one path."""

    path: str
    kind: str
    bounds: tuple[str, str] = ("low", "high")


Cell = str | Figure | Scored


@dataclass(frozen=True)
class Table:
    """Header and rows; ``strong`` is the row to be stressed, ``texts`` how many columns from the left are
    texts."""

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    strong: int | None = None
    texts: int = 1
    hints: tuple[str, ...] = ()


def headline(data: Document) -> Table:
    """The five rows: quality, cost, and what went wrong."""
    rows = []
    for i, system in enumerate(data["systems"]):
        at = ("systems", i)
        rows.append(
            (
                system["name"],
                *(_metric(data, i, name) for name in HEADLINE),
                Figure(pointer(*at, "usage", "lm_calls_per_turn"), "calls"),
                Figure(pointer(*at, "usage", "prompt_tokens_per_turn"), "tokens"),
                Figure(pointer(*at, "usage", "completion_tokens_per_turn"), "tokens"),
                Figure(pointer(*at, "usage", "cost_per_turn"), "money"),
                Figure(pointer(*at, "usage", "latency_ms", "p50"), "ms"),
                Figure(pointer(*at, "usage", "latency_ms", "p95"), "ms"),
                Figure(pointer(*at, "degraded"), "count"),
                Figure(pointer(*at, "crashed"), "count"),
                Figure(pointer(*at, "n"), "count"),
            )
        )
    header = (
        "System", *(f"{label(name)}, %" for name in HEADLINE), "LM calls per turn", "Prompt tokens per turn",
        "Answer tokens per turn", "Cost per turn", "p50, ms", "p95, ms", "Degraded", "Crashed", "Turns",
    )  # fmt: skip
    return Table("headline", header, tuple(rows), strong=data["shipped"])


def all_metrics(data: Document) -> Table:
    """Every metric of every system."""
    names = ordered({name for system in data["systems"] for name in system["metrics"]})
    rows = []
    for name in names:
        scores = [_metric(data, i, name) for i in range(len(data["systems"]))]
        counts = {
            i: held["metrics"][name]["n"] for i, held in enumerate(data["systems"]) if name in held["metrics"]
        }
        most = max(counts, key=lambda i: counts[i])
        rows.append((label(name), *scores, Figure(pointer("systems", most, "metrics", name, "n"), "count")))
    header = ("Metric", *(system["name"] for system in data["systems"]), "Turns")
    return Table("metrics", header, tuple(rows), hints=tuple(explanation(name) for name in names))


def gains(data: Document) -> Table:
    """Paired differences behind the first line."""
    rows = tuple(
        (
            gain["name"],
            label(gain["metric"]),
            Scored(pointer("gains", i, "difference"), "points"),
            Figure(pointer("gains", i, "difference", "detectable"), "share"),
            Figure(pointer("gains", i, "difference", "n"), "count"),
        )
        for i, gain in enumerate(data["gains"])
    )
    return Table("gains", ("Step", "Metric", "Gain, points", "Detectable, points", "Turns"), rows, texts=2)


def candidates(data: Document) -> Table:
    """Whole programs that could have shipped, with what decided."""
    rows = []
    for i, row in enumerate(data["candidates"]):
        at = ("candidates", i)
        rows.append(
            (
                row["name"],
                "ships" if row["ships"] else "not chosen",
                row["why"],
                Figure(pointer(*at, "score"), "share"),
                Figure(pointer(*at, "calls"), "calls"),
                Scored(pointer(*at, "difference"), "points"),
                Figure(pointer(*at, "expected"), "points"),
                Figure(pointer(*at, "difference", "detectable"), "share"),
                Figure(pointer(*at, "turns"), "count"),
            )
        )
    header = (
        "Program", "Verdict", "Why", "Score, %", "Calls a turn", "Over the base, points", "Expected, points",
        "Detectable, points", "Turns",
    )  # fmt: skip
    return Table("candidates", header, tuple(rows), texts=3)


def learning(data: Document) -> Table:
    """The learning curve: what programs do that were trained on more and more conversations."""
    rows = tuple(
        (
            Figure(pointer("learning", i, "conversations"), "count"),
            Scored(pointer("learning", i, "score"), "share"),
            Figure(pointer("learning", i, "score", "n"), "count"),
        )
        for i in range(len(data["learning"]))
    )
    return Table("learning", ("Labelled conversations", "Score, %", "Turns"), rows)


def stage_costs(data: Document) -> Table:
    """Cost and latency by system and stage."""
    rows: list[tuple[Cell, ...]] = []
    for i, system in enumerate(data["systems"]):
        at: tuple[str | int, ...] = ("systems", i, "usage")
        places = [("all", at), *((stage, (*at, "by_stage", stage)) for stage in system["usage"]["by_stage"])]
        for stage, place in places:
            counted = pointer("systems", i, "degraded") if stage == "all" else pointer(*place, "degraded")
            rows.append(
                (
                    system["name"],
                    STAGE_NAMES.get(stage, "Whole turn"),
                    Figure(pointer(*place, "lm_calls_per_turn"), "calls"),
                    Figure(pointer(*place, "prompt_tokens_per_turn"), "tokens"),
                    Figure(pointer(*place, "completion_tokens_per_turn"), "tokens"),
                    Figure(pointer(*place, "cost_per_turn"), "money"),
                    Figure(pointer(*place, "latency_ms", "p50"), "ms"),
                    Figure(pointer(*place, "latency_ms", "p95"), "ms"),
                    Figure(counted, "count"),
                )
            )
    header = (
        "System", "Stage", "LM calls per turn", "Prompt tokens per turn", "Completion tokens per turn",
        "Cost per turn", "p50, ms", "p95, ms", "Degraded",
    )  # fmt: skip
    return Table("costs", header, tuple(rows), texts=2)


def sources(data: Document) -> Table:
    """Who answered, and how fast, by system, stage and source."""
    rows = []
    for i, system in enumerate(data["systems"]):
        for stage, shares in system["sources"].items():
            for source in shares:
                timed = ("systems", i, "latency_by_source", stage, source)
                rows.append(
                    (
                        system["name"],
                        STAGE_NAMES.get(stage, stage),
                        source,
                        Figure(pointer("systems", i, "sources", stage, source), "share"),
                        Figure(pointer(*timed, "n"), "count"),
                        Figure(pointer(*timed, "p50"), "ms"),
                        Figure(pointer(*timed, "p95"), "ms"),
                    )
                )
    header = ("System", "Stage", "Source", "Turns answered, %", "Turns", "p50, ms", "p95, ms")
    return Table("sources", header, tuple(rows), texts=3)


def slices(data: Document) -> Table:
    """The shipped choice by kind of turn."""
    at = data["shipped"]
    held = data["systems"][at]["slices"]
    present = {name for one in held.values() for name in one["metrics"]}
    metrics = [name for name in SLICE_METRICS if name in present]
    rows = tuple(
        (
            tag.replace("_", " "),
            Figure(pointer("systems", at, "slices", tag, "n"), "count"),
            *(
                Scored(pointer("systems", at, "slices", tag, "metrics", name), kind_of(name))
                if name in held[tag]["metrics"]
                else DASH
                for name in metrics
            ),
        )
        for tag in sorted(held, key=lambda tag: -held[tag]["n"])
    )
    return Table("slices", ("Kind of turn", "Turns", *(f"{label(name)}, %" for name in metrics)), rows)


PARTS = {"place": "Where the turn stands", "command": "Wanted command", "flow": "Flow, started or running"}


def part(data: Document, kind: str) -> Table:
    """The shipped choice by place, wanted command or flow."""
    held = data.get("parts", {}).get(kind, [])
    metrics = [name for name in _PART_METRICS if any(name in one["metrics"] for one in held)]
    rows = tuple(
        (
            one["name"].replace("_", " "),
            Figure(pointer("parts", kind, i, "n"), "count"),
            *(
                Scored(pointer("parts", kind, i, "metrics", name), kind_of(name))
                if name in one["metrics"]
                else DASH
                for name in metrics
            ),
        )
        for i, one in enumerate(held)
    )
    return Table(f"by-{kind}", (PARTS[kind], "Turns", *(f"{label(name)}, %" for name in metrics)), rows)


_PART_METRICS = ("flow_set_exact", "commands_exact", "joint_goal")


_CONFUSIONS = 10


def top_confusions(data: Document) -> Table:
    """What the shipped choice takes for what, most frequent first."""
    at = data["shipped"]
    wrong = [
        (i, one)
        for i, one in enumerate(data["systems"][at]["confusions"])
        if one["wanted"] != one["answered"]
    ]
    rows = tuple(
        (one["wanted"], one["answered"], Figure(pointer("systems", at, "confusions", i, "n"), "count"))
        for i, one in wrong[:_CONFUSIONS]
    )
    return Table("confusions", ("Wanted", "Answered", "Turns"), rows, texts=2)


def trust(data: Document) -> Table:
    """How far the confidence of the shipped choice can be believed, by bin."""
    at = ("systems", data["shipped"], "reliability")
    found = resolve(data, pointer(*at)) or {"bins": []}
    rows = tuple(
        (
            Figure(pointer(*at, "bins", i, "confidence"), "share"),
            Scored(pointer(*at, "bins", i, "accuracy"), "share", ("../low", "../high")),
            Figure(pointer(*at, "bins", i, "n"), "count"),
        )
        for i in range(len(found["bins"]))
    )
    return Table("reliability", ("Mean confidence, %", "Flows right, %", "Turns"), rows)


def errors(data: Document) -> Table:
    """Crashes by error and degraded stages by cause."""
    rows = tuple(
        (system["name"], one["what"], one["cause"], Figure(pointer("systems", i, "errors", j, "n"), "count"))
        for i, system in enumerate(data["systems"])
        for j, one in enumerate(system["errors"])
    )
    return Table("errors", ("System", "What", "Cause", "Times"), rows, texts=3)


def facts(data: Document) -> Table:
    """How the run was made."""
    return Table("facts", ("Fact", "Value"), tuple(data["facts"].items()), texts=2)


def changes(data: Document) -> Table:
    """Turns that compiling changed."""
    verdicts = {True: "better", False: "worse", None: "other"}
    rows: Sequence[tuple[Cell, ...]] = [
        (one["message"], one["wanted"], one["before"], one["after"], verdicts[one["better"]])
        for one in data["examples_changed"]
    ]
    header = ("Message", "Wanted", *data["compared"], "")
    return Table("changes", header, tuple(rows), texts=5)


def _metric(data: Document, system: int, name: str) -> Cell:
    if name not in data["systems"][system]["metrics"]:
        return DASH
    return Scored(pointer("systems", system, "metrics", name), kind_of(name))


def parts(cell: Scored) -> tuple[str, str, str]:
    """The pointers to a value and its two bounds."""
    if cell.bounds[0].startswith("../"):
        above = cell.path.rsplit("/", 1)[0]
        return cell.path, *(above + "/" + bound.removeprefix("../") for bound in cell.bounds)  # type: ignore[return-value]
    return cell.path + "/value", f"{cell.path}/{cell.bounds[0]}", f"{cell.path}/{cell.bounds[1]}"
