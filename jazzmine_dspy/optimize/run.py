"""An optimization run: fit, compile, race, and report once on turns that nothing has seen.

``_compile`` is a run from top to bottom, and the one place where a program is put together: the phases in ``pipeline/``
take the run's context and what was found before, and return what they find.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.decision import STAGES, SourceKind, Stage
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.delivery import RunResult, deliver, run_facts
from jazzmine_dspy.optimize.earlier import for_update, read_earlier
from jazzmine_dspy.optimize.opening import alone, open_context, start_program
from jazzmine_dspy.optimize.optimizers.registry import Optimizer, calls_per_turn, named
from jazzmine_dspy.optimize.pipeline import race
from jazzmine_dspy.optimize.pipeline.acts import fit_acts, gate_acts, race_acts
from jazzmine_dspy.optimize.pipeline.added import check_added, train_heads
from jazzmine_dspy.optimize.pipeline.cascade import fit_questions, order_with_lm
from jazzmine_dspy.optimize.pipeline.check import check_labels, check_lm
from jazzmine_dspy.optimize.pipeline.choice import against_base, base_of
from jazzmine_dspy.optimize.pipeline.feeling import fit_own_feeling
from jazzmine_dspy.optimize.pipeline.final import stopped_facts
from jazzmine_dspy.optimize.pipeline.out_of_fold import unseen_selection
from jazzmine_dspy.optimize.pipeline.outcome import Outcome
from jazzmine_dspy.optimize.pipeline.parts import Parts, documents, fit_parts
from jazzmine_dspy.optimize.pipeline.prompts import compile_prompts
from jazzmine_dspy.optimize.pipeline.refit import refit
from jazzmine_dspy.optimize.pipeline.refit_budget import can_fit_again, cut_short, left_for, reads_rewrite
from jazzmine_dspy.optimize.pipeline.selection import SelectionFit
from jazzmine_dspy.optimize.pipeline.sure import fit_sureness
from jazzmine_dspy.optimize.pipeline.tracked import track_candidate, track_start
from jazzmine_dspy.optimize.pipeline.updated import settle
from jazzmine_dspy.optimize.progress import NullProgress, Progress
from jazzmine_dspy.optimize.recipe import Recipe, read_recipe
from jazzmine_dspy.optimize.tracking import Tracker
from jazzmine_dspy.program.own_loop import outside_loop
from jazzmine_dspy.program.policy import FLOOR
from jazzmine_dspy.program.ports import HeadPort
from jazzmine_dspy.program.turn import TurnProgram

_WORK = Path(".jazzmine")


def optimize(
    recipe: Recipe | str | Path,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    start_from: str | Path | None = None,
    lm: dspy.LM | None = None,
    optimizer: Optimizer | None = None,
    teacher: dspy.LM | None = None,
    update: str | Path | None = None,
    fresh: bool = False,
) -> RunResult:
    """Run a recipe: what ``jazzmine-dspy optimize`` does. Works in a notebook too, where an event loop runs already.

    Call it again after a run was stopped: what was answered is not asked again, and it ends in the same program.

    Args:
        recipe: A recipe, or its file.
        out: Folder of the program, ``optimize/programs/NAME`` by default; its report is in ``report/``.
        progress: Watches the run.
        start_from: A compiled program whose prompts are the starting point, in its wording; the report calls it
            uncompiled.
        lm: A language model to ask instead of the one that the recipe names.
        optimizer: Makes the candidates instead of the optimizer that the recipe names.
        teacher: A language model that shows right answers and writes prompts, instead of the recipe's ``teacher``.
        update: A compiled program to bring up to date with the dataset's flows and turns: what hangs on these is fitted
            again, its prompts are kept unless those as written beat them, and it stays as it is where the new one does
            worse on turns that neither has learnt from. The report compares before and after.
        fresh: Ask the language model anew, whatever it has answered in earlier runs: behind its name stand other
            weights, or what it answered was wrong. The new answers are stored in place of the old ones.

    Raises:
        RecipeError: the recipe cannot be run: the dataset lacks the labels of its objective, or the language model
            does not answer; another run is under way into the folder; or both ``start_from`` and ``update`` are given.
        KeyboardInterrupt: the run was stopped; the best so far is in its folder, or beside a program that is there.
        DatasetError: the dataset is broken, or one of its parts is empty.
        LMNotFoundError: the language model's name does not resolve.
    """  # fmt: skip
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    if lm is not None:
        recipe = recipe.model_copy(update={"lm": lm.model, "lm_settings": {}})
    if teacher is not None:
        named = recipe.teacher.model_copy(update={"lm": teacher.model, "lm_settings": {}})
        recipe = recipe.model_copy(update={"teacher": named})
    if update is not None:
        recipe = for_update(recipe, start_from, update)
    folder = Path(out) if out is not None else Path("optimize/programs") / recipe.name
    artifacts.check_target(folder)
    progress = progress or NullProgress()

    def run() -> RunResult:
        return _run(recipe, folder, progress, start_from, lm, optimizer, teacher, update, fresh=fresh)

    try:
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
    update: str | Path | None,
    *,
    fresh: bool,
) -> RunResult:
    started = dt.datetime.now(dt.UTC)
    _WORK.mkdir(exist_ok=True)
    progress.phase("read the dataset", None)
    dataset = load_dataset(recipe.dataset)
    named(recipe.optimizer)
    check_added(recipe)
    check_labels(recipe, dataset)
    earlier = None if update is None else read_earlier(update, dataset)
    for line in earlier.in_words() if earlier is not None else ():
        progress.note(line)
    base, started_from = start_program(recipe, dataset, start_from or update)
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
    tracker = None
    if recipe.tracking != "none":
        tracker = Tracker(recipe.tracking, _WORK / "mlflow", recipe.name, progress.note)
        context = replace(context, tracker=tracker)
    try:
        track_start(context)
        outcome = _compile(context, base, optimizer)
        outcome = outcome if earlier is None else settle(context, outcome, earlier)
        return deliver(context, outcome, folder, started)
    except BaseException as error:
        if tracker is not None:
            tracker.close("FAILED")
        context.best.stop(error, folder, stopped_facts(context), run_facts(context, started), progress.note)
        raise


def _compile(context: RunContext, base: TurnProgram, optimizer: Optimizer | None) -> Outcome:
    """A run from the first fit to what ships."""
    dataset, plain = context.dataset, base_of(base)
    train, dev_a, dev_b = (dataset.examples(role) for role in ("train", "dev_a", "dev_b"))
    check_lm(context, base, train)

    # What needs no language model, fitted on rewrites by rule and floor; then the prompts.
    parts = fit_parts(context, base, train, FLOOR["enhance"])
    context.best.stands(parts.program, examples=_documents(parts))
    prompts = compile_prompts(context, parts.program, train, dev_a, optimizer)
    for tried in prompts.tried:
        track_candidate(context, tried, dev_a)

    # The race: prompts first, then stage by stage within the whole program.
    floors = race.start(context, parts.program, dev_b)
    lm = race.race_prompts(context, prompts, dev_b)
    base = race.with_prompts(base, lm)
    first = parts = parts._replace(program=race.with_prompts(parts.program, lm))
    standing = floors

    def allowed(name: str, order: tuple[SourceKind, ...]) -> bool:
        return can_fit_again(context, first, train, name, order)

    if (
        lm is not None
        and parts.program.policy.asks("enhance")
        and allowed("the language model", race.LM_ORDER)
    ):
        standing = race.race_enhance(context, parts.program, standing, lm)
    standing = race.race_added(context, parts.program, standing, "enhance", lm, allowed=allowed)
    if not reads_rewrite(context, parts):
        parts = parts._replace(selection=replace(parts.selection, enhance=standing.orders["enhance"]))
    elif standing.orders["enhance"] != parts.selection.enhance:
        # Others rewrite now than when index, floor, head and gates were fitted: these are fitted again.
        parts = fit_parts(context, base, train, standing.orders["enhance"])
        if cut_short(context, standing.orders["enhance"]):
            parts, standing = first, race.to_floors(standing, floors.evaluation)
        else:
            standing = race.again(context, parts.program, standing, lm)
    context.best.stands(parts.program, standing.policy(parts.program.policy), _documents(parts))
    with_lm = order_with_lm(context, parts.program, parts.selection, lm.tried if lm else None, dev_a)
    standing = race.race_select(context, parts.program, standing, parts.selection, with_lm, lm)
    gates = (with_lm, parts.selection.order)
    standing = race.race_added(context, parts.program, standing, "select", lm, gates)
    acts = fit_acts(context, parts.program, train)
    if acts is not None:
        parts.program.bind(heads={"understand": acts})
    acts_raced = race_acts(context, parts.program, standing, lm) if acts is not None else None
    standing = acts_raced.standing if acts_raced is not None else standing
    standing = race.race_understand(context, parts.program, standing, lm)
    if acts is not None:
        standing = gate_acts(context, standing, acts_raced, acts.gate)
    parts = parts._replace(program=_heads_again(context, parts, standing, train))
    standing = race.race_added(context, parts.program, standing, "understand", lm)
    standing = against_base(context, standing, plain)
    if standing.names["select"] == artifacts.BASE:
        context.best.stands(plain)
        return Outcome(plain, plain, parts.selection, prompts, standing, lm=lm, with_lm=with_lm)
    sure = None
    if acts is not None and "head" in standing.orders["understand"]:
        standing, sure = fit_sureness(context, parts.program, standing, [*dev_a, *dev_b], lm)
    if standing.orders["enhance"] != parts.selection.enhance:
        # The floors ship after all, and so does what was fitted for them.
        parts, with_lm = first, None

    context.best.stands(parts.program, standing.policy(parts.program.policy), _documents(parts))

    # What ships: the orders that stand, questions where they pay, and the last fit.
    policy = standing.policy(parts.program.policy)
    policy = policy.model_copy(update={"trust": race.trust(floors.evaluation, lm), "sure": sure})
    program = parts.program.with_policy(policy)
    asks = fit_questions(context, program, parts.selection, dev_b)
    if asks is not None:
        program = program.with_policy(policy.model_copy(update={"clarify": asks.margins}))
    acts_ship = acts is not None and "head" in policy.orders["understand"]
    if acts is not None and not acts_ship:
        program.bind(heads={"understand": None})
    examples = parts.recall.examples if parts.recall is not None else ()
    every = dataset.examples("train", "dev_a", "dev_b")
    again = refit(context, program, parts.selection, examples)
    if cut_short(context, policy.orders["enhance"]):
        again = None
    if again is not None:
        program = again.program
        others = _train_paid(context, program, parts.selection, every, STAGES[1:])
        program.bind(heads={**again.heads, **others})
        if acts_ship:
            program.bind(heads={"understand": fit_acts(context, program, every)})
    feeling = fit_own_feeling(context, program, train if again is None else every)
    if feeling is not None:
        program.bind(heads={"enhance": feeling})
    return Outcome(
        program,
        plain,
        parts.selection,
        prompts,
        standing,
        recall=parts.recall,
        lm=lm,
        with_lm=with_lm,
        questions=asks,
        refit=again,
    )


def _documents(parts: Parts) -> Sequence[Mapping[str, str]]:
    return documents(parts.recall.examples if parts.recall is not None else ())


def _heads_again(
    context: RunContext, parts: Parts, standing: race.Standing, train: Sequence[Example]
) -> TurnProgram:
    """The program with its head of the commands trained under the sources that choose the flows now."""
    program = parts.program.with_policy(parts.program.policy)
    if standing.orders["select"] == FLOOR["select"]:
        # So it was trained.
        return program
    policy = standing.policy(program.policy)
    orders = {**policy.orders, "understand": FLOOR["understand"]}
    under = program.with_policy(policy.model_copy(update={"orders": orders}))
    program.bind(heads=_train_paid(context, under, parts.selection, train, STAGES[2:]))
    return program


def _train_paid(
    context: RunContext,
    program: TurnProgram,
    selection: SelectionFit,
    examples: Sequence[Example],
    stages: Sequence[Stage],
) -> dict[Stage, HeadPort[Any]]:
    """Train the heads of some stages, where the budget pays for the stages before them; else they stay as they are."""
    named = [stage for stage in stages if stage in context.recipe.heads]
    if not named:
        return {}
    orders = {**program.policy.orders, "understand": FLOOR["understand"]}
    before = program.with_policy(program.policy.model_copy(update={"orders": orders}))
    needed = calls_per_turn(before) * len(examples)
    if not left_for(context, needed):
        context.progress.note(f"heads are not trained again: it would take {needed} calls")
        return {}
    found = train_heads(context, before, examples, [stage for stage in named if stage == "select"])
    if "understand" in named:
        before.bind(heads=found)
        before.bind(heads=unseen_selection(context, before, selection, examples))
        found |= train_heads(context, before, examples, ["understand"])
    return found
