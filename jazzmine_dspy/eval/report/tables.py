"""The tables of a report. A cell with a figure points into the document, so that HTML and Markdown cannot
differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine_dspy.eval.evaluation import SLICE_METRICS
from jazzmine_dspy.eval.report.shown import (
    DASH,
    HEADLINE,
    STAGE_NAMES,
    Cell,
    Column,
    Figure,
    Table,
    explanation,
    figure,
    kind_of,
    label,
    listed,
    numbered,
    ordered,
    pointer,
    resolve,
    score,
)

Document = dict[str, Any]


def headline(data: Document) -> Table:
    """The five rows: quality, cost, and what went wrong."""
    return listed(
        "headline",
        numbered("/systems", data["systems"]),
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


def all_metrics(data: Document) -> Table:
    """Every metric of every system."""
    systems = data["systems"]
    names = ordered({name for system in systems for name in system["metrics"]})
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        counts = {i: one["metrics"][name]["n"] for i, one in enumerate(systems) if name in one["metrics"]}
        places = [pointer("systems", i, "metrics", name) for i in range(len(systems))]
        most = places[max(counts, key=lambda i: counts[i])]
        scores = (score(place, kind_of(name)) for place in places)
        rows.append((label(name), *scores, figure(f"{most}/n", "count")))
    header = ("Metric", *(system["name"] for system in systems), "Turns")
    return Table("metrics", header, tuple(rows), hints=tuple(explanation(name) for name in names))


def gains(data: Document) -> Table:
    """Paired differences behind the first line."""
    return listed(
        "gains",
        numbered("/gains", data["gains"]),
        ("Step", "name"),
        ("Metric", lambda gain: label(gain["metric"])),
        ("Gain, points", score("difference", "points")),
        ("Detectable, points", figure("difference/detectable", "share")),
        ("Turns", figure("difference/n", "count")),
        texts=2,
    )


def candidates(data: Document) -> Table:
    """Whole programs that could have shipped, with what decided."""
    return listed(
        "candidates",
        numbered("/candidates", data["candidates"]),
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
    )


def learning(data: Document) -> Table:
    """The learning curve: what programs do that were trained on more and more conversations."""
    return listed(
        "learning",
        numbered("/learning", data["learning"]),
        ("Labelled conversations", figure("conversations", "count")),
        ("Score, %", score("score")),
        ("Turns", figure("score/n", "count")),
    )


def stage_costs(data: Document) -> Table:
    """Cost and latency by system and stage."""
    items = (
        (
            f"/systems/{i}",
            {
                "name": system["name"],
                "stage": STAGE_NAMES.get(stage, "Whole turn"),
                "at": f"usage/by_stage/{stage}" if stage else "usage",
                "degraded": f"usage/by_stage/{stage}/degraded" if stage else "degraded",
            },
        )
        for i, system in enumerate(data["systems"])
        for stage in ("", *system["usage"]["by_stage"])
    )
    return listed(
        "costs",
        items,
        ("System", "name"),
        ("Stage", "stage"),
        ("LM calls per turn", lambda one: figure(f"{one['at']}/lm_calls_per_turn", "calls")),
        ("Prompt tokens per turn", lambda one: figure(f"{one['at']}/prompt_tokens_per_turn", "tokens")),
        (
            "Completion tokens per turn",
            lambda one: figure(f"{one['at']}/completion_tokens_per_turn", "tokens"),
        ),
        ("Cost per turn", lambda one: figure(f"{one['at']}/cost_per_turn", "money")),
        ("p50, ms", lambda one: figure(f"{one['at']}/latency_ms/p50", "ms")),
        ("p95, ms", lambda one: figure(f"{one['at']}/latency_ms/p95", "ms")),
        (
            "Degraded",
            lambda one: figure(one["degraded"], "count"),
        ),
        texts=2,
    )


def sources(data: Document) -> Table:
    """Who answered, and how fast, by system, stage and source."""
    rows = tuple(
        (
            system["name"],
            STAGE_NAMES.get(stage, stage),
            source,
            figure(pointer("systems", i, "sources", stage, source), "share"),
            *(
                figure(pointer("systems", i, "latency_by_source", stage, source, key), kind)
                for key, kind in (("n", "count"), ("p50", "ms"), ("p95", "ms"))
            ),
        )
        for i, system in enumerate(data["systems"])
        for stage, held in system["sources"].items()
        for source in held
    )
    header = ("System", "Stage", "Source", "Turns answered, %", "Turns", "p50, ms", "p95, ms")
    return Table("sources", header, rows, texts=3)


def slices(data: Document) -> Table:
    """The shipped choice by kind of turn."""
    held = data["systems"][data["shipped"]]["slices"]
    items = [
        (pointer("systems", data["shipped"], "slices", tag), held[tag] | {"name": tag})
        for tag in sorted(held, key=lambda tag: -held[tag]["n"])
    ]
    return _by_part("slices", "Kind of turn", items, SLICE_METRICS)


PARTS = {"place": "Where the turn stands", "command": "Wanted command", "flow": "Flow, started or running"}


def part(data: Document, kind: str) -> Table:
    """The shipped choice by place, wanted command or flow."""
    items = list(numbered(f"/parts/{kind}", data.get("parts", {}).get(kind, [])))
    return _by_part(f"by-{kind}", PARTS[kind], items, ("flow_set_exact", "commands_exact", "joint_goal"))


def _by_part(
    name: str, heading: str, items: Sequence[tuple[str, dict[str, Any]]], metrics: Sequence[str]
) -> Table:
    """Some turns a row, with those of the metrics that any of them has."""
    present = [metric for metric in metrics if any(metric in one["metrics"] for _, one in items)]
    return listed(
        name,
        items,
        (heading, lambda one: one["name"].replace("_", " ")),
        ("Turns", figure("n", "count")),
        *((f"{label(metric)}, %", score(f"metrics/{metric}", kind_of(metric))) for metric in present),
    )


_CONFUSIONS = 10


def top_confusions(data: Document) -> Table:
    """What the shipped choice takes for what, most frequent first."""
    pairs = numbered(f"/systems/{data['shipped']}/confusions", data["systems"][data["shipped"]]["confusions"])
    wrong = [(at, one) for at, one in pairs if one["wanted"] != one["answered"]]
    columns = (("Wanted", "wanted"), ("Answered", "answered"), ("Turns", figure("n", "count")))
    return listed("confusions", wrong[:_CONFUSIONS], *columns, texts=2)


def trust(data: Document) -> Table:
    """How far the confidence of the shipped choice can be believed, by bin."""
    return _bins("reliability", "Mean confidence, %", data, f"/systems/{data['shipped']}/reliability/bins")


def _bins(name: str, heading: str, data: Document, at: str) -> Table:
    return listed(
        name,
        numbered(at, resolve(data, at) or ()),
        (heading, figure("confidence", "share")),
        ("Flows right, %", Figure("share", ("accuracy", "low", "high"))),
        ("Turns", figure("n", "count")),
    )


def errors(data: Document) -> Table:
    """Crashes by error and degraded stages by cause."""
    items = (
        (at, one | {"name": system["name"]})
        for i, system in enumerate(data["systems"])
        for at, one in numbered(f"/systems/{i}/errors", system["errors"])
    )
    return listed(
        "errors",
        items,
        ("System", "name"),
        ("What", "what"),
        ("Cause", "cause"),
        ("Times", figure("n", "count")),
        texts=3,
    )


def facts(data: Document) -> Table:
    """How the run was made."""
    return Table("facts", ("Fact", "Value"), tuple(data["facts"].items()), texts=2)


def changes(data: Document) -> Table:
    """Turns that compiling changed."""
    before, after = data["compared"]
    return listed(
        "changes",
        numbered("", data["examples_changed"]),
        ("Message", "message"),
        ("Wanted", "wanted"),
        (before, "before"),
        (after, "after"),
        ("", lambda one: VERDICTS[one["better"]]),
        texts=5,
    )


VERDICTS = {True: "better", False: "worse", None: "other"}
"""What is said of a turn that two programs decide differently."""


# --- how the selection of flows was fitted ---------------------------------------------------------------


def choosing(data: Document) -> dict[str, Any]:
    """That part of a document; empty in one that is not of a run."""
    return data.get("choosing") or {}


def decisions(data: Document) -> Table:
    """What was decided of gates and order."""
    rows = tuple((str(i), text) for i, text in enumerate(choosing(data).get("words", ()), 1))
    return Table("gates", ("", "Decided"), rows, texts=2)


def _kept(one: dict[str, Any]) -> str:
    return "kept" if one["kept"] else "dropped"


def recall(data: Document) -> Table:
    """Ways to recall that were tried, on turns whose own conversation was left out."""
    return listed(
        "recall",
        numbered("/choosing/recall", choosing(data).get("recall", ())),
        ("Recall", "name"),
        ("Verdict", _kept),
        *((f"At {k}, %", figure(f"recall_at_{k}", "share")) for k in (1, 3, 5)),
        ("Turns", figure("n", "count")),
        texts=2,
    )


def head_trust(data: Document) -> Table:
    """How far the head's confidence can be believed, out of fold, by bin."""
    return _bins("head-reliability", "Head's confidence, %", data, "/choosing/reliability/bins")


def open_set(data: Document) -> Table:
    """Scores that tell turns that want a flow from others."""
    scores = choosing(data).get("open_set", ())
    names = dict.fromkeys(name for one in scores for name in one["figures"])
    return listed(
        "open-set",
        numbered("/choosing/open_set", scores),
        ("Open-set score", "name"),
        ("Verdict", _kept),
        *((f"{name}, %", figure("figures" + pointer(name), "share")) for name in names),
        texts=2,
    )


# --- what an update changed, and whole conversations with the program's own state ------------------------

_SHARES = {"conversations": "all turns right", "ends_right": "end right"}


def further(data: Document) -> list[tuple[str, Table, str]]:
    """Title, table and note of each part; tables without rows where the report says nothing of it."""
    return [
        (
            "Flows that changed, or lack turns",
            flows(data),
            "Turns that want the flow started, by part. A flow that lacks them is known by its own sayings alone, and "
            "no figure tells how well.",
        ),
        (
            "Whole conversations",
            conversations(data),
            "The user says what the dataset has; the program goes on from its own state. Right is the state that the "
            "labels lead to.",
        ),
        (
            "Where conversations go wrong first",
            first_errors(data),
            "What of the state was wrong, over conversations.",
        ),
    ]


def flows(data: Document) -> Table:
    """Flows that changed since the program was compiled, with their turns."""
    roles = ("train", "dev", "test")
    return listed(
        "updated",
        numbered("/updated", data.get("updated", ())),
        ("Flow", "flow"),
        ("Change", "change"),
        *((role.capitalize(), _turns_in(role)) for role in roles),
        ("Lacks turns in", lambda one: ", ".join(one["lacks"]) or DASH),
        texts=2,
    )


def _turns_in(role: str) -> Column:
    return lambda one: DASH if one["change"] == "removed" else figure(role, "count")


def conversations(data: Document) -> Table:
    """How many conversations are right, and what a first error costs the turns after it."""
    found = data.get("replay") or {"shares": {}, "after_first_error": {"turns": 0}}
    rows: list[tuple[Cell, ...]] = [
        (f"conversations: {words}", score(f"/replay/shares/{name}"), figure("/replay/conversations", "count"))
        for name, words in _SHARES.items()
        if name in found["shares"]
    ]
    if found["after_first_error"]["turns"]:
        at = "/replay/after_first_error"
        rows += [
            (
                f"turns after a first error right{words}",
                figure(f"{at}/{key}", "share"),
                figure(f"{at}/turns", "count"),
            )
            for key, words in (("right", ""), ("right_apart", ", without that error"))
        ]
    return Table("replay", ("", "Share, %", "Of"), tuple(rows))


def first_errors(data: Document) -> Table:
    """What was wrong first."""
    found = (data.get("replay") or {}).get("first_errors", {})
    rows = tuple((name, figure(pointer("replay", "first_errors", name), "count")) for name in found)
    return Table("replay-first", ("What", "Conversations"), rows[:20])
