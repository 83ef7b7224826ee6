"""Optimizers of prompts, one file each. Importing this package registers its own ones."""

from jazzmine_dspy.optimize.optimizers import (
    better_together,
    bootstrap,
    copro,
    gepa,
    knn,
    labeled_few_shot,
    mipro,
    random_search,
    simba,
)
from jazzmine_dspy.optimize.optimizers.registry import Candidate, Optimizer, OptimizerTools, optimizer

__all__ = [
    "Candidate",
    "Optimizer",
    "OptimizerTools",
    "better_together",
    "bootstrap",
    "copro",
    "gepa",
    "knn",
    "labeled_few_shot",
    "mipro",
    "optimizer",
    "random_search",
    "simba",
]
