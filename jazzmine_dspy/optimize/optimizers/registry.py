"""The optimizers that a recipe can name: ours, and those of other packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.models.extensions import Extensions
from jazzmine_dspy.optimize.optimizers.candidates import Attempt, Optimizer
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.optimize.recipe import Recipe
from jazzmine_dspy.program.turn import TurnProgram

O = TypeVar("O", bound=Callable[..., Iterator[Attempt]])  # noqa: E741


def _checked(_name: str, thing: Any) -> Optimizer:
    if not callable(thing):
        raise ValueError("it cannot be called with a program, turns and the run's means")
    found: Optimizer = thing
    return found


OPTIMIZERS: Extensions[Optimizer] = Extensions("optimizer", "jazzmine_dspy.optimizers", _checked)
"""By the name that a recipe gives. A package offers its own as entry points of these names."""


def optimizer(name: str) -> Callable[[O], O]:
    """Register an optimizer, by which recipes can name it: ``optimizer = "NAME"``.

    Args:
        name: Lower-case letters, digits, ``_``, ``.`` and ``-``. No other optimizer may have it.

    Raises:
        ExtensionError: the name is taken or cannot be one, or the thing cannot be called.

    Example:
        >>> @optimizer("polite")
        ... def polite(base, train, means):
        ...     yield from ()
        >>> "polite" in OPTIMIZERS
        True
    """

    def register(made: O) -> O:
        OPTIMIZERS.add(name, made, origin=f"{made.__module__}.{made.__qualname__}")
        return made

    return register


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
    return OPTIMIZERS[recipe.optimizer](base, train, means or Means(recipe))
