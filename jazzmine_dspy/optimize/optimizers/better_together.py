"""BetterTogether: bootstrapped demonstrations, then GEPA on the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.bootstrap import few_shot
from jazzmine_dspy.optimize.optimizers.compiling import compiled
from jazzmine_dspy.optimize.optimizers.gepa import reflective
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, optimizer
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram


@optimizer("better_together")
def better_together(
    program: TurnProgram, train: Sequence[Example], tools: OptimizerTools
) -> Iterator[Candidate]:
    """The better of the two compiled programs, or the base program if neither is better."""
    trainset, valset = tools.trainset(train, program), tools.valset(train, program)

    def run(student: TrainableProgram) -> Any:
        student.set_lm(dspy.settings.lm)
        steps = {"bootstrap": few_shot(tools), "gepa": reflective(tools)}
        return dspy.BetterTogether(metric=tools.metric, **steps).compile(
            student,
            trainset=trainset,
            valset=valset,
            num_threads=tools.threads,
            seed=tools.recipe.seed,
            strategy="bootstrap -> gepa",
        )

    yield from compiled("better_together", program, tools, run)
