"""The sections of a report, in their order. A figure points into the document, so that page and Markdown cannot
differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.eval.evaluation import SLICE_METRICS
from jazzmine_dspy.eval.report import figures
from jazzmine_dspy.eval.report.answers import answers, choosing
from jazzmine_dspy.eval.report.comparison import comparison
from jazzmine_dspy.eval.report.shown import (
    HEADLINE,
    MARKS,
    VERDICTS,
    Cell,
    Column,
    Section,
    Table,
    explanation,
    figure,
    first_of,
    kind_of,
    label,
    listed,
    numbered,
    ordered,
    pointer,
    prompt_changes,
    score,
    without_silent,
)

PARTS = {"place": "Where the turn stands", "command": "Wanted command", "flow": "Flow, started or running"}
_SHARES = {"conversations": "conversations: all turns right", "ends_right": "conversations: end right"}
_AFTER = {
    "right": "turns after a first error right",
    "right_apart": "turns after a first error right, without that error",
}
_WRONG = 50


def sections(data: dict[str, Any]) -> list[Section]:
    """All that a document has something for."""
    every = (
        *_results(data),
        *answers(data),
        *choosing(data),
        *_kinds(data),
        *(
            Section(
                f"The compiled prompt: {one['predictor']}",
                "The prompt for one turn, compiled and uncompiled.",
                lines=prompt_changes(one),
            )
            for one in data.get("prompts", ())
        ),
        *_further(data),
        *comparison(data),
        _wrong(data),
        _changes(data),
    )
    with_values = (
        section._replace(tables=[without_silent(data, table) for table in section.tables])
        for section in every
    )
    return [section for section in with_values if not section.empty]


def _results(data: dict[str, Any]) -> Sequence[Section]:
    """How the systems do, what they cost, and what decided between them."""
    return (
        Section(
            "Result",
            key="Each dot is a score, each line its 95 % interval, drawn by conversation; under 10 of them there is "
            "none.",
            plots=figures.results(data),
            tables=[
                listed(
                    "headline",
                    numbered(data, "/systems"),
                    ("System", "name"),
                    *((f"{label(name)}, %", score(f"metrics/{name}", kind_of(name))) for name in HEADLINE),
                    ("LM calls per turn", figure("usage/lm_calls_per_turn", "calls")),
                    ("Prompt tokens per turn", figure("usage/prompt_tokens_per_turn", "tokens")),
                    ("Answer tokens per turn", figure("usage/completion_tokens_per_turn", "tokens")),
                    ("Cost per turn", figure("usage/cost_per_turn", "money")),
                    ("p50, ms", figure("usage/latency_ms/p50", "ms")),
                    ("p95, ms", figure("usage/latency_ms/p95", "ms")),
                    ("Degraded", figure("degraded", "count")),
                    ("Crashed", figure("crashed", "count")),
                    ("Turns", figure("n", "count")),
                    strong=data["shipped"],
                )
            ],
        ),
        Section(
            "What it costs",
            key="Up and to the left is better: more turns right for fewer prompt tokens. "
            "No system is better at the same cost than those on the dashed line.",
            plots=figures.costs(data),
        ),
        Section(
            "Outcomes",
            "A turn is right if its flows and all its commands are right.",
            plots=figures.outcomes(data),
            tables=[
                listed(
                    "errors",
                    (
                        (at, one | {"name": system["name"]})
                        for place, system in numbered(data, "/systems")
                        for at, one in numbered(data, f"{place}/errors")
                    ),
                    ("System", "name"),
                    ("What", "what"),
                    ("Cause", "cause"),
                    ("Times", figure("n", "count")),
                    texts=3,
                )
            ],
        ),
        Section(
            "What each step gained",
            "Paired differences on the same turns; they are more than chance if the interval does not include zero.",
            plots=figures.gains(data),
            tables=[
                listed(
                    "gains",
                    numbered(data, "/gains"),
                    ("Step", "name"),
                    ("Metric", lambda gain: label(gain["metric"])),
                    ("Gain, points", score("difference", "points")),
                    ("Detectable, points", figure("difference/detectable", "share")),
                    ("Turns", figure("difference/n", "count")),
                    texts=2,
                )
            ],
        ),
        Section(
            "What could have shipped",
            "Whole programs, measured on turns that none of them was trained on. The one with the highest expected "
            "gain over the base ships, after a price for its calls; on a tie, the earlier program ships.",
            tables=[
                listed(
                    "candidates",
                    # One program alone says nothing about a choice.
                    numbered(data, "/candidates") if data["candidates"][1:] else (),
                    ("Program", "name"),
                    ("Verdict", lambda row: "ships" if row["ships"] else "not chosen"),
                    ("Why", "why"),
                    ("Score, %", figure("score", "share")),
                    ("Calls a turn", figure("calls", "calls")),
                    ("Over the base, points", score("difference", "points")),
                    ("Expected, points", figure("expected", "points")),
                    ("Detectable, points", figure("difference/detectable", "share")),
                    ("Turns", figure("turns", "count")),
                    texts=3,
                    marks=tuple(MARKS[row["ships"]] for row in data["candidates"]),
                )
            ],
        ),
        Section(
            "What more labels bring",
            data["learning_words"],
            plots=figures.learning(data),
            beside=True,
            tables=[
                listed(
                    "learning",
                    # One number of conversations says nothing about more of them.
                    numbered(data, "/learning") if data["learning"][1:] else (),
                    ("Labelled conversations", figure("conversations", "count")),
                    ("Score, %", score("score")),
                    ("Turns", figure("score/n", "count")),
                )
            ],
        ),
    )


def _kinds(data: dict[str, Any]) -> Sequence[Section]:
    """The shipped choice by kind of command and of turn; every metric of every system."""
    shipped = data["systems"][data["shipped"]]
    tags = sorted(shipped["slices"], key=lambda tag: -shipped["slices"][tag]["n"])
    slices = [
        (pointer("systems", data["shipped"], "slices", tag), shipped["slices"][tag] | {"name": tag})
        for tag in tags
    ]
    whole = ("flow_set_exact", "commands_exact", "joint_goal")
    return (
        Section(
            f"Commands by kind: {shipped['name']}",
            "F1 of each kind, type and arguments alike.",
            plots=figures.kinds(data),
        ),
        Section(
            f"By kind of turn: {shipped['name']}",
            tables=[
                _by_part("slices", "Kind of turn", slices, SLICE_METRICS),
                *(
                    _by_part(
                        f"by-{kind}", name, numbered(data, f"/parts/{kind}"), whole, f"By {name.lower()}"
                    )
                    for kind, name in PARTS.items()
                ),
            ],
        ),
        Section(
            "Every metric",
            "In percent, except the sentiment error. A metric is scored on the turns that it can be scored on; where "
            "the systems differ in their number, it is the largest.",
            tables=[_all_metrics(data)],
        ),
    )


def _by_part(
    name: str,
    heading: str,
    items: Sequence[tuple[str, dict[str, Any]]],
    metrics: Sequence[str],
    summary: str = "",
) -> Table:
    """Some turns a row, with those of the metrics that any of them has."""
    present = [metric for metric in metrics if any(metric in one["metrics"] for _, one in items)]
    return listed(
        name,
        items,
        (heading, lambda one: one["name"].replace("_", " ")),
        ("Turns", figure("n", "count")),
        *((f"{label(metric)}, %", score(f"metrics/{metric}", kind_of(metric))) for metric in present),
        summary=summary,
    )


def _all_metrics(data: dict[str, Any]) -> Table:
    """Every metric of every system, with the most turns that any of them is scored on."""
    systems = data["systems"]
    names = ordered({name for system in systems for name in system["metrics"]})
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        counts = {i: one["metrics"][name]["n"] for i, one in enumerate(systems) if name in one["metrics"]}
        places = [pointer("systems", i, "metrics", name) for i in range(len(systems))]
        most = places[max(counts, key=lambda i: counts[i])]
        scores = (score(place, kind_of(name)) for place in places)
        rows.append((label(name), *scores, figure(f"{most}/n", "count")))
    return Table(
        "metrics",
        ("Metric", *(system["name"] for system in systems), "Turns"),
        tuple(rows),
        hints=tuple(explanation(name) for name in names),
    )


def _further(data: dict[str, Any]) -> Sequence[Section]:
    """Whole conversations with the program's own state."""
    replay = data.get("replay") or {"shares": {}, "after_first_error": {"turns": 0}, "first_errors": {}}
    after = "/replay/after_first_error"
    rows: list[tuple[Cell, ...]] = [
        (words, score(f"/replay/shares/{name}"), figure("/replay/conversations", "count"), "")
        for name, words in _SHARES.items()
        if name in replay["shares"]
    ]
    rows += [
        (words, figure(f"{after}/{key}", "share"), "", figure(f"{after}/turns", "count"))
        for key, words in _AFTER.items()
        if replay["after_first_error"]["turns"]
    ]
    first = [
        (name, figure(pointer("replay", "first_errors", name), "count")) for name in replay["first_errors"]
    ]
    return (
        Section(
            "Whole conversations",
            "The messages are those of the dataset; the program continues from its own state. A turn is right if its "
            "state is the one that the labels lead to.",
            tables=[Table("replay", ("What", "Share, %", "Conversations", "Turns"), tuple(rows))],
        ),
        Section(
            "Where conversations go wrong first",
            "Parts of the state that were wrong, by conversation.",
            tables=[Table("replay-first", ("What", "Conversations"), tuple(first))],
        ),
    )


def _wrong(data: dict[str, Any]) -> Section:
    """Turns that the shipped choice decides wrongly."""
    turns, note = first_of(numbered(data, "/wrong"), _WRONG, "turn", " with a wrong flow or command")
    return Section(
        f"Wrong turns: {data['systems'][data['shipped']]['name']}",
        note,
        tables=[
            listed(
                "wrong",
                turns,
                ("Message", "message"),
                ("State", "state"),
                ("Expected", "expected"),
                ("Answered", "answered"),
                ("Source", "source"),
                ("Refused", "refused"),
                ("Confidence, %", figure("confidence", "share")),
                texts=6,
            )
        ],
    )


def _changes(data: dict[str, Any]) -> Section:
    """Turns that two programs decide differently."""
    before, after = data["compared"]
    columns: tuple[tuple[str, Column], ...] = (
        ("Message", "message"),
        ("Wanted", "wanted"),
        (before, "before"),
        (after, "after"),
        ("", lambda one: VERDICTS[one["better"]]),
    )
    return Section(
        "What changed",
        f"A few turns that {before} and {after} decide differently.",
        tables=[listed("changes", numbered(data, "/examples_changed"), *columns, texts=5)],
    )
