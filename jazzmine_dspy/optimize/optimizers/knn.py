"""KNN few-shot: the labelled turns nearest to each message become its demonstrations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jazzmine_dspy.datasets.demos import to_demo
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, assert_alive, optimizer
from jazzmine_dspy.program.prompts import CONVERSATION, NEAREST, SAID, found_by
from jazzmine_dspy.program.turn import TurnProgram

PREFIX_NOTE = "its demonstrations are chosen per call, so a prefix cache holds the instructions alone"


@optimizer("knn_few_shot")
def knn_few_shot(
    program: TurnProgram, train: Sequence[Example], tools: OptimizerTools
) -> Iterator[Candidate]:
    """All labelled turns become demonstrations, and each call shows the nearest few.

    ``dspy.KNNFewShot`` bootstraps at each call, and its demonstrations are not saved.
    """
    if tools.recipe.demos.labeled:
        candidate = Candidate("nearest", nearest(program, train, tools), (PREFIX_NOTE,))
        assert_alive(candidate, program)
        yield candidate


def nearest(program: TurnProgram, train: Sequence[Example], tools: OptimizerTools) -> TurnProgram:
    """A copy of a program that shows the nearest labelled turns; during training none of the same conversation.

    Args:
        program: The program.
        train: Labelled turns.
        tools: With the number of demonstrations per call in its recipe.
    """
    copy: TurnProgram = program.deepcopy()
    for predictor in copy.active_predictors():
        pool = []
        for example in train:
            demo = to_demo(predictor, example, program)
            if demo is not None:
                demo[SAID], demo[CONVERSATION] = found_by(example.turn), example.conversation_id
                pool.append(demo)
        copy.predictor(predictor).demos = pool
        setattr(copy.predictor(predictor), NEAREST, tools.recipe.demos.labeled)
    return copy
