"""Optimizers of prompts by name, what a run gives them, and the candidates that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import dspy

from jazzmine_dspy.datasets.load import draw, to_dspy
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.dspy_metric import metric
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.optimize.optimizers.instructions import InstructionRules
from jazzmine_dspy.optimize.recipe import Recipe, suggestion
from jazzmine_dspy.program.prompts import States, put, states_of
from jazzmine_dspy.program.turn import TurnProgram


@dataclass(frozen=True)
class OptimizerTools:
    """Tools that a run passes to an optimizer, with the program and the training turns.

    The language model that answers is ``dspy.settings.lm``, with the run's budget around it.

    Args:
        recipe: Its seed, its demonstrations, and how far to search.
        dev: Turns on which the candidates will be compared: an optimizer's validation set.
        allows: Whether the budget for compiling allows so many more calls.
        teacher: Shows right answers and writes prompts, where it is another model than the one that is compiled for.
            Its calls are counted apart.
        note: Receives remarks for the user.
        rules: Which instructions may be written; None for those of the recipe, without a look at the test part.
    """

    recipe: Recipe
    dev: Sequence[Example] = ()
    allows: Callable[[int], bool] = lambda _calls: True
    teacher: dspy.LM | None = None
    note: Callable[[str], None] = lambda _text: None
    rules: InstructionRules | None = None

    @property
    def writer(self) -> dspy.LM:
        """The language model that writes prompts: the teacher, else the one of the recipe."""
        return self.teacher or dspy.settings.lm

    @property
    def threads(self) -> int:
        """Turns to decide at once. With a limit in tokens or money one at a time, since order decides which call is the
        last that fits."""
        limits = self.recipe.budget
        return 1 if limits.tokens is not None or limits.money is not None else self.recipe.concurrency

    def score(
        self,
        gold: Any,
        pred: Any,
        trace: Any = None,  # noqa: ARG002 - GEPA passes one to some of its calls
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Any:
        """The recipe's objective minus the price of the tokens, as a metric of DSPy's: a number, or with ``pred_name``
        a prediction with feedback, which ends with the rules for instructions.

        It is the same number with a trace and without, since GEPA compares the two.
        """
        result: Any = metric(gold, pred, None, pred_name, pred_trace, objective=self.recipe.objective)
        usage = pred["decision"].usage
        price = self.recipe.target.price(usage.prompt_tokens + usage.completion_tokens)
        if pred_name is None:
            return max(0.0, float(result) - price)
        rules = "" if self.rules is None else f"\nRules for the instruction: {self.rules.in_words()}"
        return dspy.Prediction(score=max(0.0, result.score - price), feedback=result.feedback + rules)

    def metric(self, gold: Any, pred: Any, trace: Any = None) -> float | bool:
        """The same score; with a trace, whether the whole answer is good enough for a demonstration."""
        if trace is None:
            return float(self.score(gold, pred))
        refused = any(each.source == "lm" and each.cause for each in pred["decision"].stages.values())
        value = float(metric(gold, pred, objective=self.recipe.objective))
        return value >= self.recipe.demos.threshold and not refused

    def trainset(self, train: Sequence[Example]) -> list[dspy.Example]:
        """A sample of ``search.turns`` training turns as examples of DSPy."""
        sample = draw(train, self.recipe.search.turns, self.recipe.seed * 104729)
        return [to_dspy(example) for example in sample]


AS_WRITTEN = "as_written"
"""Name of the optimizer whose candidate has the prompts as written."""


@dataclass(frozen=True)
class Candidate:
    """A program with its predictors in one state: demonstrations, instructions, descriptions of fields.

    Args:
        name: Such as "labeled 1".
        program: Its policy lets the language model answer every stage.
        notes: Remarks for the report.
        compiled: Whether it differs from the prompts as written.
    """

    name: str
    program: TurnProgram
    notes: tuple[str, ...] = ()
    compiled: bool = True

    def demonstrations(self) -> dict[str, int]:
        """Number of demonstrations by predictor of the shape."""
        return {name: len(self.program.predictor(name).demos) for name in self.program.active_predictors()}

    def reworded(self, base: TurnProgram) -> list[str]:
        """The predictors whose instructions or descriptions of fields differ from those of a program."""
        mine, theirs = states_of(self.program), states_of(base)
        return [name for name in mine if mine[name]["signature"] != theirs[name]["signature"]]


class Optimizer(Protocol):
    """Makes candidates of a program: the interface between a run and any optimizer of prompts.

    Candidates come one by one, the cheapest first; the run scores each, and stops when its budget for compiling ends.
    The program and the turns stay as they are. The same program, turns, tools and answers give the same candidates. No
    prompt shows a turn its own conversation.
    """

    def __call__(
        self, program: TurnProgram, train: Sequence[Example], tools: OptimizerTools, /
    ) -> Iterator[Candidate]:
        """The candidates.

        Args:
            program: With the prompts as they are before; its policy lets the language model answer every stage.
            train: Labelled turns to learn from.
            tools: The recipe, the metric, the language models and the budget.
        """


O = TypeVar("O", bound=Callable[..., Iterator[Candidate]])  # noqa: E741


def _checked(_name: str, thing: Any) -> Optimizer:
    if not callable(thing):
        raise ValueError("it cannot be called with a program, turns and the run's tools")
    return cast("Optimizer", thing)


OPTIMIZERS: Extensions[Optimizer] = Extensions("optimizer", "jazzmine_dspy.optimizers", _checked)
"""Optimizers by their name in recipes. Other packages add theirs as entry points of these names."""


def optimizer(name: str) -> Callable[[O], O]:
    """Register an optimizer, so that recipes can use it: ``optimizer = "NAME"``.

    Args:
        name: Lower-case letters, digits, ``_``, ``.`` and ``-``. No other optimizer may have it.

    Raises:
        ExtensionError: the name is taken or cannot be one, or the thing cannot be called.

    Example:
        >>> @optimizer("courteous")
        ... def courteous(program, train, tools):
        ...     yield from ()
        >>> "courteous" in OPTIMIZERS
        True
    """

    def register(factory: O) -> O:
        OPTIMIZERS.add(name, factory, origin=f"{factory.__module__}.{factory.__qualname__}")
        return factory

    return register


def named(name: str) -> Optimizer:
    """The optimizer of that name.

    Raises:
        RecipeError: no optimizer has the name.
        ExtensionError: the package that offers it cannot be loaded.
    """
    if name not in OPTIMIZERS:
        raise RecipeError(
            f"No optimizer is registered as {name!r}",
            where="optimizer",
            remedy=f"{suggestion(name, OPTIMIZERS)}.",
        )
    return OPTIMIZERS[name]


@optimizer("none")
def none(_program: TurnProgram, _train: Sequence[Example], _tools: OptimizerTools) -> Iterator[Candidate]:
    """No candidate: the prompts stay as written."""
    yield from ()


@optimizer(AS_WRITTEN)
def as_written(program: TurnProgram, _train: Sequence[Example], tools: OptimizerTools) -> Iterator[Candidate]:
    """The prompts as written, as an alternative for a run that starts from compiled ones."""
    plain = TurnProgram(
        program.registry,
        policy=program.policy,
        signatures=Path(tools.recipe.signatures) if tools.recipe.signatures else None,
    )
    yield Candidate("as written", with_states(program, states_of(plain)))


def with_states(program: TurnProgram, states: States) -> TurnProgram:
    """A copy of a program with other states of the predictors and the same policy and bindings."""
    copy = program.with_policy(program.policy)
    put(states, copy)
    return copy


def calls_per_turn(program: TurnProgram) -> int:
    """Maximum of LM calls for a turn."""
    predictors = program.active_predictors()
    return 0 if not predictors else 1 if program.shape == "fused" else len(predictors) + 1
