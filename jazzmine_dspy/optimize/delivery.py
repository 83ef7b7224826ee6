"""The result of a run and the facts for its manifest."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, NamedTuple

import dspy

from jazzmine_dspy.eval.report import Report
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.state import RunState, Verdict
from jazzmine_dspy.program.turn import TurnProgram

PREDICTORS = ("enhance", "select", "understand", "fused")


class RunResult(NamedTuple):
    """Result of a run.

    Args:
        program: The shipped program.
        folder: Its folder.
        report: The report.
        report_paths: Files of the report.
        manifest: Manifest of the program.
        spent: Calls, tokens, money and minutes.
        shipped: Name of the chosen program.
        first_line: First line of the report.
        untracked: Why MLflow lacks a part of the run; empty if it has all.
    """

    program: TurnProgram
    folder: Path
    report: Report
    report_paths: Any
    manifest: dict[str, Any]
    spent: dict[str, Any]
    shipped: str
    first_line: str
    untracked: str = ""


def run_facts(context: RunContext) -> dict[str, Any]:
    """Facts for ``run.json``: start, end, spending, and where the run is tracked."""
    dates = {"started": context.started.isoformat(), "ended": dt.datetime.now(dt.UTC).isoformat()}
    tracking = {} if context.tracker is None else {"tracking": context.tracker.facts}
    return {**dates, "spent": context.spent(), **tracking}


def stopped_facts(context: RunContext) -> dict[str, Any]:
    """Facts for the manifest of any run, also a stopped one: recipe, dataset and language model."""
    recipe, dataset = context.recipe, context.dataset
    return {
        "objective": recipe.objective,
        "recipe": recipe.facts,
        "recipe_fingerprint": recipe.fingerprint,
        "dataset": {
            "name": dataset.name,
            "fingerprint": dataset.fingerprint,
            "splits": dataset.splits_fingerprint,
            "roles": dataset.roles,
        },
        "lm": context.lm_facts,
        "started_from": context.started_from,
    }


def manifest_facts(context: RunContext, state: RunState, first_line: str) -> dict[str, Any]:
    """Facts for the manifest of a finished run. They do not depend on time."""
    recipe, embedder = context.recipe, state.program.bindings.embedder
    local = state.local
    scores = {
        name: {
            metric: [*(None if x is None else round(x, 4) for x in (m.value, m.low, m.high)), m.n]
            for metric, m in evaluation.metrics.items()
        }
        for name, evaluation in state.systems.items()
        if evaluation is not None
    }
    uncompiled = state.prompts.uncompiled
    head = local.trained.head
    confidence = local.confidence
    return {
        "dspy": dspy.__version__,
        "shape": recipe.shape,
        **stopped_facts(context),
        "embedder": {"model": recipe.embedder, "fingerprint": embedder.fingerprint if embedder else None},
        "head": head.facts if head is not None else None,
        "local": local.trained.facts(),
        "gate": confidence.gate.facts() if confidence is not None else None,
        "refit_turns": state.refitted,
        "candidates": [
            {
                "name": each.name,
                "dev_a": each.score,
                "turns": each.scored,
                "demonstrations": each.candidate.demonstrations(),
                "reworded": each.candidate.reworded(uncompiled.program) if uncompiled else [],
                "notes": list(each.notes),
            }
            for each in state.prompts.tried
        ],
        "programs": [_verdict_facts(each) for each in state.verdicts],
        "shipped": state.ships,
        "demonstrations": {name: len(state.program.predictor(name).demos) for name in PREDICTORS},
        "first_line": first_line,
        "scores": scores,
        **({} if context.previous is None else {"from": context.previous.to_json() | {"stays": state.stays}}),
    }


def _verdict_facts(verdict: Verdict) -> dict[str, Any]:
    difference = verdict.difference
    return {
        "name": verdict.contender.name,
        "kind": verdict.contender.kind,
        "score": round(verdict.score, 4),
        "calls": round(verdict.contender.calls, 4),
        "n": difference.n if difference is not None else verdict.contender.evaluation.n,
        "difference": round(difference.value, 4) if difference is not None else None,
        "lower_bound": round(difference.lower_bound_one_sided, 4) if difference is not None else None,
        "detectable": round(difference.detectable, 4) if difference is not None else None,
        "expected": round(verdict.expected, 4),
        "spread": round(verdict.spread, 4),
        "worth": round(verdict.worth, 4),
        "broken": list(verdict.broken),
    }
