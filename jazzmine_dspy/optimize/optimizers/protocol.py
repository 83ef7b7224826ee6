"""What a run asks of an optimizer of prompts, and what it gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.candidates import Attempt
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.program.turn import TurnProgram


class Optimizer(Protocol):
    """Makes candidates of a program: the one seam between a run and whatever compiles prompts.

    Duties: an optimizer yields attempts, the cheapest first. An attempt says beforehand how many calls of the run's
    language model its making may take at most; a run skips the one that does not fit. A candidate is the whole state
    of the program's predictors, which race and artefact carry: demonstrations, instructions, descriptions of fields,
    and how many demonstrations are chosen per call. What it learns of answers it learns as :func:`.trajectories.tried`
    tells it: the score, and the metric's findings in words, of answers that cannot be read too.

    Errors: :class:`DeadCompileError` where a candidate claims a predictor that its making did not reach. What a
    language model that is down raises goes through. Nothing else ends a run.

    Invariants: nothing is asked before an attempt's ``make`` is called; the program and the turns stay as they are; the
    same recipe, program, turns and answers give the same candidates; a turn is never shown its own conversation.
    """

    def __call__(self, base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
        """The attempts.

        Args:
            base: The uncompiled program; its policy asks the language model in every stage.
            train: Labelled turns to learn from.
            means: What it may use. Called with a number, it says whether the budget allows so many more calls.
        """
        ...
