"""COPRO: instructions, rewritten in rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.compiling import compiled
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, optimizer
from jazzmine_dspy.program.turn import TurnProgram


@optimizer("copro")
def copro(program: TurnProgram, train: Sequence[Example], tools: OptimizerTools) -> Iterator[Candidate]:
    """The best instructions of ``search.rounds`` rounds, of ``search.candidates`` texts each."""
    search, trainset = tools.recipe.search, tools.trainset(train, program)
    yield from compiled(
        "copro",
        program,
        tools,
        lambda student: dspy.COPRO(
            prompt_model=tools.writer,
            metric=tools.metric,
            breadth=search.candidates,
            depth=search.rounds,
            init_temperature=1.0,
        ).compile(student, trainset=trainset, eval_kwargs={"num_threads": tools.threads}),
    )
