"""Compiling the prompts: labelled demonstrations, bootstrapped ones, and a search over both."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dspy

from jazzmine_dspy.datasets.demos import demo_pool
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.dspy_metric import worth
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.models.errors import LMUnansweredError, format_error
from jazzmine_dspy.optimize.optimizers.candidates import (
    Attempt,
    Candidate,
    DeadCompileError,
    assert_alive,
    calls_per_turn,
)
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.registered import optimizer
from jazzmine_dspy.program.batch import at_once
from jazzmine_dspy.program.turn import TurnProgram

log = logging.getLogger("jazzmine_dspy")

_POOL = 48

Allowed = Callable[[], bool]


@optimizer("labeled_few_shot")
def labeled_few_shot(base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """One set of labelled demonstrations."""
    if means.recipe.demos.labeled:
        yield _labeled(base, train, means, 0)


@optimizer("bootstrap")
def bootstrapped(base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """One set of right answers: the program's own, or a teacher's."""
    if means.recipe.demos.bootstrapped:
        yield _bootstrapped(base, train, means, 0)


@optimizer("bootstrap_random_search")
def random_search(base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """So many sets of each of these two kinds, drawn by seed."""
    for number in range(means.recipe.demos.candidates):
        if means.recipe.demos.labeled:
            yield _labeled(base, train, means, number)
        if means.recipe.demos.bootstrapped:
            yield _bootstrapped(base, train, means, number)


def _labeled(base: TurnProgram, train: Sequence[Example], means: Means, number: int) -> Attempt:
    name, seed = f"labeled {number + 1}", means.recipe.seed * 1000 + number
    return Attempt(name, 0, functools.partial(labeled, name, means.recipe, base, train, seed))


def _bootstrapped(base: TurnProgram, train: Sequence[Example], means: Means, number: int) -> Attempt:
    name, seed = f"bootstrap {number + 1}", means.recipe.seed * 1000 + number
    calls = min(means.recipe.demos.attempts, len(train)) * calls_per_turn(base)
    make = functools.partial(
        bootstrap, name, means.recipe, base, train, seed, means, teacher_lm=means.teacher
    )
    return Attempt(name, means.own_calls(calls), make)


def labeled(name: str, recipe: Recipe, base: TurnProgram, train: Sequence[Example], seed: int) -> Candidate:
    """Labelled demonstrations, chosen by seed; no call is made."""
    program = base.deepcopy()
    for predictor in program.active_predictors():
        pool = demo_pool(predictor, train, program, seed, _POOL)
        # DSPy's sampling has a fixed seed of its own; the pool is shuffled by ours, so the first k are taken.
        few_shot = dspy.LabeledFewShot(k=recipe.demos.labeled)
        compiled = few_shot.compile(program.predictor(predictor), trainset=pool, sample=False)
        program.predictor(predictor).demos = list(compiled.demos)
    candidate = Candidate(name, program)
    assert_alive(candidate, base)
    return candidate


def bootstrap(
    name: str,
    recipe: Recipe,
    base: TurnProgram,
    train: Sequence[Example],
    seed: int,
    allowed: Allowed = lambda: True,
    *,
    teacher_lm: dspy.LM | None = None,
) -> Candidate:
    """Demonstrations from right answers of the program itself or of a teacher's language model, taught by labelled
    ones.

    The conversations that teach and those that are attempted are apart: shown its own label, a turn is
    easily right.
    """
    rng = random.Random(seed)
    names = sorted({example.conversation_id for example in train})
    taught = set(rng.sample(names, len(names) // 2)) if recipe.demos.labeled else set()
    teacher = base.deepcopy()
    with contextlib.suppress(DeadCompileError):
        showing = [example for example in train if example.conversation_id in taught]
        teacher = labeled(f"{name}'s teacher", recipe, base, showing, seed).program if showing else teacher
    free = [example for example in train if example.conversation_id not in taught]
    chosen = rng.sample(free, min(recipe.demos.attempts, len(free)))
    trainset = _WhileAllowed(allowed, [_attempted(example) for example in chosen])
    scores: list[float] = []
    objective = Objective(recipe.objective)

    def metric(example: Any, prediction: Any, _trace: Any = None) -> float:
        scores.append(_metric(objective, example, prediction))
        return scores[-1]

    bootstrapper = dspy.BootstrapFewShot(
        metric=metric,
        metric_threshold=recipe.demos.threshold,
        max_bootstrapped_demos=recipe.demos.bootstrapped,
        max_labeled_demos=0,
        max_rounds=1,
        max_errors=len(trainset) + 1,
        teacher_settings={"lm": teacher_lm} if teacher_lm is not None else None,
    )
    # DSPy tries one after another until it has enough; all were paid for when the candidate was admitted.
    lost = _ask_ahead(teacher, list(trainset.all), recipe, teacher_lm) if recipe.hosted else 0
    with quiet():
        program = bootstrapper.compile(base.deepcopy(), teacher=teacher, trainset=trainset)
    program._compiled = False  # a frozen sub-module would drop out of a saved state (DSPy)
    if not scores and lost:
        raise LMUnansweredError(
            "The language model answered no attempt: the run decides nothing, and nothing new ships",
            where=name,
            remedy="Run it again when the model answers; what it has answered is not asked again.",
        )
    if not scores:
        # The program answers whatever fails, so this is a fault of ours, which DSPy has swallowed.
        raise DeadCompileError("Every attempt broke", where=name, remedy="Report this as a bug.")
    if max(scores) < recipe.demos.threshold:
        return Candidate(name, program, ("no attempt was right enough to be shown",))
    candidate = Candidate(name, program)
    assert_alive(candidate, base)
    return candidate


def _ask_ahead(
    teacher: TurnProgram, examples: Sequence[Any], recipe: Recipe, teacher_lm: dspy.LM | None = None
) -> int:
    """Ask about all attempts at once, where the run's store of answers then has what the optimizer asks.

    It does not depend on how much is asked at once: so a run asks the same with any concurrency.

    Returns:
        How many the language model did not answer.
    """
    lm, limits = teacher_lm or dspy.settings.lm, recipe.budget.model_dump(exclude_none=True)
    remembers = hasattr(getattr(lm, "engine", None), "will_replay") and lm.kwargs.get("temperature") == 0
    if not remembers or not limits.keys() <= {"minutes", "lm_calls"}:
        return 0

    def ask(example: Any) -> bool:
        try:
            with dspy.context(lm=lm, trace=[]):
                teacher(**example.inputs())
        except LMUnansweredError:
            return False
        except Exception as error:
            # The optimizer meets it again, and counts it.
            log.debug("an attempt broke: %s", format_error(error))
        return True

    return sum(not answered for answered in at_once(ask, examples))


class _WhileAllowed(list[Any]):
    """A training set that ends where the budget does; its first example is always given."""

    def __init__(self, allowed: Callable[[], bool], examples: Sequence[Any]) -> None:
        super().__init__(examples)
        self._allowed = allowed
        self.all = tuple(examples)

    def __iter__(self) -> Iterator[Any]:
        for number, example in enumerate(super().__iter__()):
            if number and not self._allowed():
                return
            yield example


def _attempted(example: Example) -> Any:
    # Not under the name 'labels', which is a method of DSPy's examples.
    whole = dspy.Example(turn=example.turn, exclude=(example.conversation_id,), gold=example.labels)
    return whole.with_inputs("turn", "exclude")


def _metric(objective: Objective, example: Any, prediction: Any) -> float:
    # A demonstration shows an answer whole, with the fields that were refused.
    if any(stage.source == "lm" and stage.cause for stage in prediction.decision.stages.values()):
        return 0.0
    return worth(objective, prediction.decision, example.gold, example.turn)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep DSPy's prints and bars off the terminal: stdout may carry one JSON document, stderr our bars."""
    level = logging.getLogger("dspy").level
    logging.getLogger("dspy").setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.getLogger("dspy").setLevel(level)
