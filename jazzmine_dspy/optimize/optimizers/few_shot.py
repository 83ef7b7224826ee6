"""Demonstrations: labelled ones, right answers, a search over sets of both, and the turns nearest to each message."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import dspy

from jazzmine_dspy.datasets.demos import demo_pool, to_dspy
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.compiling import compiled
from jazzmine_dspy.optimize.optimizers.registry import Candidate, OptimizerTools, assert_alive, optimizer
from jazzmine_dspy.program.demonstrations import to_demo
from jazzmine_dspy.program.prompts import CONVERSATION, NEAREST, SAID, found_by
from jazzmine_dspy.program.trainable import TrainableProgram
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


def bootstrap_few_shot(tools: OptimizerTools) -> dspy.BootstrapFewShot:
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
    trainset = [to_dspy(example) for example in attempts]

    def run(student: TrainableProgram) -> Any:
        teacher = student.deepcopy()
        for predictor in teacher.active_predictors():
            teacher.predictor(predictor).demos = list(source.predictor(predictor).demos)
        return bootstrap_few_shot(tools).compile(student, teacher=teacher, trainset=trainset)

    for candidate in compiled(name, program, tools, run):
        if any(candidate.demonstrations().values()):
            assert_alive(candidate, program)
            yield candidate
        else:
            tools.note(f"{name}: no attempt was good enough for a demonstration")


@optimizer("bootstrap_random_search")
def random_search(
    program: TurnProgram, train: Sequence[Example], tools: OptimizerTools
) -> Iterator[Candidate]:
    """``demos.candidates`` sets of each of the two kinds, drawn by seed."""
    for number in range(tools.recipe.demos.candidates):
        yield from labeled_few_shot(program, train, tools, number=number)
        yield from bootstrap(program, train, tools, number=number)


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
