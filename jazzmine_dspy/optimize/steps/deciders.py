"""Train deciders of other packages out of fold and judge them as whole programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.errors import (
    InputError,
    LMUnansweredError,
    format_error,
)
from jazzmine_dspy.optimize.context import PARTS, RunContext
from jazzmine_dspy.optimize.measuring import evaluate_within
from jazzmine_dspy.optimize.state import Contender, LocalFit
from jazzmine_dspy.optimize.steps.local import holdouts
from jazzmine_dspy.program.deadline import DEADLINE
from jazzmine_dspy.program.decider import DECIDERS, DecidedTurn, Decider
from jazzmine_dspy.program.turn import TurnProgram

SECONDS = float(DEADLINE)
"""Deadline of a turn, so that a decider that hangs does not stop the run."""


def judge_deciders(context: RunContext, local: LocalFit) -> Iterator[Contender]:
    """Judge each decider of the recipe alone, on the turns on which the local decider was judged.

    Turns on which a decider fails count as wrong. A decider that cannot be created or trained, or whose language model
    does not answer, is left out with a note.
    """
    program = local.trained.program
    for name in context.recipe.deciders:

        def train(examples: Sequence[Example], name: str = name) -> TurnProgram:
            return with_decider(context, program, name, examples)

        try:
            whole = train(context.dataset.examples("train"))
            if callable(getattr(DECIDERS[name], "train", None)):
                rounds = list(holdouts(context, train, whole))
            else:
                rounds = [(whole, [turn.example for turn in local.evaluation.turns])]
        except Exception as error:
            context.progress.note(f"the decider {name!r} is left out: {format_error(error)}")
            continue
        try:
            evaluations = [
                evaluate_within(context, f"judge {name}", each, holdout, judge_lm=True, deadline=SECONDS)
                for each, holdout in rounds
                if holdout
            ]
        except LMUnansweredError as error:
            context.progress.note(f"the decider {name!r} is left out: {format_error(error)}")
            continue
        turns = tuple(
            turn for evaluation in evaluations if evaluation is not None for turn in evaluation.turns
        )
        if failed := [turn.error for turn in turns if turn.error]:
            context.progress.note(
                f"the decider {name!r} failed on {len(failed)} of {len(turns)} turns: {failed[0]}"
            )
        if turns:
            evaluation = Evaluation(turns, seed=context.recipe.seed)
            yield Contender(name, "other", whole, evaluation, evaluation.usage["lm_calls_per_turn"])


def with_decider(
    context: RunContext, program: TurnProgram, name: str, examples: Sequence[Example]
) -> TurnProgram:
    """A program with this decider alone, trained on the examples if its class has ``train``."""
    kind = DECIDERS[name]
    train = getattr(kind, "train", None)
    if train is None:
        instance = kind()
    else:
        turns = [
            DecidedTurn(program.read(each.turn, (each.conversation_id,)), each.labels, each.conversation_id)
            for each in examples
        ]
        instance = train(turns, context.recipe.seed)
        if not isinstance(instance, Decider):
            raise InputError(f"its train() returned {type(instance).__name__} and no decider")
    policy = program.policy.model_copy(update={"deciders": ((name, None),), "turn_confidence": None})
    return program.with_policy(policy).bind(deciders={name: instance})


def retrain_deciders(context: RunContext, program: TurnProgram) -> TurnProgram:
    """Train the other packages' deciders of a program again, on all labelled turns except the test part."""
    names = [name for name in program.policy.names if name in context.recipe.deciders]
    every = context.dataset.examples(*PARTS)
    for name in names:
        try:
            alone = with_decider(context, program, name, every)
        except Exception as error:
            context.progress.note(f"the decider {name!r} stays as it was judged: {format_error(error)}")
            continue
        program = program.bind(deciders={name: alone.bindings.deciders[name]})
    return program
