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
from jazzmine_dspy.eval.learning import worth
from jazzmine_dspy.eval.objective import Objective
from jazzmine_dspy.models.errors import LMUnansweredError, format_error
from jazzmine_dspy.optimize.optimizers.candidates import (
    Attempt,
    Candidate,
    DeadCompileError,
    assert_alive,
    calls_per_turn,
)
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.batch import at_once
from jazzmine_dspy.program.turn import TurnProgram

log = logging.getLogger("jazzmine_dspy")

_POOL = 48

Allowed = Callable[[], bool]


def candidates(
    recipe: Recipe,
    base: TurnProgram,
    train: Sequence[Example],
    allowed: Allowed = lambda: True,
) -> Iterator[Attempt]:
    """The candidates of a recipe, each made when it is asked for.

    Args:
        recipe: Which optimizer, how many candidates and demonstrations, the seed.
        base: The uncompiled program with the policy ``lm``, unbound from any language model: a compile runs
            under ``dspy.context(lm=…)``.
        train: Labelled turns to learn from.
        allowed: Whether the budget allows another turn.
    """
    search = recipe.optimizer == "bootstrap_random_search"
    attempts = min(recipe.demos.attempts, len(train)) * calls_per_turn(base)
    for number in range(recipe.demos.candidates if search else 1):
        seed = recipe.seed * 1000 + number
        if recipe.optimizer in ("labeled_few_shot", "bootstrap_random_search") and recipe.demos.labeled:
            name = f"labeled {number + 1}"
            yield Attempt(name, 0, functools.partial(labeled, name, recipe, base, train, seed))
        if recipe.optimizer in ("bootstrap", "bootstrap_random_search") and recipe.demos.bootstrapped:
            name = f"bootstrap {number + 1}"
            make = functools.partial(bootstrap, name, recipe, base, train, seed, allowed)
            yield Attempt(name, attempts, make)


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
) -> Candidate:
    """Demonstrations from the program's own right answers, taught by labelled ones.

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

    optimizer = dspy.BootstrapFewShot(
        metric=metric,
        metric_threshold=recipe.demos.threshold,
        max_bootstrapped_demos=recipe.demos.bootstrapped,
        max_labeled_demos=0,
        max_rounds=1,
        max_errors=len(trainset) + 1,
    )
    # DSPy tries one after another until it has enough; all were paid for when the candidate was admitted.
    lost = _ask_ahead(teacher, list(trainset.all), recipe) if recipe.hosted else 0
    with quiet():
        program = optimizer.compile(base.deepcopy(), teacher=teacher, trainset=trainset)
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


def _ask_ahead(teacher: TurnProgram, examples: Sequence[Any], recipe: Recipe) -> int:
    """Ask about all attempts at once, where the run's store of answers then has what the optimizer asks.

    It does not depend on how much is asked at once: so a run asks the same with any concurrency.

    Returns:
        How many the language model did not answer.
    """
    lm, limits = dspy.settings.lm, recipe.budget.model_dump(exclude_none=True)
    remembers = hasattr(getattr(lm, "engine", None), "will_replay") and lm.kwargs.get("temperature") == 0
    if not remembers or not limits.keys() <= {"minutes", "lm_calls"}:
        return 0

    def ask(example: Any) -> bool:
        try:
            with dspy.context(trace=[]):
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
