"""The last step: save the chosen program, evaluate it once on the test turns, and write the report.

The program is saved before the evaluation, marked as ``interrupted``, so that a later failure leaves one that loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jazzmine_dspy import artifacts
from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.report import Gain, Report, System, write_report
from jazzmine_dspy.eval.suite import replay_dataset
from jazzmine_dspy.lm.replay import Recording
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.optimize import findings
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.delivery import manifest_facts, run_facts
from jazzmine_dspy.optimize.interrupted import remove_unfinished
from jazzmine_dspy.optimize.local.recall import documents
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn
from jazzmine_dspy.optimize.report_rows import BASELINE, cascade_name, report_rows
from jazzmine_dspy.optimize.state import RunState
from jazzmine_dspy.optimize.steps.contenders import BEFORE
from jazzmine_dspy.optimize.tracked import track_end
from jazzmine_dspy.program.turn import TurnProgram

_NOTES = {
    BASELINE: "chooses flows only; the rest is the local decider's without its models",
    BASE: "the package's weights over these flows: no label of the dataset, no language model",
    "LM as written": "the language model on every turn, prompts as written",
    "LM compiled": "the language model on every turn, with the prompts that were best on dev-A",
    BEFORE: "the program that the run starts from, over the flows as they are now",
    "shipped": "the whole program that the run chose",
}
_SELECTION = frozenset({"flow_set_exact", "flow_order_exact", "in_scope_accuracy", "out_of_scope_recall"})
_GAINS = (
    ("compiling the LM", "LM compiled", "LM as written"),
    ("LM as written over base", "LM as written", BASE),
    ("LM compiled over base", "LM compiled", BASE),
    ("shipped over base", "shipped", BASE),
)


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


def build_report(
    context: RunContext, state: RunState, before: Mapping[str, Any], whole: Mapping[str, Any] | None = None
) -> Report:
    """Build the report of a run.

    Args:
        context: Of the run.
        state: At its end.
        before: Spending before the rows of the report were evaluated.
        whole: Results on whole conversations that the program replayed with its own state.
    """
    recipe, systems = context.recipe, state.systems
    rows = [
        System(
            name, evaluation, note=_note(context, name, evaluation), shipped=name == "shipped",
            covers=_SELECTION if name == BASELINE else None,
        )
        for name, evaluation in systems.items() if evaluation is not None
    ]  # fmt: skip
    previous = context.previous
    started_from = "" if previous is None else f" --from {previous.manifest['name']}"
    metrics = (recipe.objective, *recipe.constraints)
    gains = [
        Gain(name, metric, gain)
        for name, ours, theirs in _GAINS
        for metric in metrics
        if (gain := findings.difference(systems, ours, theirs, metric)) is not None
    ]
    points = list(findings.learning_points(context, state))
    return Report(
        title=f"{recipe.name}: {context.dataset.name} "
        + ("without a language model" if recipe.lm == "none" else f"with {recipe.lm}"),
        first_line=findings.first_line(context, state),
        systems=rows,
        candidates=[findings.candidate_row(context, state, each) for each in state.verdicts],
        learning=points,
        learning_words=findings.learning_words(points),
        gains=gains,
        facts=findings.report_facts(context, state, before),
        reproduce=f"jazzmine-dspy optimize optimize/recipes/{recipe.name}.toml{started_from}",
        examples_changed=findings.changed_turns(context.objective, systems),
        compared=("LM as written", "LM compiled"),
        choosing=findings.choosing(context, state),
        verdict=findings.verdict_sentence(context, state),
        prompts=findings.compiled_prompts(state, context.dataset.examples("dev_a")),
        card=context.dataset.card,
        recipe=recipe.in_words(),
        comparison=findings.before_and_after(context, systems),
        updated=list(previous.flows) if previous is not None else [],
        replay=whole,
    )


def _note(context: RunContext, name: str, evaluation: Evaluation) -> str:
    for part in context.recipe.recorded:
        if name in (part.name, cascade_name(part.name)):
            recording = Recording.read(part.folder)
            return f"recorded answers of {recording.kind}, {recording.date}, on {evaluation.n} test turns"
    return _NOTES[name]


def whole_conversations(context: RunContext, program: TurnProgram) -> dict[str, Any] | None:
    """Results of the replay; None if the recipe has it off, nothing can be replayed, or it would cost calls."""
    if not context.recipe.replay or calls_per_turn(program):
        return None
    context.progress.phase("test: whole conversations", None)
    try:
        return replay_dataset(context.dataset, "test", program).to_json()
    except InputError as error:
        context.progress.note(f"no whole conversation is held: {error.message}")
        return None
