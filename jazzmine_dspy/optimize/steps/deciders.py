"""Deciders of other packages in a run: trained out of fold where they can be trained, and judged as whole programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.errors import (
    ExtensionError,
    InputError,
    LMUnansweredError,
    RecipeError,
    format_error,
)
from jazzmine_dspy.optimize.context import RunContext
from jazzmine_dspy.optimize.measuring import evaluate_within
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.state import Contender, LocalFit
from jazzmine_dspy.optimize.steps.local import PARTS, holdouts
from jazzmine_dspy.program.bindings import BUILT_IN
from jazzmine_dspy.program.decider import DECIDERS, DecidedTurn, Decider
from jazzmine_dspy.program.patience import DEADLINE
from jazzmine_dspy.program.turn import TurnProgram

SECONDS = float(DEADLINE)
"""For a turn: a decider that hangs ends no run."""


def check_deciders(recipe: Recipe) -> None:
    """See that the deciders that a recipe names are there.

    Raises:
        RecipeError: nobody registered one, or its package cannot be used.
    """
    for name in recipe.deciders:
        try:
            known = name not in BUILT_IN and DECIDERS.get(name) is not None
        except ExtensionError as error:
            raise RecipeError(
                error.message, where=f"deciders of {recipe.name}", remedy=error.remedy
            ) from error
        if not known:
            raise RecipeError(
                f"Nobody registered the decider {name!r}",
                where=f"deciders of {recipe.name}",
                remedy=f"Known are {', '.join(DECIDERS) or 'none'}: install the package that has it.",
            )


def judged_deciders(context: RunContext, local: LocalFit) -> Iterator[Contender]:
    """Each decider of the recipe alone, on the turns on which the local decider was judged.

    Turns on which it fails are wrong. One that cannot be made or trained, or whose language model does not answer, is
    left out, and a note says why.
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
            found = [
                evaluate_within(context, f"judge {name}", each, held, judge_lm=True, deadline=SECONDS)
                for each, held in rounds
                if held
            ]
        except LMUnansweredError as error:
            context.progress.note(f"the decider {name!r} is left out: {format_error(error)}")
            continue
        turns = tuple(turn for evaluation in found if evaluation is not None for turn in evaluation.turns)
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
    """A program that a decider decides alone, trained on some turns where its class can be."""
    kind = DECIDERS[name]
    train = getattr(kind, "train", None)
    if train is None:
        made = kind()
    else:
        seen = [
            DecidedTurn(program.read(each.turn, (each.conversation_id,)), each.labels, each.conversation_id)
            for each in examples
        ]
        made = train(seen, context.recipe.seed)
        if not isinstance(made, Decider):
            raise InputError(f"its train() returned {type(made).__name__} and no decider")
    policy = program.policy.model_copy(update={"deciders": ((name, None),), "turn_confidence": None})
    return program.with_policy(policy).bind(deciders={name: made})


def retrained(context: RunContext, program: TurnProgram) -> TurnProgram:
    """What ships with its deciders of other packages trained on all labelled turns but the test's."""
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
