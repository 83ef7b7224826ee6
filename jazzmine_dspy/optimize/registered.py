"""The optimizers that a recipe can name: ours, and those of other packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from jazzmine_dspy.models.extensions import Extensions

O = TypeVar("O", bound=Callable[..., Any])  # noqa: E741


def _checked(_name: str, thing: Any) -> Callable[..., Any]:
    if not callable(thing):
        raise ValueError("it cannot be called with a program, turns and the run's means")
    found: Callable[..., Any] = thing
    return found


OPTIMIZERS: Extensions[Callable[..., Any]] = Extensions("optimizer", "jazzmine_dspy.optimizers", _checked)
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


def optimizers() -> Extensions[Callable[..., Any]]:
    """:data:`OPTIMIZERS`, ours among them."""
    # By its name, as entry points are: optimizers read recipes, and a recipe names its optimizer.
    import_module("jazzmine_dspy.optimize.optimizers")
    return OPTIMIZERS
