"""What an optimizer may use: the turns that decide, the language models, and what is left of the budget."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from jazzmine_dspy.datasets.demos import to_dspy
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.dspy_metric import metric
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.turn import TurnProgram


def _always(_calls: int = 1) -> bool:
    return True


def _unlimited() -> int | None:
    return None


def _silent(_text: str) -> None:
    return None


@dataclass(frozen=True)
class Means:
    """What a run hands to an optimizer beside the program and the turns to learn from. Asked as a function, it says
    whether the budget allows so many more calls.

    Args:
        recipe: Its settings, and its seed.
        dev: Turns of dev-A, on which the candidates will be compared: an optimizer's validation set.
        allows: Whether the budget allows so many more calls.
        left: Calls that compiling may still make, after what scoring one candidate takes; None is no limit.
        teacher: Shows right answers and writes prompts, where it is another model than the one that is compiled for;
            what it is asked is counted apart.
        note: Says something worth a line.
    """

    recipe: Recipe
    dev: Sequence[Example] = ()
    allows: Callable[[int], bool] = _always
    left: Callable[[], int | None] = _unlimited
    teacher: dspy.LM | None = None
    note: Callable[[str], None] = field(default=_silent)

    def __call__(self, calls: int = 1) -> bool:
        """Whether the budget allows so many more calls."""
        return self.allows(calls)

    @property
    def writer(self) -> dspy.LM:
        """Who writes prompts: the teacher, else the language model that is compiled for."""
        return self.teacher or dspy.settings.lm

    @property
    def metric(self) -> Any:
        """The recipe's objective as a metric for DSPy's optimizers, with its findings in words."""
        return functools.partial(metric, objective=self.recipe.objective)

    @property
    def threads(self) -> int:
        """Turns that are asked about at once, where that changes no result.

        Where tokens or money are limited, which call is the last that fits hangs on their order.
        """
        limits = self.recipe.budget
        return 1 if limits.tokens is not None or limits.money is not None else self.recipe.hands

    @property
    def own_calls(self) -> Callable[[int], int]:
        """Calls of these that the run's own budget pays for: what a teacher is asked is not among them."""
        return (lambda _calls: 0) if self.teacher is not None else (lambda calls: calls)

    def turns(self, examples: Sequence[Example], size: int, salt: int = 0) -> list[Example]:
        """So many of the turns, chosen by the recipe's seed, in their order."""
        import random

        if size >= len(examples):
            return list(examples)
        chosen = random.Random(self.recipe.seed * 104729 + salt).sample(range(len(examples)), size)
        return [examples[index] for index in sorted(chosen)]

    def plain(self, examples: Sequence[Example], program: TurnProgram) -> list[dspy.Example]:
        """The turns as DSPy's optimizers take them."""
        return [to_dspy(example, program) for example in examples]
