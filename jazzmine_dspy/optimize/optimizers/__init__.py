"""Compiling the prompts. Importing the package registers our optimizers."""

from jazzmine_dspy.optimize.optimizers import registry, search

__all__ = ["registry", "search"]
