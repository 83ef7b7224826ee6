"""DSPy's optimizers that write prompts, on the program as a plain module: MIPROv2, COPRO, SIMBA, BetterTogether."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dspy
from dspy.teleprompt.teleprompt import Teleprompter

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.lm.errors import BudgetExhausted
from jazzmine_dspy.models.errors import LMUnansweredError, RecipeError, format_error
from jazzmine_dspy.optimize.optimizers.awaited import awaited_together, trainable
from jazzmine_dspy.optimize.optimizers.candidates import Attempt, Candidate, calls_per_turn
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.optimize.optimizers.reflective import MINIBATCH, PromptGEPA
from jazzmine_dspy.optimize.optimizers.search import quiet
from jazzmine_dspy.optimize.optimizers.trajectories import tried
from jazzmine_dspy.optimize.optimizers.writing import Writer
from jazzmine_dspy.optimize.registered import optimizer
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram

_EVERY_ERROR = 1_000_000
"""DSPy ends a compile after ten answers that cannot be read; small models make more."""

Compile = Callable[[TrainableProgram, list[dspy.Example], list[dspy.Example]], TrainableProgram]


@optimizer("miprov2")
def miprov2(base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """Instructions and sets of right answers, searched together."""
    if importlib.util.find_spec("optuna") is None:
        raise RecipeError(
            "MIPROv2 needs optuna, which is not installed",
            where="optimizer = 'miprov2'",
            remedy="Install the extra 'optimize', or name another optimizer.",
        )
    yield from _attempt("miprov2", _miprov2, _miprov2_calls, base, train, means)


@optimizer("copro")
def copro(base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """Instructions, written anew in rounds."""
    yield from _attempt("copro", _copro, _copro_calls, base, train, means)


@optimizer("simba")
def simba(base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """Rules and right answers of turns whose answers vary."""
    yield from _attempt("simba", _simba, _simba_calls, base, train, means)


@optimizer("better_together")
def better_together(base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """The optimizers of ``search.then``, each on what the one before has made."""
    unknown = [name for name in means.recipe.search.then if name not in _STEPS]
    if unknown:
        raise RecipeError(
            f"BetterTogether cannot take the optimizer {unknown[0]!r}",
            where="search.then",
            remedy=f"Name some of {', '.join(_STEPS)}.",
        )
    yield from _attempt("better_together", _together, _together_calls, base, train, means)


def _attempt(
    name: str,
    make: Callable[[Means], Compile],
    cost: Callable[[Means, int, int, int, int], int],
    base: TurnProgram,
    train: Sequence[Example],
    means: Means,
) -> Iterator[Attempt]:
    turns = means.turns(train, means.recipe.search.turns)
    dev = means.turns(means.dev, means.recipe.search.turns)
    if not turns:
        return
    calls = cost(means, len(turns), len(dev or turns), calls_per_turn(base), len(base.active_predictors()))
    # Templates take the place of a model that cannot write; they look at what is wrong first.
    calls += len(turns) * calls_per_turn(base)
    yield Attempt(name, calls, functools.partial(_made, name, make, base, turns, dev, means))


def _made(
    name: str,
    make: Callable[[Means], Compile],
    base: TurnProgram,
    turns: Sequence[Example],
    dev: Sequence[Example],
    means: Means,
) -> Candidate:
    trainset, valset = means.plain(turns, base), means.plain(dev or turns, base)
    student = trainable(base)
    try:
        with quiet(), awaited_together(), dspy.context(max_errors=_EVERY_ERROR):
            compiled = make(means)(student, trainset, valset)
    except (BudgetExhausted, LMUnansweredError):
        raise
    except Exception as error:
        # It is what the model wrote that breaks a compile: instructions in another form than they were asked for.
        writer = means.writer.model
        means.note(
            f"{writer} is too small to write instructions for {name}: {format_error(error)[:300]}; "
            "templates of the commonest errors take its place"
        )
        return _by_templates(name, student, trainset, base, means)
    for predictor in compiled.predictors():
        # A state names the model it was made with, and the run's own cannot be saved.
        predictor.lm = None
    return Candidate(name, base.with_compiled(compiled))


def _by_templates(
    name: str, student: TrainableProgram, trainset: list[dspy.Example], base: TurnProgram, means: Means
) -> Candidate:
    """Instructions that say what is wrong most often, by templates."""
    writer = Writer(None, means.note)
    writer.learn(each for one in tried(student, trainset, means) for each in one.findings)
    for predictor in (student.predictor(each) for each in student.active_predictors()):
        words = writer.by_template(predictor.signature.instructions)
        predictor.signature = predictor.signature.with_instructions(words)
    return Candidate(name, base.with_compiled(student), ("written by templates",))


def _taught(means: Means) -> dict[str, Any]:
    return {"lm": means.teacher} if means.teacher is not None else {}


def _miprov2(means: Means) -> Compile:
    recipe = means.recipe

    def run(student: TrainableProgram, trainset: Any, valset: Any) -> TrainableProgram:
        made: TrainableProgram = dspy.MIPROv2(
            metric=means.metric,
            prompt_model=means.writer,
            task_model=dspy.settings.lm,
            teacher_settings=_taught(means),
            auto=None,
            num_candidates=recipe.search.candidates,
            num_threads=means.threads,
            max_errors=_EVERY_ERROR,
            max_bootstrapped_demos=recipe.demos.bootstrapped,
            max_labeled_demos=0,
            metric_threshold=recipe.demos.threshold,
            seed=recipe.seed,
            track_stats=False,
        ).compile(
            student,
            trainset=trainset,
            valset=valset,
            num_trials=recipe.search.trials,
            minibatch=False,
        )
        return made

    return run


def _miprov2_calls(means: Means, turns: int, dev: int, per_turn: int, predictors: int) -> int:
    search = means.recipe.search
    shown = means.own_calls(search.candidates * turns * per_turn)
    # A summary of the turns, and of each text the program, the predictor and the text itself.
    written = means.own_calls(12 + 3 * search.candidates * predictors)
    return shown + written + (search.trials + 1) * dev * per_turn


def _copro(means: Means) -> Compile:
    search = means.recipe.search

    def run(student: TrainableProgram, trainset: Any, _valset: Any) -> TrainableProgram:
        made: TrainableProgram = dspy.COPRO(
            prompt_model=means.writer,
            metric=means.metric,
            breadth=max(2, search.candidates),
            depth=search.rounds,
            init_temperature=1.0,
        ).compile(student, trainset=trainset, eval_kwargs={"num_threads": means.threads})
        return made

    return run


def _copro_calls(means: Means, turns: int, _dev: int, per_turn: int, predictors: int) -> int:
    search = means.recipe.search
    breadth, rounds = max(2, search.candidates), search.rounds
    # Of several predictors all texts so far are tried again in each round.
    tries = sum(breadth * (number if predictors > 1 else 1) for number in range(1, rounds + 1))
    return tries * predictors * turns * per_turn + means.own_calls(breadth * rounds * predictors)


def _simba(means: Means) -> Compile:
    recipe = means.recipe

    def run(student: TrainableProgram, trainset: Any, _valset: Any) -> TrainableProgram:
        made: TrainableProgram = dspy.SIMBA(
            metric=means.metric,
            bsize=_batch(len(trainset)),
            num_candidates=max(2, recipe.search.candidates),
            max_steps=recipe.search.rounds,
            max_demos=recipe.demos.bootstrapped,
            prompt_model=means.writer,
            # Its samples are told apart by their order.
            num_threads=1,
        ).compile(student, trainset=trainset, seed=recipe.seed)
        return made

    return run


def _batch(turns: int) -> int:
    return max(1, min(8, turns))


def _simba_calls(means: Means, turns: int, _dev: int, per_turn: int, _predictors: int) -> int:
    search = means.recipe.search
    many, batch = max(2, search.candidates), _batch(turns)
    step = (2 * many + 1) * batch * per_turn + means.own_calls(many + 1)
    return search.rounds * step + (many + 1) * turns * per_turn


class _Step(Teleprompter):
    """One of ours as DSPy's own want them."""

    def __init__(self, run: Compile) -> None:
        super().__init__()
        self.run = run

    def compile(self, student: Any, *, trainset: Any, teacher: Any = None, valset: Any = None) -> Any:  # noqa: ARG002
        """The student, compiled."""
        made = self.run(student, trainset, valset or trainset)
        made._compiled = False
        return made


def _bootstrap(means: Means) -> Compile:
    demos = means.recipe.demos

    def run(student: TrainableProgram, trainset: Any, _valset: Any) -> TrainableProgram:
        made: TrainableProgram = dspy.BootstrapFewShot(
            metric=means.metric,
            metric_threshold=demos.threshold,
            teacher_settings=_taught(means),
            max_bootstrapped_demos=demos.bootstrapped,
            max_labeled_demos=0,
            max_errors=_EVERY_ERROR,
        ).compile(student, trainset=trainset)
        return made

    return run


def _gepa(means: Means) -> Compile:
    compiler = PromptGEPA(means, means.recipe.search.rollouts)
    return lambda student, trainset, valset: compiler.compile(student, trainset=trainset, valset=valset)


_STEPS: dict[str, Callable[[Means], Compile]] = {
    "bootstrap": _bootstrap, "miprov2": _miprov2, "copro": _copro, "simba": _simba, "gepa": _gepa,
}  # fmt: skip


def _together(means: Means) -> Compile:
    search = means.recipe.search

    def run(student: TrainableProgram, trainset: Any, valset: Any) -> TrainableProgram:
        steps = {name: _Step(_STEPS[name](means)) for name in search.then}
        student.set_lm(dspy.settings.lm)
        made: TrainableProgram = dspy.BetterTogether(metric=means.metric, **steps).compile(
            student,
            trainset=trainset,
            valset=valset,
            num_threads=means.threads,
            max_errors=_EVERY_ERROR,
            seed=means.recipe.seed,
            strategy=" -> ".join(search.then),
        )
        if made.flag_compilation_error_occurred:
            means.note("better_together: one of its optimizers broke off; what came before it is kept")
        return made

    return run


def _together_calls(means: Means, turns: int, dev: int, per_turn: int, predictors: int) -> int:
    costs = {
        "bootstrap": means.own_calls(turns * per_turn),
        "miprov2": _miprov2_calls(means, turns, dev, per_turn, predictors),
        "copro": _copro_calls(means, turns, dev, per_turn, predictors),
        "simba": _simba_calls(means, turns, dev, per_turn, predictors),
        "gepa": (means.recipe.search.rollouts + 2 * MINIBATCH + dev) * per_turn
        + means.own_calls(means.recipe.search.rollouts // MINIBATCH + 1),
    }
    return sum(costs[name] + dev * per_turn for name in means.recipe.search.then) + dev * per_turn
