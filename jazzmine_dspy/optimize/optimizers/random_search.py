"""Random search over sets of demonstrations, labelled and bootstrapped; the run scores them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.awaiting import Awaiting, AwaitingGroup
from jazzmine_dspy.optimize.optimizers.bootstrap import bootstrap
from jazzmine_dspy.optimize.optimizers.labeled_few_shot import labeled_few_shot
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, optimizer
from jazzmine_dspy.program.turn import TurnProgram


@optimizer("bootstrap_random_search")
def random_search(
    program: TurnProgram, train: Sequence[Example], tools: OptimizerTools
) -> Iterator[Candidate]:
    """``demos.candidates`` sets of each of the two kinds, drawn by seed."""
    awaited = AwaitingGroup()
    for number in range(tools.recipe.demos.candidates):
        yield from labeled_few_shot(program, train, tools, number=number)
        try:
            yield from bootstrap(program, train, tools, number=number)
        except Awaiting as awaiting:
            awaited.add(awaiting)
    awaited.check()
