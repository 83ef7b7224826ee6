"""DSPy's optimizers that write prompts: COPRO, MIPROv2, SIMBA, GEPA, and BetterTogether."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

import dspy

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.errors import RecipeError
from jazzmine_dspy.optimize.optimizers.compiling import compiled
from jazzmine_dspy.optimize.optimizers.few_shot import bootstrap_few_shot
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, optimizer
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram


@optimizer("copro")
def copro(program: TurnProgram, train: Sequence[Example], tools: OptimizerTools) -> Iterator[Candidate]:
    """The best instructions of ``search.rounds`` rounds, of ``search.candidates`` texts each."""
    search, trainset = tools.recipe.search, tools.trainset(train)
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


@optimizer("miprov2")
def miprov2(program: TurnProgram, train: Sequence[Example], tools: OptimizerTools) -> Iterator[Candidate]:
    """The best combination of ``search.candidates`` texts and as many sets of demonstrations."""
    if importlib.util.find_spec("optuna") is None:
        raise RecipeError(
            "MIPROv2 needs optuna, which is not installed",
            where="optimizer = 'miprov2'",
            remedy="Install the extra 'optimize', or name another optimizer.",
        )
    recipe, trainset, valset = tools.recipe, tools.trainset(train), tools.valset(train)
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


@optimizer("simba")
def simba(program: TurnProgram, train: Sequence[Example], tools: OptimizerTools) -> Iterator[Candidate]:
    """The best program of ``search.rounds`` rounds, of ``search.candidates`` variants each."""
    recipe, trainset = tools.recipe, tools.trainset(train)
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
    trainset, valset = tools.trainset(train), tools.valset(train)
    yield from compiled(
        "gepa",
        program,
        tools,
        lambda student: reflective(tools).compile(student, trainset=trainset, valset=valset),
    )


@optimizer("better_together")
def better_together(
    program: TurnProgram, train: Sequence[Example], tools: OptimizerTools
) -> Iterator[Candidate]:
    """The better of the two compiled programs, or the base program if neither is better."""
    trainset, valset = tools.trainset(train), tools.valset(train)

    def run(student: TrainableProgram) -> Any:
        student.set_lm(dspy.settings.lm)
        steps = {"bootstrap": bootstrap_few_shot(tools), "gepa": reflective(tools)}
        return dspy.BetterTogether(metric=tools.metric, **steps).compile(
            student,
            trainset=trainset,
            valset=valset,
            num_threads=tools.threads,
            seed=tools.recipe.seed,
            strategy="bootstrap -> gepa",
        )

    yield from compiled("better_together", program, tools, run)
