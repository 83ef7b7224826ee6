"""GEPA: instructions, rewritten from textual feedback on wrong answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.compiling import compiled
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, optimizer
from jazzmine_dspy.program.turn import TurnProgram


def reflective(tools: OptimizerTools) -> dspy.GEPA:
    """DSPy's optimizer with the settings of a recipe; it ends with the budget.

    Answers that cannot be read score 0 and are not reflected on: DSPy's words for them show another adapter's format.
    """
    return dspy.GEPA(
        metric=tools.score,
        max_metric_calls=tools.recipe.search.rollouts,
        reflection_lm=tools.writer,
        num_threads=tools.threads,
        seed=tools.recipe.seed,
        gepa_kwargs={"stop_callbacks": lambda _state: not tools.allows(1)},
    )


@optimizer("gepa")
def gepa(program: TurnProgram, train: Sequence[Example], tools: OptimizerTools) -> Iterator[Candidate]:
    """The best instructions on dev-A after ``search.rollouts`` turns."""
    trainset, valset = tools.trainset(train, program), tools.valset(train, program)
    yield from compiled(
        "gepa",
        program,
        tools,
        lambda student: reflective(tools).compile(student, trainset=trainset, valset=valset),
    )
