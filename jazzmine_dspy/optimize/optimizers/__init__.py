"""Compiling the prompts. Importing the package registers our optimizers."""

from jazzmine_dspy.optimize.optimizers import as_written, nearest, reflective, registry, search, written

__all__ = ["as_written", "nearest", "reflective", "registry", "search", "written"]
