"""The last step: save the chosen program, evaluate it once on the test turns, and write the report.

The program is saved before the evaluation, marked as ``interrupted``, so that a later failure leaves one that loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jazzmine_dspy import artifacts
from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.eval.report import Gain, Report, System, write_report
from jazzmine_dspy.eval.suite import replay_dataset
from jazzmine_dspy.models.decision import Stage
from jazzmine_dspy.models.errors import DatasetError, EmbeddingError, InputError
from jazzmine_dspy.optimize import findings
from jazzmine_dspy.optimize.baseline import tfidf_baseline
from jazzmine_dspy.optimize.context import JUDGE_TIME, PARTS, RunContext
from jazzmine_dspy.optimize.interrupted import remove_unfinished
from jazzmine_dspy.optimize.local.recall import documents
from jazzmine_dspy.optimize.local.training import own_examples, selection_label
from jazzmine_dspy.optimize.measuring import evaluate_within
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn
from jazzmine_dspy.optimize.state import RunState, manifest_facts, run_facts
from jazzmine_dspy.optimize.steps.contenders import BEFORE
from jazzmine_dspy.optimize.tracked import track_end
from jazzmine_dspy.program.ports import HeadPort
from jazzmine_dspy.program.turn import TurnProgram

BASELINE = "TF-IDF + logistic regression"
_NOTES = {
    BASELINE: "chooses flows only; the rest is the local decider's without its models",
    BASE: "the package's weights over these flows: no label of the dataset, no language model",
    "LM as written": "the language model on every turn, prompts as written",
    "LM compiled": "the language model on every turn, with the prompts that were best on dev-A",
    findings.CASCADE: "the shipped program, and the language model on the turns without enough confidence",
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
    state = replace(state, systems=_report_rows(context, state))
    page = _build_report(context, state, before, _whole_conversations(context, state.program))
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


def _build_report(
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
            name, evaluation, note=_NOTES[name], shipped=name == "shipped",
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
        examples_changed=findings.changed_turns(context.recipe.target, systems),
        choosing=findings.choosing(context, state),
        verdict=findings.verdict_sentence(context, state),
        prompts=findings.compiled_prompts(state, context.dataset.examples("dev_a")),
        card=context.dataset.card,
        recipe=recipe.in_words(),
        comparison=findings.before_and_after(context, systems),
        replay=whole,
    )


def _whole_conversations(context: RunContext, program: TurnProgram) -> dict[str, Any] | None:
    """Results of the replay; None if the recipe has it off, nothing can be replayed, or it would cost calls."""
    if not context.recipe.replay or calls_per_turn(program):
        return None
    context.progress.phase("test: whole conversations", None)
    try:
        return replay_dataset(context.dataset, "test", program).to_json()
    except InputError as error:
        context.progress.note(f"no whole conversation was run: {error.message}")
        return None


# --- the rows: programs on the test turns -------------------------------------------------------------


def _report_rows(context: RunContext, state: RunState) -> dict[str, Evaluation | None]:
    """Evaluate the rows. Programs that ask the LM run on a sample of the test turns, the others on all.

    Returns:
        The rows by name, None where one was not run.
    """
    recipe, program = context.recipe, state.program
    test = context.dataset.examples("test")
    best, uncompiled = state.prompts.best_compiled, state.prompts.uncompiled
    if state.unanswered:
        best = uncompiled = None
    ships_lm = calls_per_turn(program) > 0
    sample = list(test) if context.lm is None else context.sample(test, recipe.sample.test, salt=3)
    if uncompiled is not None:
        # These rows get the same turns, so the sample must fit the budget for all of them.
        askers = 2 + (best is not None)
        fitting = context.affordable(len(sample), calls_per_turn(uncompiled.candidate.program) * askers)
        sample = context.sample(test, fitting, salt=3) if fitting else sample
        uncompiled = uncompiled if fitting else None

    def row(
        name: str, system: TurnProgram, turns: Sequence[Example], *, judge_lm: bool = False, time: float = 1.0
    ) -> Evaluation | None:
        return evaluate_within(
            context, f"test: {name}", system, turns, judge_lm=judge_lm, time=time, timed=True
        )

    classic = _classic(context, program)
    systems: dict[str, Evaluation | None] = {
        BASELINE: row("TF-IDF", classic, test) if classic is not None else None,
        BASE: row(BASE, state.base, test),
        "LM as written": None,
        "LM compiled": None,
    }
    if uncompiled is not None:
        # The two rows share the remaining time, so that both get some.
        systems["LM as written"] = row(
            "LM as written",
            uncompiled.candidate.program,
            sample,
            judge_lm=True,
            time=(JUDGE_TIME + 1.0) / 2 if best is not None else 1.0,
        )
        if best is not None:
            systems["LM compiled"] = row("LM compiled", best.candidate.program, sample, judge_lm=True)
        if not ships_lm and dict(program.policy.deciders).get("local") is not None:
            systems[findings.CASCADE] = row(
                findings.CASCADE, program.with_policy("cascade"), sample, judge_lm=True
            )
    shipped = row("shipped", program, sample if ships_lm else test)
    return {**systems, **_before(context, state, shipped), "shipped": shipped}


def _before(context: RunContext, state: RunState, shipped: Evaluation | None) -> Mapping[str, Evaluation]:
    """Evaluate the program that the run starts from, on the turns of the shipped program."""
    previous = context.previous
    if previous is None or shipped is None or (context.lm is None and calls_per_turn(previous.program)):
        return {}
    if state.stays:
        return {BEFORE: shipped}
    evaluation = evaluate_within(
        context, f"test: {BEFORE}", previous.program, [turn.example for turn in shipped.turns], timed=True
    )
    return {} if evaluation is None or evaluation.n < shipped.n else {BEFORE: evaluation}


def _classic(context: RunContext, program: TurnProgram) -> TurnProgram | None:
    """The TF-IDF baseline, trained on the turns that the shipped program learnt from; None if these are too few."""
    parts = PARTS if context.recipe.refit else PARTS[:1]
    labelled = [each for each in context.dataset.examples(*parts) if each.labels.flows is not None]
    own = own_examples(program)
    try:
        embedder, head = tfidf_baseline(
            [*(e.turn.text for e in labelled), *(text for text, _ in own)],
            [*map(selection_label, labelled), *(name for _, name in own)],
            seed=context.recipe.seed,
        )
    except (DatasetError, EmbeddingError) as error:
        context.progress.note(f"no TF-IDF baseline: {error.message}")
        return None
    heads: dict[Stage, HeadPort[Any] | None] = {"select": head, "understand": None, "enhance": None}
    return program.with_policy("local").bind(embedder=embedder, heads=heads)
