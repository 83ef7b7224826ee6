"""The end of a run: the program is saved first; the figures on the test turns, the report and MLflow follow.

Whatever fails after the first save leaves a program that loads, and the error says where it is.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy import artifacts
from jazzmine_dspy.eval.report import Report, write_report
from jazzmine_dspy.models.decision import Stage
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.interrupted import remove_unfinished
from jazzmine_dspy.optimize.pipeline.final import final_rows, manifest_facts
from jazzmine_dspy.optimize.pipeline.outcome import Outcome, Systems
from jazzmine_dspy.optimize.pipeline.parts import documents
from jazzmine_dspy.optimize.pipeline.report import build_report
from jazzmine_dspy.optimize.pipeline.tracked import track_end
from jazzmine_dspy.optimize.pipeline.updated import with_before
from jazzmine_dspy.optimize.pipeline.whole import whole_conversations
from jazzmine_dspy.program.turn import TurnProgram


class RunResult(NamedTuple):
    """What a run leaves behind. ``untracked`` is why MLflow has not got all of it; empty where it has."""

    program: TurnProgram
    folder: Path
    report: Report
    report_paths: Any
    manifest: dict[str, Any]
    spent: dict[str, Any]
    shipped: dict[Stage, str]
    first_line: str
    untracked: str = ""


def deliver(context: RunContext, outcome: Outcome, folder: Path, started: dt.datetime) -> RunResult:
    """Save the program, measure it on the test turns, write its report, and complete the tracked run.

    The program is saved before it is measured, marked as ``interrupted``, and again with its figures.

    Args:
        context: Of the run.
        outcome: What ships.
        folder: Of the program.
        started: When the run began.
    """
    examples = None if outcome.kept else documents(outcome.examples)
    context.best.ships(outcome.program, examples)
    context.best.save(folder, manifest_facts(context, outcome, {}, ""), run_facts(context, started))
    before = context.budget.spent()
    systems = _measured(context, outcome)
    report = build_report(context, outcome, systems, before, whole_conversations(context, outcome))
    spent = {**context.spent(), "report": context.budget.since(before)}
    artifacts.save(
        outcome.program,
        folder,
        name=context.recipe.name,
        facts=manifest_facts(context, outcome, systems, report.first_line),
        run=run_facts(context, started) | {"spent": spent},
        examples=examples,
    )
    remove_unfinished(folder)
    context.best.saved = folder
    paths = write_report(report, folder / "report")
    context.best.complete = True
    track_end(context, outcome, systems, report, folder)
    return RunResult(
        outcome.program,
        folder,
        report,
        paths,
        artifacts.read_manifest(folder),
        spent,
        outcome.shipped,
        report.first_line,
        context.tracker.lost if context.tracker is not None else "",
    )


def run_facts(context: RunContext, started: dt.datetime) -> dict[str, Any]:
    """What ``run.json`` says of a run: when it began and ended, what it has spent, and where it is tracked."""
    dates = {"started": started.isoformat(), "ended": dt.datetime.now(dt.UTC).isoformat()}
    tracking = {} if context.tracker is None else {"tracking": context.tracker.facts}
    return {**dates, "spent": context.spent(), **tracking}


def _measured(context: RunContext, outcome: Outcome) -> Systems:
    """The rows of the report: the systems on the test turns."""
    recipe, dataset = context.recipe, context.dataset
    dataset.open_test(f"final report of {recipe.name}", context.work)
    # The baseline learns from what the shipped program has learnt from.
    learnt = dataset.examples("train", "dev_a", "dev_b") if recipe.refit else dataset.examples("train")
    return with_before(context, outcome, final_rows(context, outcome, dataset.examples("test"), learnt))
