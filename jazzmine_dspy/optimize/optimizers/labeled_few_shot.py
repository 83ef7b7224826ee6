"""Labelled demonstrations, drawn by seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dspy

from jazzmine_dspy.datasets.demos import demo_pool
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, assert_alive, optimizer
from jazzmine_dspy.program.turn import TurnProgram

_POOL = 48


@optimizer("labeled_few_shot")
def labeled_few_shot(
    program: TurnProgram, train: Sequence[Example], tools: OptimizerTools, *, number: int = 0
) -> Iterator[Candidate]:
    """One set of labelled demonstrations, by number."""
    if not tools.recipe.demos.labeled:
        return
    candidate = Candidate(f"labeled {number + 1}", labeled(program, train, tools, number))
    assert_alive(candidate, program)
    yield candidate


def labeled(
    program: TurnProgram, train: Sequence[Example], tools: OptimizerTools, number: int = 0
) -> TurnProgram:
    """A copy of a program with labelled demonstrations. Makes no call.

    Args:
        program: The program.
        train: Labelled turns.
        tools: With seed and number of demonstrations in its recipe.
        number: Which set of those that the seed gives.
    """
    copy: TurnProgram = program.deepcopy()
    for predictor in copy.active_predictors():
        pool = demo_pool(predictor, train, copy, tools.recipe.seed * 1000 + number, _POOL)
        # DSPy samples with a fixed seed. The pool is shuffled by our seed, so this takes its first k.
        few_shot = dspy.LabeledFewShot(k=tools.recipe.demos.labeled)
        compiled = few_shot.compile(copy.predictor(predictor), trainset=pool, sample=False)
        copy.predictor(predictor).demos = list(compiled.demos)
    return copy
