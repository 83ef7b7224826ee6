"""SIMBA: rules and right answers of turns whose answers vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.compiling import compiled
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, optimizer
from jazzmine_dspy.program.turn import TurnProgram


@optimizer("simba")
def simba(program: TurnProgram, train: Sequence[Example], tools: OptimizerTools) -> Iterator[Candidate]:
    """The best program of ``search.rounds`` rounds, of ``search.candidates`` variants each."""
    recipe, trainset = tools.recipe, tools.trainset(train, program)
    yield from compiled(
        "simba",
        program,
        tools,
        lambda student: dspy.SIMBA(
            metric=tools.metric,
            bsize=min(8, len(trainset)),
            num_candidates=recipe.search.candidates,
            max_steps=recipe.search.rounds,
            max_demos=recipe.demos.bootstrapped,
            prompt_model=tools.writer,
            # Its samples are distinguished by their order.
            num_threads=1,
        ).compile(student, trainset=trainset, seed=recipe.seed),
    )
