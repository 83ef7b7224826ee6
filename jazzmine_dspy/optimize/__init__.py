"""Compiling: ``optimize(recipe)`` runs a recipe, ``read_recipe(path)`` reads one.

Names are imported when they are first used, so that importing the package stays cheap.

Example:
    >>> from jazzmine_dspy.optimize import optimize
    >>> optimize.__name__
    'optimize'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jazzmine_dspy.optimize.planning import Plan, plan
    from jazzmine_dspy.optimize.recipe import Recipe, read_recipe
    from jazzmine_dspy.optimize.run import optimize
    from jazzmine_dspy.optimize.state import RunResult

_HOMES = {
    "optimize": "run", "RunResult": "state", "Recipe": "recipe", "read_recipe": "recipe", "Plan": "planning",
    "plan": "planning",
}  # fmt: skip

__all__ = ["Plan", "Recipe", "RunResult", "optimize", "plan", "read_recipe"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
