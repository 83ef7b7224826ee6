"""Compiling the prompts. Importing the package registers our optimizers."""

from jazzmine_dspy.optimize.optimizers import reflective, registry, search, written

__all__ = ["reflective", "registry", "search", "written"]
