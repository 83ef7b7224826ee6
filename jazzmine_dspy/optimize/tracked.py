"""Log a run to MLflow: the data first, candidates as they are scored, the rest at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.schema import ROLES, Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.intervals import Metric
from jazzmine_dspy.eval.report import Report
from jazzmine_dspy.eval.run import scored
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


def track_candidate(context: RunContext, tried: Tried, sample: Sequence[Example]) -> None:
    """Log a candidate as a child run, with its prompts and its metrics on dev-A."""
    if context.tracker is None:
        return
    results = [
        scored(example, tried.answers[example.key], None, 0.0)
        for example in sample
        if example.key in tried.answers
    ]
    metrics = Evaluation(tuple(results), seed=context.recipe.seed).metrics if results else {}
    program = tried.program
    context.tracker.child(
        tried.name,
        kind="candidate",
        params={
            "compiled": tried.candidate.compiled,
            "wording": program.policy.wording,
            "turns": tried.scored,
            "demonstrations": tried.candidate.demonstrations(),
            "notes": "; ".join(tried.notes),
        },
        metrics={**_with_bounds("dev_a", metrics), "objective": tried.score or 0.0},
        texts={"prompts.json": json.dumps(states_of(program), ensure_ascii=False, indent=1, default=str)},
    )


def track_end(context: RunContext, state: RunState, report: Report, folder: Path) -> None:
    """Log verdicts, test metrics, traces of the shipped program, the program, and its report."""
    tracker = context.tracker
    if tracker is None:
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
                "dev/difference": difference.value,
                "dev/difference/lower_one_sided": difference.lower_bound_one_sided,
                "dev/difference/detectable": difference.detectable,
                **_bounds("dev/difference", difference),
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
            tracker.metrics(_with_bounds(_tracked_name(name), evaluation.metrics))
            tracker.child(
                f"test: {_tracked_name(name)}",
                kind="system",
                params={"turns": evaluation.n, "objective": context.recipe.objective},
                metrics={
                    **_with_bounds("test", evaluation.metrics),
                    **_objective(context, evaluation.metrics),
                },
            )
    spent = context.budget.spent()
    tracker.metrics({f"spent/{k}": float(v) for k, v in spent.items() if isinstance(v, int | float)})
    shipped = state.systems.get("shipped")
    if shipped is not None:
        tracker.metrics(_objective(context, shipped.metrics))
        tracker.traces(sorted(shipped.turns, key=lambda turn: turn.outcome == "right")[:TRACES])
    tracker.folder(folder, "program")
    page = (folder / "report" / "report.md").read_text("utf-8")[:_NOTE]
    tracker.tags({"mlflow.note.content": f"{report.first_line}\n\n{page}", "kind": "optimization"})
    tracker.close()


def _tracked_name(name: str) -> str:
    """A name with only the characters that MLflow allows."""
    return re.sub(r"[^\w./: -]", "", name.replace("+", "and"))


def _objective(context: RunContext, metrics: Mapping[str, Metric]) -> dict[str, float]:
    metric = metrics.get(context.recipe.objective)
    return {} if metric is None else {"objective": metric.value, **_bounds("objective", metric)}


def _with_bounds(prefix: str, metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Values by metric name, with their bounds if there are any."""
    named = {f"{prefix}/{name}": metric for name, metric in metrics.items()}
    bounds = [_bounds(name, metric) for name, metric in named.items()]
    values = {name: metric.value for name, metric in named.items()}
    return {key: value for each in (values, *bounds) for key, value in each.items()}


def _bounds(name: str, interval: Any) -> dict[str, float]:
    bounds = {f"{name}/low": interval.low, f"{name}/high": interval.high}
    return {key: value for key, value in bounds.items() if value is not None}
