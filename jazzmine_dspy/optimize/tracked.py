"""Log a run to MLflow: the data first, candidates as they are scored, the rest at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.schema import ROLES
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.report import Report
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.state import RunState, Tried
from jazzmine_dspy.program.prompts import states_of

TRACES = 60
"""Number of evaluated turns whose traces are logged, wrong ones first."""

_NOTE = 7_000
"""Characters of the report in the description of the run."""


def track_start(context: RunContext) -> None:
    """Log the recipe and the parts of the dataset, each by its fingerprint."""
    if context.tracker is None:
        return
    recipe, dataset = context.recipe, context.dataset
    context.tracker.params(recipe.model_dump(mode="json", exclude={"tracking"}))
    conversations = {role: sorted(c for c, r in dataset.roles.items() if r == role) for role in ROLES}
    prints: dict[str, str] = {
        role: sha256([dataset.fingerprint, role, ids]) for role, ids in conversations.items() if ids
    }
    context.tracker.dataset(dataset.name, recipe.dataset, prints)


def track_candidate(context: RunContext, tried: Tried) -> None:
    """Log a candidate as a child run, with its prompts and its metrics on dev-A."""
    if context.tracker is None:
        return
    metrics = Evaluation(tried.turns, seed=context.recipe.seed).metrics if tried.turns else {}
    program = tried.candidate.program
    context.tracker.child(
        tried.candidate.name,
        kind="candidate",
        params={
            "compiled": tried.candidate.compiled,
            "turns": tried.scored,
            "demonstrations": tried.candidate.demonstrations(),
            "notes": "; ".join(tried.notes),
        },
        metrics={**_numbers(metrics, "dev_a/"), "objective": tried.score or 0.0},
        texts={"prompts.json": json.dumps(states_of(program), ensure_ascii=False, indent=1, default=str)},
    )


def track_end(context: RunContext, state: RunState, report: Report, folder: Path) -> None:
    """Log verdicts, test metrics, traces of the shipped program, the program, and its report."""
    if (tracker := context.tracker) is None:
        return
    for verdict in state.verdicts:
        difference, contender = verdict.difference, verdict.contender
        metrics = {
            "dev/score": verdict.score,
            "dev/expected_gain": verdict.expected,
            "calls": contender.calls,
        }
        if difference is not None:
            metrics |= {
                **_numbers({"dev/difference": difference}),
                "dev/difference/lower_one_sided": difference.lower_bound_one_sided,
                "dev/difference/detectable": difference.detectable,
            }
        ships, broken = contender.name == state.ships, ", ".join(verdict.broken)
        tracker.child(
            f"program: {_tracked_name(contender.name)}",
            kind="program",
            params={"kind": contender.kind, "ships": ships, "broken": broken},
            metrics=metrics,
        )
    for name, evaluation in state.systems.items():
        if evaluation is not None:
            tracker.metrics(_numbers(evaluation.metrics, f"{_tracked_name(name)}/"))
            tracker.child(
                f"test: {_tracked_name(name)}",
                kind="system",
                params={"turns": evaluation.n, "objective": context.recipe.objective},
                metrics=_numbers(evaluation.metrics, "test/") | _objective(context, evaluation),
            )
    spent = context.budget.spent()
    tracker.metrics({f"spent/{k}": float(v) for k, v in spent.items() if isinstance(v, int | float)})
    if (shipped := state.systems.get("shipped")) is not None:
        tracker.metrics(_objective(context, shipped))
        tracker.traces(sorted(shipped.turns, key=lambda turn: turn.outcome == "right")[:TRACES])
    tracker.folder(folder, "program")
    page = (folder / "report" / "report.md").read_text("utf-8")[:_NOTE]
    tracker.tags({"mlflow.note.content": f"{report.first_line}\n\n{page}", "kind": "optimization"})
    tracker.close()


def _tracked_name(name: str) -> str:
    """A name with only the characters that MLflow allows."""
    return re.sub(r"[^\w./: -]", "", name.replace("+", "and"))


def _objective(context: RunContext, evaluation: Evaluation) -> dict[str, float]:
    metric = evaluation.metrics.get(context.recipe.objective)
    return {} if metric is None else _numbers({"objective": metric})


def _numbers(metrics: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Values of metrics, or of differences, by name, with their bounds if there are any."""
    return {
        f"{prefix}{name}{part}": number
        for name, metric in metrics.items()
        for part, number in (("", metric.value), ("/low", metric.low), ("/high", metric.high))
        if number is not None
    }
