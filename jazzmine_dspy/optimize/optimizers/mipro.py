"""MIPROv2: instructions and sets of right answers, searched together."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.optimizers.compiling import compiled
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, optimizer
from jazzmine_dspy.program.turn import TurnProgram


@optimizer("miprov2")
def miprov2(program: TurnProgram, train: Sequence[Example], tools: OptimizerTools) -> Iterator[Candidate]:
    """The best combination of ``search.candidates`` texts and as many sets of demonstrations."""
    if importlib.util.find_spec("optuna") is None:
        raise RecipeError(
            "MIPROv2 needs optuna, which is not installed",
            where="optimizer = 'miprov2'",
            remedy="Install the extra 'optimize', or name another optimizer.",
        )
    recipe, trainset, valset = tools.recipe, tools.trainset(train, program), tools.valset(train, program)
    yield from compiled(
        "miprov2",
        program,
        tools,
        lambda student: dspy.MIPROv2(
            metric=tools.metric,
            prompt_model=tools.writer,
            task_model=dspy.settings.lm,
            teacher_settings=tools.teacher_settings,
            auto=None,
            num_candidates=recipe.search.candidates,
            num_threads=tools.threads,
            max_bootstrapped_demos=recipe.demos.bootstrapped,
            max_labeled_demos=0,
            seed=recipe.seed,
            track_stats=False,
        ).compile(
            student, trainset=trainset, valset=valset, num_trials=recipe.search.trials, minibatch=False
        ),
    )
