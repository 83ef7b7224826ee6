"""Demonstrations from right answers: those of the program itself, or of a teacher."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

import dspy

from jazzmine_dspy.datasets.demos import to_dspy
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.optimize.optimizers.compiling import compiled
from jazzmine_dspy.optimize.optimizers.labeled_few_shot import labeled
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, assert_alive, optimizer
from jazzmine_dspy.program.batch import at_once
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram


def few_shot(tools: OptimizerTools) -> dspy.BootstrapFewShot:
    """DSPy's optimizer with the settings of a recipe."""
    return dspy.BootstrapFewShot(
        metric=tools.metric,
        teacher_settings=tools.teacher_settings,
        max_bootstrapped_demos=tools.recipe.demos.bootstrapped,
        max_labeled_demos=0,
    )


@optimizer("bootstrap")
def bootstrap(
    program: TurnProgram, train: Sequence[Example], tools: OptimizerTools, *, number: int = 0
) -> Iterator[Candidate]:
    """One set of right answers, by number.

    Labelled demonstrations teach. The conversations that they are from and those that are attempted are apart: shown
    its own label, a turn is easily right.
    """
    demos, name = tools.recipe.demos, f"bootstrap {number + 1}"
    if not demos.bootstrapped:
        return
    rng = random.Random(tools.recipe.seed * 1000 + number)
    names = sorted({example.conversation_id for example in train})
    taught = set(rng.sample(names, len(names) // 2)) if demos.labeled else set()
    showing = [example for example in train if example.conversation_id in taught]
    source = labeled(program, showing, tools, number) if showing else program
    free = [example for example in train if example.conversation_id not in taught]
    attempts = rng.sample(free, min(demos.attempts, len(free)))
    trainset = [to_dspy(example, program) for example in attempts]

    def run(student: TrainableProgram) -> Any:
        teacher = student.deepcopy()
        for predictor in teacher.active_predictors():
            teacher.predictor(predictor).demos = list(source.predictor(predictor).demos)
        try:
            return few_shot(tools).compile(student, teacher=teacher, trainset=trainset)
        except Awaiting:
            # DSPy decides turns one after another. Requesting all first lets the run wait only once.
            _request_all(teacher, trainset, tools)
            raise

    for candidate in compiled(name, program, tools, run):
        if any(candidate.demonstrations().values()):
            assert_alive(candidate, program)
            yield candidate
        else:
            tools.note(f"{name}: no attempt was right enough to be shown")


def _request_all(teacher: TrainableProgram, trainset: Sequence[dspy.Example], tools: OptimizerTools) -> None:
    def attempt(example: dspy.Example) -> None:
        with contextlib.suppress(Exception):
            teacher(**example.inputs())

    with dspy.context(**tools.teacher_settings):
        list(at_once(attempt, trainset, 1))
