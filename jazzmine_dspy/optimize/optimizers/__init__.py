"""Compiling the prompts. Importing the package registers our optimizers."""

from jazzmine_dspy.optimize.optimizers import nearest, reflective, registry, search, written

__all__ = ["nearest", "reflective", "registry", "search", "written"]
