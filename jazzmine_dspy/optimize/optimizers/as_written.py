"""The prompts as they are written: what a program that starts from compiled ones can fall back on."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.earlier import AS_WRITTEN
from jazzmine_dspy.optimize.optimizers.candidates import Attempt, Candidate, with_states
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.registered import optimizer
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.turn import TurnProgram


@optimizer(AS_WRITTEN)
def as_written(base: TurnProgram, _train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """One candidate, without a call: no demonstration, and the words of the signatures."""
    yield Attempt("as written", 0, functools.partial(_written, means.recipe, base))


def _written(recipe: Recipe, base: TurnProgram) -> Candidate:
    policy = base.policy.model_copy(update={"wording": recipe.wordings[0]})
    folder = Path(recipe.signatures) if recipe.signatures else None
    plain = TurnProgram(base.registry, policy=policy, signatures=folder)
    return Candidate("as written", with_states(base.with_policy(policy), states_of(plain)))
