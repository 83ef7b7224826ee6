"""The candidates that a recipe names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.candidates import Attempt
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.optimize.optimizers.protocol import Optimizer
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.optimize.registered import optimizer, optimizers
from jazzmine_dspy.program.turn import TurnProgram


def named(name: str) -> Optimizer:
    """The optimizer of that name.

    Raises:
        KeyError: nobody registered one.
        ExtensionError: the package that offers it cannot be loaded.
    """
    found: Optimizer = optimizers()[name]
    return found


@optimizer("none")
def none(_base: TurnProgram, _train: Sequence[Example], _means: Means) -> Iterator[Attempt]:
    """No candidate: the prompts stay as they are written."""
    yield from ()


def candidates(
    recipe: Recipe,
    base: TurnProgram,
    train: Sequence[Example],
    means: Means | None = None,
) -> Iterator[Attempt]:
    """The candidates of a recipe, each made when it is asked for.

    Args:
        recipe: Which optimizer, and its settings.
        base: The uncompiled program with the policy ``lm``, unbound from any language model: a compile runs
            under ``dspy.context(lm=…)``.
        train: Labelled turns to learn from.
        means: What it may use; None is all that it wants, and no turn of dev-A.
    """
    return named(recipe.optimizer)(base, train, means or Means(recipe))
