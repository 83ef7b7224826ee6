"""An optimization run: fit, compile, race, and report once on turns that nothing has seen."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import dspy

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets import Dataset, load_dataset
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluate import evaluate
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.report import Report, write_report
from jazzmine_dspy.models.decision import STAGES, Stage
from jazzmine_dspy.models.errors import DatasetError, RecipeError
from jazzmine_dspy.optimize.budget import Budget
from jazzmine_dspy.optimize.deciding import COMPILE_TIME, decide, shipped_program
from jazzmine_dspy.optimize.final import final_rows, manifest_facts, track
from jazzmine_dspy.optimize.optimizers.search import Candidate, calls_per_turn, candidates, score
from jazzmine_dspy.optimize.progress import NullProgress, Progress
from jazzmine_dspy.optimize.race import (
    Heat,
    failures_as_wrong,
)
from jazzmine_dspy.optimize.recipe import Recipe, read_recipe
from jazzmine_dspy.optimize.selection import (
    Selection,
    as_documents,
    fit_questions,
    fit_selection,
    order_with_lm,
    refit,
)
from jazzmine_dspy.optimize.summary import build_report
from jazzmine_dspy.optimize.tracking import Tracker
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

_WORK = Path(".jazzmine")
_RACE_AND_END_CALLS = 0.6
_END_CALLS = 0.4


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


@dataclass
class Run:
    """A run in progress: what its phases hand on."""

    recipe: Recipe
    dataset: Dataset
    progress: Progress
    budget: Budget
    program: TurnProgram
    started_from: str | None = None
    lm: dspy.LM | None = None
    lm_facts: dict[str, Any] = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)
    tried: list[Candidate] = field(default_factory=list)
    heats: list[Heat] = field(default_factory=list)
    shipped: dict[Stage, str] = field(default_factory=dict)
    best: Candidate | None = None

    def told(self, done: int, total: int) -> None:
        """Tell the progress of a phase that spends nothing."""
        self.progress.step(done, total, best=None, spent=self.budget.spent())

    def sample(self, examples: Sequence[Example], size: int, salt: int) -> list[Example]:
        """A seeded sample in the order of the file; all of them where ``size`` is 0."""
        if not size or size >= len(examples):
            return list(examples)
        chosen = random.Random(self.recipe.seed * 7919 + salt).sample(range(len(examples)), size)
        return [examples[index] for index in sorted(chosen)]

    @property
    def per_turn(self) -> int:
        """Calls that one turn needs at most where every stage asks the language model."""
        return 1 if self.recipe.shape == "fused" else len(STAGES) + 1

    @property
    def test_turns(self) -> int:
        """How many turns the test part has, without opening it."""
        held = [c for c in self.dataset.conversations if self.dataset.roles[c.id] == "test"]
        return sum(turn.labels is not None for conversation in held for turn in conversation.turns)

    def calls_for_end(self, *, race: bool = True) -> int:
        """Calls kept for the race (two programs on dev-B) and the report (three on test)."""
        part = self.recipe.sample
        test = min(part.test or self.test_turns, self.test_turns)
        all_b = len(self.dataset.examples("dev_b"))
        dev_b = min(part.dev_b or all_b, all_b) if race else 0
        needed = self.per_turn * (2 * dev_b + 3 * test)
        limit = self.recipe.budget.lm_calls
        share = _RACE_AND_END_CALLS if race else _END_CALLS
        return needed if limit is None else min(needed, int(limit * share))

    def asked(self) -> Any:
        """Under which programs ask the run's language model."""
        return dspy.context(lm=self.lm)

    def fitting(self, size: int, per_turn: int, programs: int, *, keep_calls: int = 0) -> int:
        """Of so many turns, those on which each of some programs can be asked within the budget."""
        left = self.budget.meter.calls_left
        if left is None or not per_turn * programs:
            return size
        return max(0, min(size, (left - keep_calls) // (per_turn * programs)))

    def within(
        self,
        name: str,
        program: TurnProgram,
        examples: Sequence[Example],
        *,
        keep_calls: int = 0,
        time: float = 1.0,
        timed: bool = False,
    ) -> Evaluation | None:
        """Evaluate turn by turn until the budget is at its end; None where not one turn fitted.

        ``timed`` makes it take its real time: what another program asked before must not make this one look faster.
        """
        calls = calls_per_turn(program)
        forget = getattr(program.bindings.recall, "forget", None)
        if forget is not None and timed:
            forget()
        forced = program.policy.orders == program.policy.named("lm").orders
        self.progress.phase(name, len(examples))
        turns: list[TurnResult] = []
        best = self.best.score if self.best is not None else None
        with self.asked():
            for example in examples:
                if calls and not self.budget.allows(calls, keep_calls=keep_calls, share_of_time=time):
                    self.progress.note(f"{name}: the budget ends after {len(turns)} of {len(examples)} turns")
                    break
                result = evaluate(program, [example])
                if self.budget.meter.exhausted and result.degraded:
                    # A retry met the end of the budget in mid-turn: what the floor then said is nobody's answer.
                    self.progress.note(f"{name}: the budget ends after {len(turns)} of {len(examples)} turns")
                    break
                turns += (failures_as_wrong(result) if forced else result).turns
                self.progress.step(len(turns), len(examples), best=best, spent=self.budget.spent())
        return Evaluation(tuple(turns), seed=self.recipe.seed, price=self.recipe.price) if turns else None


def optimize(
    recipe: Recipe | str | Path,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    start_from: str | Path | None = None,
    lm: dspy.LM | None = None,
) -> RunResult:
    """Run a recipe: what ``jazzmine-dspy optimize`` does.

    Args:
        recipe: A recipe, or its file.
        out: Folder of the program, ``optimize/programs/NAME`` by default; its report is in ``report/``.
        progress: Watches the run.
        start_from: A compiled program whose prompts are the starting point; the report calls it uncompiled.
        lm: A language model to ask instead of the one that the recipe names.

    Raises:
        RecipeError: the recipe cannot be run.
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
    run = _prepare(recipe, progress or NullProgress(), start_from, lm)
    tracker = None if recipe.tracking == "none" else Tracker(recipe.tracking, _WORK / "mlflow", recipe.name)
    try:
        train = run.dataset.examples("train")
        dev_a, dev_b = run.dataset.examples("dev_a"), run.dataset.examples("dev_b")
        fit_selection(run, train)
        _compile(run, train, dev_a)
        order_with_lm(run, dev_a)
        floor_b = decide(run, dev_b)
        fit_questions(run, dev_b)
        program = shipped_program(run, floor_b)
        refit(run, program)
        run.dataset.open_test(f"final report of {recipe.name}", _WORK)
        # The baseline learns from what the shipped program has learnt from.
        learnt = run.dataset.examples("train", "dev_a", "dev_b") if recipe.refit else train
        systems = final_rows(run, program, run.dataset.examples("test"), learnt)
        report = build_report(run, systems)
        facts = manifest_facts(run, systems)
        spent = run.budget.spent()
        dates = {"started": started.isoformat(), "ended": dt.datetime.now(dt.UTC).isoformat()}
        artifacts.save(
            program,
            folder,
            name=recipe.name,
            facts=facts,
            run={**dates, "spent": spent},
            examples=as_documents(run.selection.examples),
        )
        paths = write_report(report, folder / "report")
        if tracker is not None:
            track(tracker, run, systems, folder)
        return RunResult(
            program,
            folder,
            report,
            paths,
            artifacts.read_manifest(folder),
            spent,
            run.shipped,
            report.first_line,
        )
    except BaseException:
        if tracker is not None:
            tracker.close("FAILED")
        raise
    finally:
        run.progress.close()


def _prepare(recipe: Recipe, progress: Progress, start_from: str | Path | None, lm: dspy.LM | None) -> Run:
    progress.phase("read the dataset", None)
    dataset = load_dataset(recipe.dataset)
    for role in ("train", "dev_a", "dev_b"):
        dataset.examples(role)
    held = [c for c in dataset.conversations if dataset.roles[c.id] == "test"]
    if not any(turn.labels is not None for conversation in held for turn in conversation.turns):
        raise DatasetError(
            "The split 'test' has no labelled turn",
            where=str(dataset.path),
            remedy="The report needs one: give it conversations with `datasets split`.",
        )
    started_from = None
    folder = Path(recipe.signatures) if recipe.signatures else None
    shown = {
        "shape": recipe.shape,
        "top_k": recipe.top_k,
        "history_shown": recipe.history_shown,
        "max_commands": recipe.max_commands,
    }
    if start_from is not None:
        loaded = artifacts.load_with_manifest(start_from, flows=dataset.flows, bind=False)
        # The prompts are the start; heads, gates and orders are this run's own.
        program, started_from = (
            loaded.program.bind(heads=dict.fromkeys(loaded.program.bindings.heads)),
            str(loaded.manifest["sha256"]),
        )
        program.policy = Policy.model_validate(shown)
    else:
        program = TurnProgram(dataset.flows, policy=Policy.model_validate(shown), signatures=folder)
    artifacts.bind_recall(program, recipe.embedder)
    run = Run(recipe, dataset, progress, Budget(recipe.budget), program, started_from=started_from)
    if recipe.lm != "none":
        from jazzmine_dspy.lm import ReplayStore, lm_identity, metered, replayed, resolve_lm

        lm = lm or resolve_lm(recipe.lm, **recipe.lm_settings)
        run.lm_facts = {"model": lm.model, "identity": lm_identity(lm)}
        run.lm = metered(replayed(lm, ReplayStore(_WORK / "replay.db")), run.budget.meter)
    elif recipe.optimizer != "none":
        progress.note("no language model is asked, so no prompt is compiled")
    return run


def _compile(run: Run, train: Sequence[Example], dev_a: Sequence[Example]) -> None:
    """Try the recipe's candidates on turns of dev-A that the rules pass on, and keep the best."""
    if run.lm is None:
        return
    base = run.program.with_policy("lm")
    floor = run.program.with_policy("floor")
    passed_on = [e for e in dev_a if any(r.source != "rule" for r in floor.decide(e.turn).stages.values())]
    sample = run.sample(passed_on, run.recipe.sample.dev_a, salt=1)
    keep = run.calls_for_end()

    def allowed(calls: int = 1) -> bool:
        return run.budget.allows(calls, keep_calls=keep, share_of_time=COMPILE_TIME)

    with run.asked():
        for attempt in candidates(run.recipe, base, train, allowed):
            # A candidate that the budget cuts short is not asked the same questions as the others.
            if run.tried and not allowed(attempt.calls + len(sample) * calls_per_turn(base)):
                run.progress.note(f"the budget for compiling is spent before candidate {attempt.name!r}")
                continue
            run.progress.phase(f"try {attempt.name}", len(sample))
            candidate = attempt.make()
            if candidate.notes and not any(candidate.demonstrations().values()):
                run.progress.note(f"{attempt.name}: {'; '.join(candidate.notes)}")
                continue
            _score(run, candidate, sample, keep)
            _assert_reachable(run)
            run.tried.append(candidate)
            whole = candidate.score is not None and candidate.scored == len(sample)
            better = run.best is None or run.best.score is None or (candidate.score or 0.0) > run.best.score
            if run.best is None or (whole and better):
                run.best = candidate


def _assert_reachable(run: Run) -> None:
    counts = run.budget.meter.counts
    if counts.calls and counts.failed == counts.calls:
        raise RecipeError(
            f"The language model failed on each of {counts.calls} calls",
            where=f"lm = {run.recipe.lm!r}",
            remedy="See the warnings above; check its name, its address and its key.",
        )


def _score(run: Run, candidate: Candidate, sample: Sequence[Example], keep: int) -> None:
    best = run.best.score if run.best is not None else None

    def told(done: int, total: int) -> None:
        run.progress.step(done, total, best=best, spent=run.budget.spent())

    scores, degraded = score(
        candidate.program,
        sample,
        run.budget,
        keep_calls=keep,
        share_of_time=COMPILE_TIME,
        progress=told,
        answers=candidate.answers,
    )
    candidate.scored = len(scores)
    candidate.score = sum(scores) / len(scores) if scores else None
    if degraded:
        candidate.notes.append(f"{degraded} of {len(scores)} turns degraded")
