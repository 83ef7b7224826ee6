"""An optimization run: fit, compile, race, and report once on turns that nothing has seen.

``_compile`` is a run from top to bottom, and the one place where a program is put together: the phases in ``pipeline/``
take the run's context and what was found before, and return what they find.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dspy

from jazzmine_dspy import artifacts
from jazzmine_dspy.artifacts.recall import recall_numbers
from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.report import Report, write_report
from jazzmine_dspy.models.decision import STAGES, SourceKind, Stage
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.optimizers.candidates import Optimizer, calls_per_turn
from jazzmine_dspy.optimize.pipeline import race
from jazzmine_dspy.optimize.pipeline.added import check_added, train_heads
from jazzmine_dspy.optimize.pipeline.cascade import fit_questions, order_with_lm
from jazzmine_dspy.optimize.pipeline.check import check_labels, check_lm
from jazzmine_dspy.optimize.pipeline.final import final_rows, manifest_facts, track
from jazzmine_dspy.optimize.pipeline.outcome import Outcome
from jazzmine_dspy.optimize.pipeline.prompts import compile_prompts
from jazzmine_dspy.optimize.pipeline.recall import FittedRecall, IndexExample
from jazzmine_dspy.optimize.pipeline.refit import refit
from jazzmine_dspy.optimize.pipeline.report import build_report
from jazzmine_dspy.optimize.pipeline.selection import SelectionFit, fit_index, fit_selection
from jazzmine_dspy.optimize.progress import NullProgress, Progress
from jazzmine_dspy.optimize.recipe import Recipe, read_recipe
from jazzmine_dspy.optimize.tracking import Tracker
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.turn import TurnProgram

_WORK = Path(".jazzmine")


class RunResult(NamedTuple):
    """What a run leaves behind."""

    program: TurnProgram
    folder: Path
    report: Report
    report_paths: Any
    manifest: dict[str, Any]
    spent: dict[str, Any]
    shipped: dict[Stage, str]
    first_line: str


class Parts(NamedTuple):
    """What is fitted under one order of the sources that rewrite, and the program with it."""

    program: TurnProgram
    recall: FittedRecall | None
    selection: SelectionFit


def optimize(
    recipe: Recipe | str | Path,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    start_from: str | Path | None = None,
    lm: dspy.LM | None = None,
    optimizer: Optimizer | None = None,
) -> RunResult:
    """Run a recipe: what ``jazzmine-dspy optimize`` does.

    Args:
        recipe: A recipe, or its file.
        out: Folder of the program, ``optimize/programs/NAME`` by default; its report is in ``report/``.
        progress: Watches the run.
        start_from: A compiled program whose prompts are the starting point; the report calls it uncompiled.
        lm: A language model to ask instead of the one that the recipe names.
        optimizer: Makes the candidates instead of the optimizer that the recipe names.

    Raises:
        RecipeError: the recipe cannot be run: the dataset lacks the labels of its objective, or the language model
            does not answer.
        DatasetError: the dataset is broken, or one of its parts is empty.
        LMNotFoundError: the language model's name does not resolve.
    """  # fmt: skip
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    if lm is not None:
        recipe = recipe.model_copy(update={"lm": lm.model, "lm_settings": {}})
    folder = Path(out) if out is not None else Path("optimize/programs") / recipe.name
    artifacts.check_target(folder)
    started = dt.datetime.now(dt.UTC)
    _WORK.mkdir(exist_ok=True)
    progress = progress or NullProgress()
    progress.phase("read the dataset", None)
    dataset = load_dataset(recipe.dataset)
    check_added(recipe)
    check_labels(recipe, dataset)
    base, started_from = start_program(recipe, dataset, start_from)
    context = _context(recipe, dataset, progress, started_from, lm)
    tracker = None if recipe.tracking == "none" else Tracker(recipe.tracking, _WORK / "mlflow", recipe.name)
    try:
        outcome = _compile(context, base, optimizer)
        dataset.open_test(f"final report of {recipe.name}", _WORK)
        # The baseline learns from what the shipped program has learnt from.
        learnt = dataset.examples("train", "dev_a", "dev_b") if recipe.refit else dataset.examples("train")
        systems = final_rows(context, outcome, dataset.examples("test"), learnt)
        report = build_report(context, outcome, systems)
        spent = context.budget.spent()
        dates = {"started": started.isoformat(), "ended": dt.datetime.now(dt.UTC).isoformat()}
        artifacts.save(
            outcome.program,
            folder,
            name=recipe.name,
            facts=manifest_facts(context, outcome, systems, report.first_line),
            run={**dates, "spent": spent},
            examples=_documents(outcome.examples),
        )
        paths = write_report(report, folder / "report")
        if tracker is not None:
            track(tracker, context, systems, folder)
        return RunResult(
            outcome.program,
            folder,
            report,
            paths,
            artifacts.read_manifest(folder),
            spent,
            outcome.shipped,
            report.first_line,
        )
    except BaseException:
        if tracker is not None:
            tracker.close("FAILED")
        raise
    finally:
        progress.close()


def _compile(context: RunContext, base: TurnProgram, optimizer: Optimizer | None) -> Outcome:
    """A run from the first fit to what ships."""
    dataset = context.dataset
    train, dev_a, dev_b = (dataset.examples(role) for role in ("train", "dev_a", "dev_b"))
    check_lm(context, base, train)

    # What needs no language model, fitted on rewrites by rule and floor; then the prompts.
    parts = fit_parts(context, base, train, FLOOR["enhance"])
    prompts = compile_prompts(context, parts.program, train, dev_a, optimizer)

    # The race: prompts first, then stage by stage within the whole program.
    floors = race.start(context, parts.program, dev_b)
    lm = race.race_prompts(context, prompts, dev_b)
    base = race.with_prompts(base, lm)
    parts = parts._replace(program=race.with_prompts(parts.program, lm))
    standing = floors
    if lm is not None and _can_fit_again(context, parts, train):
        standing = race.race_enhance(context, parts.program, standing, lm)
    standing = race.race_added(context, parts.program, standing, "enhance", lm)
    if standing.orders["enhance"] != parts.selection.enhance:
        # Others rewrite now than when index, floor, head and gates were fitted: these are fitted again.
        parts = fit_parts(context, base, train, standing.orders["enhance"])
        standing = race.again(context, parts.program, standing, lm)
    with_lm = order_with_lm(context, parts.program, parts.selection, lm.tried if lm else None, dev_a)
    standing = race.race_select(context, parts.program, standing, parts.selection, with_lm, lm)
    standing = race.race_added(context, parts.program, standing, "select", lm)
    standing = race.race_understand(context, parts.program, standing, lm)
    standing = race.race_added(context, parts.program, standing, "understand", lm)
    standing = race.against_floors(context, standing, floors.evaluation)
    if standing.orders["enhance"] != parts.selection.enhance:
        # The floors ship after all, and so does what was fitted for them.
        parts, with_lm = fit_parts(context, base, train, standing.orders["enhance"]), None

    # What ships: the orders that stand, questions where they pay, and the last fit.
    policy = standing.policy(parts.program.policy)
    policy = policy.model_copy(update={"trust": race.trust(floors.evaluation, lm)})
    program = parts.program.with_policy(policy)
    asks = fit_questions(context, program, parts.selection, dev_b)
    if asks is not None:
        program = program.with_policy(policy.model_copy(update={"clarify": asks.margins}))
    examples = parts.recall.examples if parts.recall is not None else ()
    again = refit(context, program, parts.selection, examples)
    if again is not None:
        program = with_index(program, again.examples) if again.examples else program
        program = program if again.head is None else program.bind(heads={"select": again.head})
        program.bind(heads=train_heads(context, program, dataset.examples("train", "dev_a", "dev_b")))
    return Outcome(
        program,
        parts.selection,
        prompts,
        standing,
        recall=parts.recall,
        lm=lm,
        with_lm=with_lm,
        questions=asks,
        refit=again,
    )


def fit_parts(
    context: RunContext, base: TurnProgram, train: Sequence[Example], enhance: tuple[SourceKind, ...]
) -> Parts:
    """Fit index, floor and head on what the program's own steps make of the training turns.

    Args:
        context: Of the run.
        base: The program before anything is fitted; its prompts are those that race.
        train: Labelled turns.
        enhance: The order of the sources that rewrite them.

    Returns:
        The parts, and the program with them; floors answer where no order was raced.
    """
    program = base.with_policy(base.policy.model_copy(update={"orders": {**FLOOR, "enhance": enhance}}))
    rewriting = train_heads(context, program, train, STAGES[:1])
    program.bind(heads=rewriting)
    recall = fit_index(context, program, train)
    if recall is not None:
        numbers = recall_numbers(recall.settings)
        program = program.with_policy(program.policy.model_copy(update={"recall": numbers}))
        program = with_index(program, recall.examples)
    selection = fit_selection(context, program, train)
    scores: Mapping[str, Any] = {"floor_score": selection.thresholds} if selection.thresholds else {}
    program = program.with_policy(program.policy.model_copy(update=scores))
    if selection.head is not None:
        program.bind(heads={"select": selection.head.head})
    others = train_heads(context, program, train, STAGES[1:])
    program.bind(heads=others)
    return Parts(program, recall, selection)


def with_index(program: TurnProgram, examples: Sequence[IndexExample]) -> TurnProgram:
    """A copy of a program with an index of its flows and of labelled turns, which ranks as its policy says."""
    copy = program.with_policy(program.policy)
    artifacts.bind_recall(copy, copy.bindings.embedder, _documents(examples))
    return copy


def _documents(examples: Sequence[IndexExample]) -> list[dict[str, str]]:
    """Lines of ``examples.jsonl``."""
    return [{"text": text, "flow": flow, "conversation": group} for text, flow, group in examples]


def _can_fit_again(context: RunContext, parts: Parts, train: Sequence[Example]) -> bool:
    """Whether the budget allows to fit again what hangs on the rewrite, should the language model win it."""
    if context.recipe.shape == "fused" and parts.selection.head is None:
        # Recall is asked before the rewrite, and nobody else reads it.
        return True
    asked = [*train, *context.dataset.examples("dev_a", "dev_b")]
    orders = {**FLOOR, "enhance": race.LM_ORDER}
    calls = calls_per_turn(
        parts.program.with_policy(parts.program.policy.model_copy(update={"orders": orders}))
    )
    ruled = parts.program.with_policy("floor")
    needed = sum(ruled.decide(e.turn).stages["enhance"].source != "rule" for e in asked) * calls
    left = context.budget.meter.calls_left
    if left is None or left - context.calls_kept() >= needed:
        return True
    context.progress.note(
        f"the language model does not race for the rewrite: fitting the selection again would take {needed} calls"
    )
    return False


def start_program(
    recipe: Recipe, dataset: Dataset, start_from: str | Path | None = None
) -> tuple[TurnProgram, str | None]:
    """The program before anything is fitted, with an embedder and an index of the flows; and what it started from."""
    shown = {
        "shape": recipe.shape,
        "top_k": recipe.top_k,
        "history_shown": recipe.history_shown,
        "max_commands": recipe.max_commands,
        "orders": FLOOR,
    }
    started_from = None
    if start_from is not None:
        loaded = artifacts.load_with_manifest(start_from, flows=dataset.flows, bind=False)
        # The prompts are the start; heads, gates and orders are this run's own.
        program, started_from = loaded.program, str(loaded.manifest["sha256"])
        program.bind(heads=dict.fromkeys(program.bindings.heads))
        program = program.with_policy(Policy.model_validate(shown))
    else:
        folder = Path(recipe.signatures) if recipe.signatures else None
        program = TurnProgram(dataset.flows, policy=Policy.model_validate(shown), signatures=folder)
    artifacts.bind_recall(program, recipe.embedder)
    return program, started_from


def _context(
    recipe: Recipe, dataset: Dataset, progress: Progress, started_from: str | None, lm: dspy.LM | None
) -> RunContext:
    budget = Budget(recipe.budget)
    given: dict[str, Any] = {"started_from": started_from, "work": _WORK}
    if recipe.lm != "none":
        from jazzmine_dspy.lm import ReplayStore, lm_identity, metered, replayed, resolve_lm

        lm = lm or resolve_lm(recipe.lm, **recipe.lm_settings)
        given["lm_facts"] = {"model": lm.model, "identity": lm_identity(lm)}
        counted = metered(replayed(lm, ReplayStore(_WORK / "replay.db")), budget.meter)
        # What this run has asked before it need not ask again: it costs no call.
        given["lm"] = replayed(counted, ReplayStore(":memory:"))
    elif recipe.optimizer != "none":
        progress.note("no language model is asked, so no prompt is compiled")
    return RunContext(recipe, dataset, progress, budget, **given)
