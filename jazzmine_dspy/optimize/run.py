"""An optimization run: six steps over what it is given, each a function from one state of the run to the next."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dspy

from jazzmine_dspy import artifacts
from jazzmine_dspy.artifacts.loading import base_policy
from jazzmine_dspy.models.errors import LMUnansweredError
from jazzmine_dspy.optimize.checks import check_lm, open_dataset
from jazzmine_dspy.optimize.context import NullProgress, Progress, RunContext
from jazzmine_dspy.optimize.local.recall import documents
from jazzmine_dspy.optimize.opening import alone, open_context, start_program
from jazzmine_dspy.optimize.optimizers.registry import Optimizer, calls_per_turn
from jazzmine_dspy.optimize.planning import plan_run
from jazzmine_dspy.optimize.previous import read_previous
from jazzmine_dspy.optimize.recipe import Recipe, read_recipe
from jazzmine_dspy.optimize.state import RunResult, RunState, run_facts, stopped_facts
from jazzmine_dspy.optimize.steps.choose import choose, refit
from jazzmine_dspy.optimize.steps.contenders import evaluate_contenders
from jazzmine_dspy.optimize.steps.local import fit_local
from jazzmine_dspy.optimize.steps.prompts import compile_prompts
from jazzmine_dspy.optimize.steps.report import report
from jazzmine_dspy.optimize.tracked import track_start
from jazzmine_dspy.optimize.tracking import Tracker
from jazzmine_dspy.program.deadline import check_interrupt, outside_loop
from jazzmine_dspy.program.turn import TurnProgram

_WORK = Path(".jazzmine")

Step = Callable[[RunContext, RunState], RunState]

STEPS: tuple[Step, ...] = (fit_local, compile_prompts, evaluate_contenders, choose, refit, report)


def optimize(
    recipe: Recipe | str | Path,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    start_from: str | Path | None = None,
    lm: dspy.LM | None = None,
    optimizer: Optimizer | None = None,
    teacher: dspy.LM | None = None,
    fresh: bool = False,
) -> RunResult:
    """Run a recipe, like ``jazzmine-dspy optimize``. Also works in a notebook with a running event loop.

    After a stop, call it again: it reuses all stored answers and ends in the same program.

    Args:
        recipe: A recipe, or its file.
        out: Folder of the program, ``optimize/programs/NAME`` by default; its report is in ``report/``.
        progress: Watches the run.
        start_from: A compiled program. Its prompts are the starting point; it is judged over the
            dataset's flows on turns that it has not learnt from, and ships unless another program is better. The
            report compares before and after.
        lm: A language model instead of the one in the recipe.
        optimizer: An optimizer of prompts instead of the one in the recipe.
        teacher: A language model that gives right answers and writes prompts, instead of the recipe's ``teacher``.
        fresh: Whether to ignore stored answers, for example because the model behind the name has changed. New
            answers replace the stored ones.

    Raises:
        RecipeError: the dataset lacks the labels of the objective, the language model cannot be reached, or another run
            is writing into the folder. If the language model is down, the run continues without it and reports so.
        KeyboardInterrupt: the run was stopped; the best program so far is in its folder, or next to an existing one.
        DatasetError: the dataset is broken, or one of its parts is empty.
        LMNotFoundError: the language model's name does not resolve.
    """  # fmt: skip
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    if lm is not None:
        recipe = recipe.model_copy(update={"lm": lm.model, "lm_settings": {}})
    if teacher is not None:
        named = recipe.teacher.model_copy(update={"lm": teacher.model, "lm_settings": {}})
        recipe = recipe.model_copy(update={"teacher": named})
    folder = Path(out) if out is not None else Path("optimize/programs") / recipe.name
    progress = progress or NullProgress()
    run = functools.partial(_run, recipe, folder, progress, start_from, lm, optimizer, teacher, fresh=fresh)
    try:
        artifacts.check_target(folder)
        with alone(folder):
            return outside_loop(run)
    finally:
        progress.close()


def _run(
    recipe: Recipe,
    folder: Path,
    progress: Progress,
    start_from: str | Path | None,
    lm: dspy.LM | None,
    optimizer: Optimizer | None,
    teacher: dspy.LM | None,
    *,
    fresh: bool,
) -> RunResult:
    started = dt.datetime.now(dt.UTC)
    _WORK.mkdir(exist_ok=True)
    progress.phase("read the dataset", None)
    dataset = open_dataset(recipe)
    previous = None if start_from is None else read_previous(start_from, dataset)
    for change in previous.changes if previous is not None else ():
        progress.note(change.in_words())
    start, started_from = start_program(recipe, dataset, start_from)
    context = open_context(
        recipe,
        dataset,
        progress,
        _WORK,
        started_from=started_from,
        lm=lm,
        teacher=teacher,
        fresh=fresh,
    )
    context = replace(context, previous=previous, optimizer=optimizer, folder=folder, started=started)
    if recipe.tracking != "none":
        context = replace(
            context, tracker=Tracker(recipe.tracking, _WORK / "mlflow", recipe.name, progress.note)
        )
    try:
        if context.lm is not None:
            for line in plan_run(context, start).in_words():
                progress.note(line)
        track_start(context)
        base = base_of(start)
        context.best.stands(base)
        unanswered = check_lm(context, start, dataset.examples("train"))
        if unanswered and previous is not None and calls_per_turn(previous.program):
            raise LMUnansweredError(
                unanswered,
                where=str(start_from),
                remedy="The program that the run starts from asks it: run it again when it answers.",
            )
        if unanswered:
            progress.note(f"{unanswered}; the run goes on without it")
            context = replace(context, lm=None)
        state = RunState(base, start, base, unanswered=unanswered)
        for step in STEPS:
            check_interrupt()
            state = step(context, state)
            context.best.stands(state.program, None if state.stays else documents(state.examples))
        assert state.report is not None, "the last step reports"
        return RunResult(
            state.program,
            folder,
            state.report,
            state.paths,
            artifacts.read_manifest(folder),
            dict(state.spent),
            state.ships,
            state.report.first_line,
            context.tracker.lost if context.tracker is not None else "",
        )
    except BaseException as error:
        if context.tracker is not None:
            context.tracker.close("FAILED")
        context.best.stop(error, folder, stopped_facts(context), run_facts(context), progress.note)
        raise


def base_of(program: TurnProgram) -> TurnProgram:
    """The base program over the same flows, index and embedding model, without labels or a language model."""
    plain = program.with_policy(base_policy(program.policy))
    return plain.bind(heads=dict.fromkeys(plain.bindings.heads))
