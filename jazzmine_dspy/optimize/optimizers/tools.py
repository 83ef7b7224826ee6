"""Tools for optimizers of prompts: the recipe, a metric, the language models, and the budget."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from jazzmine_dspy.datasets.demos import to_dspy
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.dspy_metric import metric
from jazzmine_dspy.optimize.recipe import Recipe
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
    """

    recipe: Recipe
    dev: Sequence[Example] = ()
    allows: Callable[[int], bool] = lambda _calls: True
    teacher: dspy.LM | None = None
    note: Callable[[str], None] = lambda _text: None

    @property
    def writer(self) -> dspy.LM:
        """The language model that writes prompts: the teacher, else the one of the recipe."""
        return self.teacher or dspy.settings.lm

    @property
    def teacher_settings(self) -> dict[str, Any]:
        """``teacher_settings`` for DSPy's optimizers that bootstrap demonstrations."""
        return {} if self.teacher is None else {"lm": self.teacher}

    @property
    def threads(self) -> int:
        """Turns to decide at once. With a limit in tokens or money one at a time, since order decides which call is the
        last that fits."""
        limits = self.recipe.budget
        return 1 if limits.tokens is not None or limits.money is not None else self.recipe.hands

    def score(
        self,
        gold: Any,
        pred: Any,
        trace: Any = None,  # noqa: ARG002 - GEPA passes one to some of its calls
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Any:
        """The recipe's objective as a metric of DSPy's: a number, or with ``pred_name`` a prediction with feedback.

        It is the same number with a trace and without, since GEPA compares the two.
        """
        return metric(gold, pred, None, pred_name, pred_trace, objective=self.recipe.objective)

    def metric(self, gold: Any, pred: Any, trace: Any = None) -> float | bool:
        """The same score; with a trace, whether the whole answer is good enough for a demonstration."""
        value = float(self.score(gold, pred))
        if trace is None:
            return value
        return value >= self.recipe.demos.threshold and not pred.get("refused")

    def sample(self, examples: Sequence[Example]) -> list[Example]:
        """A seeded sample of ``search.turns`` turns, in their order."""
        size = self.recipe.search.turns
        if size >= len(examples):
            return list(examples)
        chosen = random.Random(self.recipe.seed * 104729).sample(range(len(examples)), size)
        return [examples[index] for index in sorted(chosen)]

    def trainset(self, train: Sequence[Example], program: TurnProgram) -> list[dspy.Example]:
        """A sample of the training turns as examples of DSPy."""
        return [to_dspy(example, program) for example in self.sample(train)]

    def valset(self, train: Sequence[Example], program: TurnProgram) -> list[dspy.Example]:
        """A sample of the dev turns as examples of DSPy; of the training turns if there are none."""
        return self.trainset(self.dev or train, program)
