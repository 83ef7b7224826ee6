"""The last step: save the chosen program, evaluate it once on the test turns, and write the report.

The program is saved before the evaluation, marked as ``interrupted``, so that a later failure leaves one that loads.
"""

from __future__ import annotations

from dataclasses import replace

from jazzmine_dspy import artifacts
from jazzmine_dspy.eval.report import write_report
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.delivery import manifest_facts, run_facts
from jazzmine_dspy.optimize.findings import build_report
from jazzmine_dspy.optimize.interrupted import remove_unfinished
from jazzmine_dspy.optimize.local.training import documents
from jazzmine_dspy.optimize.report_rows import report_rows
from jazzmine_dspy.optimize.state import RunState
from jazzmine_dspy.optimize.tracked import track_end
from jazzmine_dspy.optimize.whole import whole_conversations


def report(context: RunContext, state: RunState) -> RunState:
    """Save the program, evaluate it on the test turns, write its report, and complete the tracked run."""
    folder, recipe = context.folder, context.recipe
    examples = None if state.stays else documents(state.examples)
    context.best.ships(state.program, examples)
    context.best.save(folder, manifest_facts(context, state, ""), run_facts(context))
    before = context.budget.spent()
    context.dataset.open_test(f"final report of {recipe.name}", context.work)
    state = replace(state, systems=report_rows(context, state))
    page = build_report(context, state, before, whole_conversations(context, state.program))
    spent = {**context.spent(), "report": context.budget.since(before)}
    artifacts.save(
        state.program,
        folder,
        name=recipe.name,
        facts=manifest_facts(context, state, page.first_line),
        run=run_facts(context) | {"spent": spent},
        examples=examples,
    )
    remove_unfinished(folder)
    context.best.saved = folder
    paths = write_report(page, folder / "report")
    context.best.complete = True
    track_end(context, state, page, folder)
    return replace(state, report=page, paths=paths, spent=spent)
