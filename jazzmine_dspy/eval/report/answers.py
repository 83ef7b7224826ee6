"""Who answered at what cost, and how far the confidence of an answer can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.eval.report import figures
from jazzmine_dspy.eval.report.shown import (
    MARKS,
    Column,
    Figure,
    Section,
    Table,
    figure,
    first_of,
    listed,
    numbered,
    pointer,
)

_CONFUSIONS = 10


def answers(data: dict[str, Any]) -> Sequence[Section]:
    """Who answered, what the shipped choice takes for what, and whether its confidence can be believed."""
    name, at = data["systems"][data["shipped"]]["name"], f"/systems/{data['shipped']}"
    pairs = numbered(data, f"{at}/confusions")
    wrong, note = first_of(
        [(place, one) for place, one in pairs if one["wanted"] != one["answered"]], _CONFUSIONS, "confusion"
    )
    return (
        Section(
            f"Who answered: {name}",
            key="The share of turns by source, and its latency: dot the median, bar the 95th percentile.",
            plots=figures.sources(data),
            tables=[_stage_costs(data), _sources(data)],
        ),
        Section(
            f"Confused flows: {name}",
            note,
            key="Rows are expected flows, columns answered flows; the shade is the share of the row.",
            plots=figures.confusion("Expected and answered flows", [one for _, one in pairs]),
            beside=True,
            tables=[
                listed(
                    "confusions",
                    wrong,
                    ("Wanted", "wanted"),
                    ("Answered", "answered"),
                    ("Turns", figure("n", "count")),
                    texts=2,
                )
            ],
        ),
        _reliability(
            f"Calibration of the confidence: {name}",
            data,
            f"{at}/reliability",
            key="On the dashed line, the confidence equals the share of right answers.",
            plot="Confidence of the selection against how often it is right",
            table="reliability",
            heading="Mean confidence, %",
        ),
    )


def _stage_costs(data: dict[str, Any]) -> Table:
    """Cost and latency by system and stage."""
    items = (
        (
            at,
            {
                "name": system["name"],
                "stage": stage.capitalize() or "Whole turn",
                "at": f"usage/by_stage/{stage}" if stage else "usage",
                "degraded": f"usage/by_stage/{stage}/degraded" if stage else "degraded",
            },
        )
        for at, system in numbered(data, "/systems")
        for stage in ("", *system["usage"]["by_stage"])
    )
    costs = (
        ("LM calls per turn", "lm_calls_per_turn", "calls"),
        ("Prompt tokens per turn", "prompt_tokens_per_turn", "tokens"),
        ("Completion tokens per turn", "completion_tokens_per_turn", "tokens"),
        ("Cost per turn", "cost_per_turn", "money"),
        ("p50, ms", "latency_ms/p50", "ms"),
        ("p95, ms", "latency_ms/p95", "ms"),
    )

    def below(path: str, kind: str) -> Column:
        return lambda one: figure(f"{one['at']}/{path}", kind)

    return listed(
        "costs",
        items,
        ("System", "name"),
        ("Stage", "stage"),
        *((heading, below(path, kind)) for heading, path, kind in costs),
        ("Degraded", lambda one: figure(one["degraded"], "count")),
        texts=2,
        summary="Cost and latency by stage, all systems",
    )


def _sources(data: dict[str, Any]) -> Table:
    """Who answered, and how fast, by system, stage and source."""
    rows = tuple(
        (
            system["name"],
            stage.capitalize(),
            source,
            figure(at + pointer("sources", stage, source), "share"),
            *(
                figure(at + pointer("latency_by_source", stage, source, key), kind)
                for key, kind in (("n", "count"), ("p50", "ms"), ("p95", "ms"))
            ),
        )
        for at, system in numbered(data, "/systems")
        for stage, shares in system["sources"].items()
        for source in shares
    )
    return Table(
        "sources",
        ("System", "Stage", "Source", "Turns answered, %", "Turns", "p50, ms", "p95, ms"),
        rows,
        texts=3,
        summary="Sources, all systems",
    )


def _reliability(
    title: str, data: dict[str, Any], at: str, *, key: str, plot: str, table: str, heading: str
) -> Section:
    """How sure against how often right, by bin; empty under two bins."""
    bins = every if len(every := numbered(data, f"{at}/bins")) > 1 else []
    columns = (
        (heading, figure("confidence", "share")),
        ("Flows right, %", Figure("share", ("accuracy", "low", "high"))),
        ("Turns", figure("n", "count")),
    )
    drawn = figures.reliability(plot, [one for _, one in bins])
    return Section(
        title, key=key, plots=drawn, beside=True, tables=[listed(table, bins, *columns)], ece=f"{at}/ece"
    )


def choosing(data: dict[str, Any]) -> Sequence[Section]:
    """How the selection of flows was fitted: gates, confidence, recall, open set."""
    verdict: tuple[str, Column] = ("Verdict", lambda one: MARKS[one["kept"]])
    found = data.get("choosing") or {}
    recall, open_set = (found.get(name, ()) for name in ("recall", "open_set"))
    names = dict.fromkeys(name for one in open_set for name in one["figures"])
    return (
        Section("What decided the gates", words=found.get("words", ())),
        _reliability(
            "Calibration of the local head, out of fold",
            data,
            "/choosing/reliability",
            key="Each turn judged by a model that saw no turn of its conversation.",
            plot="Confidence of the local head, out of fold",
            table="head-reliability",
            heading="Head's confidence, %",
        ),
        Section(
            "Recall, by choice",
            "On training turns, each without its own conversation.",
            tables=[
                listed(
                    "recall",
                    numbered(data, "/choosing/recall"),
                    ("Recall", "name"),
                    verdict,
                    *((f"At {k}, %", figure(f"recall_at_{k}", "share")) for k in (1, 3, 5)),
                    ("Turns", figure("n", "count")),
                    texts=2,
                    marks=tuple(MARKS[one["kept"]] for one in recall),
                )
            ],
        ),
        Section(
            "Open set",
            "Scores that separate turns that start a flow from other turns.",
            tables=[
                listed(
                    "open-set",
                    numbered(data, "/choosing/open_set"),
                    ("Open-set score", "name"),
                    verdict,
                    *((f"{name}, %", figure("figures" + pointer(name), "share")) for name in names),
                    texts=2,
                    marks=tuple(MARKS[one["kept"]] for one in open_set),
                )
            ],
        ),
    )
